"""The controller's client of the coordination service (kafka.zk.KafkaZkClient).

Requests are repeated after a lost connection and pipelined in batches, and writes are fenced by the controller epoch.
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
"""The delay before a request is resent after a lost connection. The service itself waits for the reconnect."""


TOGETHER_MAX = 50
"""The maximum number of writes in one transaction: about ten kilobytes, far below jute.maxbuffer."""


class ControllerMoved(Exception):
    """This broker's controller term has ended: /controller_epoch has changed, and the broker's write was rejected."""


class Outcome(NamedTuple, Generic[T]):
    """The outcome of one request in a batch. `repeated` means that an earlier attempt may have been carried out."""

    error: ErrorCode
    value: T | None = None
    repeated: bool = False


class Zk:
    """Sends requests, and repeats them after a lost connection. SessionExpired is the only session failure raised."""

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
        """Send as `call` does, but return rejections as values; raises only SessionExpired."""
        return (await self.batch([request]))[0]

    async def batch(
        self, requests: Sequence[Request[T]], halt: Callable[[Outcome[T]], bool] | None = None
    ) -> list[Outcome[T]]:
        """Pipeline requests, at most max.in.flight of them at a time; return one outcome each, in order.

        Requests that failed with a lost connection are resent, in order, after the others have replies
        (retryRequestsUntilConnected). If `halt` returns true for an outcome, no more requests are sent, and the
        outcomes of the unsent requests are missing at the end. Raises SessionExpired.
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
                # Continue to await the requests in flight, so that no failure goes unnoticed.
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
    """The outcome of one fenced write; `stat` is the result of a create or setData."""

    error: ErrorCode
    stat: Stat | None = None
    repeated: bool = False


class FencedWriter:
    """The writes of one controller term: each is multi[check(/controller_epoch, version), op].

    A write is rejected if /controller_epoch has changed.
    """

    def __init__(self, zk: Zk, broker_id: int, epoch: int, epoch_zk_version: int, emit: Emit) -> None:
        self.zk = zk
        self.epoch = epoch
        self._fence: Sequence[Op] = [Check(CONTROLLER_EPOCH, epoch_zk_version)]
        self._epoch_version = epoch_zk_version
        self._broker_id = broker_id
        self._emit = emit

    async def write(self, ops: Sequence[Op]) -> list[Written]:
        """Execute each op in a separate transaction; return the outcomes in order.

        Raises ControllerMoved if any op was fenced (each fenced op is written to the journal). Raises SessionExpired
        for the whole batch, because it is unknown which ops had been executed before.
        """
        outcomes = await self._carry_out([[op] for op in ops])
        return [_written(outcome) for outcome in outcomes]

    async def write_together(self, ops: Sequence[Op]) -> list[Written]:
        """Execute ops that rarely fail and need no separate transactions: many of them share one.

        A transaction is rejected as a whole. The ops of a rejected transaction are repeated individually, so that every
        op has its own outcome here too.
        """
        groups = [ops[first : first + TOGETHER_MAX] for first in range(0, len(ops), TOGETHER_MAX)]
        outcomes = await self._carry_out(groups)
        written: list[Written] = []
        for group, outcome in zip(groups, outcomes, strict=True):
            results = None if outcome.value is None else outcome.value[len(self._fence) :]
            if results is not None and all(result.error is ErrorCode.OK for result in results):
                written += [Written(ErrorCode.OK, result.stat, outcome.repeated) for result in results]
            else:
                # Write the ops one by one. If one conflicts with its own first attempt, it must be marked as possibly
                # repeated.
                alone = await self.write(group)
                written += [each._replace(repeated=each.repeated or outcome.repeated) for each in alone]
        return written

    async def write_as_one(self, ops: Sequence[Op]) -> list[Written]:
        """Execute all of the ops, or none. Raises ControllerMoved and SessionExpired.

        If one op is rejected, the outcome of the ops before it is OK, and of the ops after it RUNTIME_INCONSISTENCY.
        """
        [outcome] = await self._carry_out([ops])
        if outcome.value is None:
            return [Written(outcome.error, None, outcome.repeated)] * len(ops)
        return [Written(each.error, each.stat, outcome.repeated) for each in outcome.value[len(self._fence) :]]

    async def confirm(self) -> None:
        """Check with the quorum that the controller term has not ended.

        Raises ControllerMoved if it has, and SessionExpired.
        """
        await self._carry_out([[]])

    async def _carry_out(self, groups: Sequence[Sequence[Op]]) -> list[Outcome[list[OpResult]]]:
        """Execute each group in a separate transaction; return the outcomes in order.

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
        """Return whether the check of /controller_epoch itself failed.

        If the check succeeds and another op fails, that op has the error, and the check has OK.
        """
        check = outcome.value[0].error if outcome.value and self._fence else ErrorCode.OK
        return check not in (ErrorCode.OK, ErrorCode.RUNTIME_INCONSISTENCY)


class UnfencedWriter(FencedWriter):
    """Writer for Historical.UNFENCED_CONTROLLER.

    Every write is sent alone, and takes effect even after another election.
    """

    def __init__(self, zk: Zk, broker_id: int, epoch: int, epoch_zk_version: int, emit: Emit) -> None:
        super().__init__(zk, broker_id, epoch, epoch_zk_version, emit)
        self._fence = []

    async def write_together(self, ops: Sequence[Op]) -> list[Written]:
        """Execute each op alone."""
        return await self.write(ops)

    async def confirm(self) -> None:
        """Do nothing: the writes of this writer never show that its term has ended."""


def _written(outcome: Outcome[list[OpResult]]) -> Written:
    if outcome.value is None:
        return Written(outcome.error, None, outcome.repeated)
    result = outcome.value[-1]
    return Written(result.error, result.stat, outcome.repeated)


def _name(op: Op) -> str:
    return "create" if isinstance(op, Create) else "delete" if isinstance(op, Delete) else "setData"
