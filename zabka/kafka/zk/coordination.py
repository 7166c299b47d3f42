"""The client with which the controller and brokers use ZooKeeper (kafka.zk.KafkaZkClient).

It sends requests in pipelined batches, and repeats them after a lost connection. The controller's writes are fenced by
the controller epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from zabka.ensemble.client.service import Check, CoordinationService, Create, Delete, Op, OpResult, SessionState
from zabka.ensemble.errors import ConnectionLoss, ErrorCode, SessionExpired, ZooKeeperError
from zabka.ensemble.ports import Runtime
from zabka.ensemble.records import Stat
from zabka.journal.events import WriteFenced
from zabka.kafka.ports import Emit
from zabka.kafka.zk.znodes import CONTROLLER_EPOCH

T = TypeVar("T")
Request = Callable[[], Awaitable[T]]

LOSS_BACKOFF_MS = 20
"""Delay before a request is sent again after a lost connection; the ZooKeeper client itself waits to reconnect."""


TOGETHER_MAX = 50
"""Maximum number of writes in one transaction: about ten kilobytes, far below jute.maxbuffer."""


class ControllerMoved(Exception):
    """This broker's controller term has ended: ZooKeeper rejected its write, because /controller_epoch has changed."""


class Outcome(NamedTuple, Generic[T]):
    """Result of one request in a batch. `repeated` means that an earlier attempt may have been executed."""

    error: ErrorCode
    value: T | None = None
    repeated: bool = False


class Zk:
    """Sends requests to ZooKeeper, and repeats them after a lost connection.

    SessionExpired is the only session failure that it raises.
    """

    def __init__(self, service: CoordinationService, runtime: Runtime, max_in_flight: int = 10) -> None:
        self.service = service
        self._runtime = runtime
        self._max_in_flight = max_in_flight

    async def call(self, request: Request[T]) -> T:
        """Send a request, and resend it after every lost connection. Raises ZooKeeperError, except ConnectionLoss."""
        outcome = await self.attempt(request)
        if outcome.error is not ErrorCode.OK:
            raise _raised(outcome)
        return outcome.value  # type: ignore[return-value]

    async def attempt(self, request: Request[T]) -> Outcome[T]:
        """Send a request like `call`, but return a rejection as a value. Raises only SessionExpired."""
        return (await self.batch([request]))[0]

    async def batch(
        self, requests: Sequence[Request[T]], halt: Callable[[Outcome[T]], bool] | None = None
    ) -> list[Outcome[T]]:
        """Send requests in a pipeline, at most max.in.flight of them at a time. Return one result each, in order.

        Requests that failed because of a lost connection are sent again, in order, after the others have replies
        (retryRequestsUntilConnected). If `halt` returns true for a result, no more requests are sent, and the list ends
        before the results of the unsent requests. Raises SessionExpired.
        """
        outcomes: dict[int, Outcome[T]] = {}
        todo = list(range(len(requests)))
        repeated = False
        while todo:
            lost, halted = await self._round(requests, todo, outcomes, repeated, halt)
            if halted:
                return [outcomes[index] for index in sorted(outcomes)]
            todo, repeated = lost, True
            if todo:
                if self.service.state is SessionState.CLOSED:
                    raise SessionExpired()
                await self._runtime.sleep(LOSS_BACKOFF_MS)
        return [outcomes[index] for index in range(len(requests))]

    async def _round(
        self,
        requests: Sequence[Request[T]],
        todo: list[int],
        outcomes: dict[int, Outcome[T]],
        repeated: bool,
        halt: Callable[[Outcome[T]], bool] | None,
    ) -> tuple[list[int], bool]:
        lost: list[int] = []
        in_flight: deque[tuple[int, Awaitable[T]]] = deque()
        upcoming = iter(todo)
        halted, expired = False, None
        while True:
            while not halted and len(in_flight) < self._max_in_flight:
                index = next(upcoming, None)
                if index is None:
                    break
                in_flight.append((index, requests[index]()))
            if not in_flight:
                break
            index, answer = in_flight.popleft()
            try:
                outcome: Outcome[T] = Outcome(ErrorCode.OK, await answer, repeated)
            except ConnectionLoss:
                lost.append(index)
                continue
            except SessionExpired as error:
                # Continue to await the requests in flight, so that asyncio does not report their exceptions as never
                # retrieved.
                expired, halted = error, True
                continue
            except ZooKeeperError as error:
                outcome = Outcome(error.code, None, repeated)
            outcomes[index] = outcome
            if halt is not None and halt(outcome):
                halted = True
        if expired is not None:
            raise expired
        return lost, halted


def _raised(outcome: Outcome[Any]) -> ZooKeeperError:
    from zabka.ensemble.errors import error_for

    return error_for(outcome.error)


class Written(NamedTuple):
    """Result of one fenced write. `stat` is the result of a create or setData."""

    error: ErrorCode
    stat: Stat | None = None
    repeated: bool = False


class FencedWriter:
    """Executes the writes of one controller term, each as multi[check(/controller_epoch, version), op].

    ZooKeeper rejects a write if /controller_epoch has changed.
    """

    def __init__(self, zk: Zk, broker_id: int, epoch: int, epoch_zk_version: int, emit: Emit) -> None:
        self.zk = zk
        self.epoch = epoch
        self._fence: Sequence[Op] = [Check(CONTROLLER_EPOCH, epoch_zk_version)]
        self._epoch_version = epoch_zk_version
        self._broker_id = broker_id
        self._emit = emit

    async def write(self, ops: Sequence[Op]) -> list[Written]:
        """Execute each op in a separate transaction. Return the results in order.

        Raises ControllerMoved if any op was fenced (each fenced op is written to the journal). Raises SessionExpired
        for the whole batch, because it is unknown which ops were executed before the session expired.
        """
        outcomes = await self._carry_out([[op] for op in ops])
        return [_written(outcome) for outcome in outcomes]

    async def write_together(self, ops: Sequence[Op]) -> list[Written]:
        """Execute ops, many of them in one transaction because they rarely fail. Return the results in order.

        A transaction is rejected as a whole. The ops of a rejected transaction are then executed one by one, so that
        every op has its own result.
        """
        groups = [ops[first : first + TOGETHER_MAX] for first in range(0, len(ops), TOGETHER_MAX)]
        outcomes = await self._carry_out(groups)
        written: list[Written] = []
        for group, outcome in zip(groups, outcomes, strict=True):
            results = None if outcome.value is None else outcome.value[len(self._fence) :]
            if results is not None and all(result.error is ErrorCode.OK for result in results):
                written += [Written(ErrorCode.OK, result.stat, outcome.repeated) for result in results]
            else:
                # Write the ops one by one. The first attempt may have been executed, so mark each op as possibly
                # repeated.
                alone = await self.write(group)
                written += [each._replace(repeated=each.repeated or outcome.repeated) for each in alone]
        return written

    async def write_as_one(self, ops: Sequence[Op]) -> list[Written]:
        """Execute all of the ops or none, in one transaction. Raises ControllerMoved and SessionExpired.

        If one op is rejected, the ops before it have the result OK, and the ops after it have the result
        RUNTIME_INCONSISTENCY.
        """
        [outcome] = await self._carry_out([ops])
        if outcome.value is None:
            return [Written(outcome.error, None, outcome.repeated)] * len(ops)
        return [Written(each.error, each.stat, outcome.repeated) for each in outcome.value[len(self._fence) :]]

    async def confirm(self) -> None:
        """Check with the quorum that the controller term has not ended.

        Raises ControllerMoved if the term has ended, and SessionExpired if the session has expired.
        """
        await self._carry_out([[]])

    async def _carry_out(self, groups: Sequence[Sequence[Op]]) -> list[Outcome[list[OpResult]]]:
        """Execute each group of ops in a separate transaction. Return the results in order.

        Raises ControllerMoved and SessionExpired.
        """
        requests = [self._request(group) for group in groups]
        try:
            outcomes = await self.zk.batch(requests, halt=self._is_fenced)
        except SessionExpired:
            for op in (op for group in groups for op in group):
                self._journal_fenced(op, "session_expired")
            raise
        fenced = [group for group, outcome in zip(groups, outcomes, strict=False) if self._is_fenced(outcome)]
        for op in (op for group in fenced for op in group):
            self._journal_fenced(op, "controller_epoch")
        if fenced:
            raise ControllerMoved(f"controller epoch {self.epoch} is over")
        return outcomes

    def _journal_fenced(self, op: Op, reason: str) -> None:
        self._emit(
            WriteFenced(
                broker_id=self._broker_id,
                controller_epoch=self.epoch,
                operation=_name(op),
                path=op.path,
                reason=reason,
                epoch_version=self._epoch_version,
            )
        )

    def _request(self, group: Sequence[Op]) -> Request[list[OpResult]]:
        ops = [*self._fence, *group]
        return lambda: self.zk.service.multi(ops)

    def _is_fenced(self, outcome: Outcome[list[OpResult]]) -> bool:
        """Return whether the check of /controller_epoch failed.

        If the check succeeds and another op fails, that op's result is an error, and the check's result is OK.
        """
        check = outcome.value[0].error if outcome.value and self._fence else ErrorCode.OK
        return check not in (ErrorCode.OK, ErrorCode.RUNTIME_INCONSISTENCY)


class UnfencedWriter(FencedWriter):
    """Writer for the historical bug Historical.UNFENCED_CONTROLLER.

    It sends every write without a check, so a write takes effect even after another controller was elected.
    """

    def __init__(self, zk: Zk, broker_id: int, epoch: int, epoch_zk_version: int, emit: Emit) -> None:
        super().__init__(zk, broker_id, epoch, epoch_zk_version, emit)
        self._fence = []

    async def write_together(self, ops: Sequence[Op]) -> list[Written]:
        """Execute each op in a separate transaction."""
        return await self.write(ops)

    async def confirm(self) -> None:
        """Do nothing: this writer does not check whether its controller term has ended."""


def _written(outcome: Outcome[list[OpResult]]) -> Written:
    if outcome.value is None:
        return Written(outcome.error, None, outcome.repeated)
    result = outcome.value[-1]
    return Written(result.error, result.stat, outcome.repeated)


def _name(op: Op) -> str:
    return "create" if isinstance(op, Create) else "delete" if isinstance(op, Delete) else "setData"
