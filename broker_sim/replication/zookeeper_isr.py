"""ISR changes that leaders write into ZooKeeper themselves: Kafka before 2.7 (Historical.DIRECT_ZOOKEEPER_ISR).

A leader writes the partition's state, conditional on the znode version that it remembers and not fenced by a controller
epoch. If another broker wrote in between, the leader "skips updating ISR" and continues to use the outdated version.
Therefore all its later changes are skipped too, until the controller sends it a newer version (KAFKA-2729). If the
response to a write is lost, the leader repeats the write, and finds that the first write has changed the version. Since
KAFKA-1382 it then compares the state with its own. Each write is followed by a znode under /isr_change_notification, so
that the controller updates all brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.replication.partition_host import IsrAnswer, IsrProposal
from zabka.controller.historical import Historical
from zabka.ensemble.errors import ErrorCode, SessionExpired
from zabka.ensemble.ports import Runtime, Task, Timer
from zabka.journal.cause import proposal_cause
from zabka.journal.events import IsrChanged, TopicPartition
from zabka.kafka.ports import Emit
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.znodes import LeaderAndIsr

CHECK_PERIOD_MS = 2_500
LINGER_MS = 5_000
"""Time without ISR changes after which a notification is written. It is written after DELAY_MS_MAX even if changes
continue.
"""
DELAY_MS_MAX = 60_000
"""Time in ms since the last notification after which the next one is written without a wait for LINGER_MS."""

_SKIPPED = IsrAnswer(int(KafkaError.operation_not_attempted))


IsOwn = Callable[[LeaderAndIsr | None, LeaderAndIsr], bool]
"""Function that returns whether this leader wrote the state that ZooKeeper contains. That state is None if it is
unreadable.
"""


def _is_equal(found: LeaderAndIsr | None, written: LeaderAndIsr) -> bool:
    return found is not None and found == written._replace(partition_epoch=found.partition_epoch)


def _is_never_own(found: LeaderAndIsr | None, written: LeaderAndIsr) -> bool:
    return False


class ZooKeeperIsrWriter:
    """Writes ISR proposals to ZooKeeper, at most one per partition at a time."""

    def __init__(self, broker_id: int, zk: Zk, runtime: Runtime, emit: Emit, is_own: IsOwn = _is_equal) -> None:
        self._broker_id = broker_id
        self._is_own = is_own
        self._zk = zk
        self._runtime = runtime
        self._emit = emit
        self._tasks: dict[TopicPartition, Task] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._changed_ms = self._noted_ms = runtime.now().mono_ms
        self._timer: Timer | None = None
        self._note: Task | None = None
        self._closed = False

    def submit(self, proposal: IsrProposal) -> bool:
        """Write the proposal. Return False if a write for that partition is in progress."""
        topic_partition = proposal.topic_partition
        if self._closed or topic_partition in self._tasks:
            return False
        task = self._runtime.spawn(self._write(proposal), f"isr of {topic_partition}")
        self._tasks[topic_partition] = task
        return True

    def close(self) -> None:
        """Stop writing ISR changes."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        if self._note is not None:
            self._note.cancel()
        if self._timer is not None:
            self._timer.cancel()

    async def _write(self, proposal: IsrProposal) -> None:
        try:
            answer = await self._compare_and_set(proposal)
        except SessionExpired:
            answer = _SKIPPED
        self._tasks.pop(proposal.topic_partition, None)
        if not answer.error:
            self._note_change(proposal.topic_partition)
        proposal.answered(answer)

    async def _compare_and_set(self, proposal: IsrProposal) -> IsrAnswer:
        path = znodes.partition_state_path(proposal.topic_partition)
        state = LeaderAndIsr(self._broker_id, proposal.leader_epoch, proposal.isr, proposal.controller_epoch)
        data = znodes.encode_partition_state(state)
        service, version = self._zk.service, proposal.partition_epoch
        outcome = await self._zk.attempt(lambda: service.set(path, data, version))
        if outcome.value is not None:
            self._announce(proposal, outcome.value.version, outcome.value.mzxid)
            return _written(proposal, outcome.value.version)
        if outcome.error is ErrorCode.BAD_VERSION:
            # This is the retry of a write whose connection was lost, and the first attempt may have succeeded. Read the
            # znode.
            found = await self._zk.attempt(lambda: service.get(path))
            if found.value is not None:
                there, stat = found.value
                if self._is_own(znodes.decode_partition_state(there, stat.version), state):
                    return _written(proposal, stat.version)
        return _SKIPPED

    def _announce(self, proposal: IsrProposal, version: int, zxid: int) -> None:
        self._emit(
            IsrChanged(
                topic=proposal.topic_partition.topic,
                partition=proposal.topic_partition.partition,
                isr=list(proposal.isr),
                leader=self._broker_id,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=version,
                cause="lag" if proposal.is_shrink else "caught_up",
                controller_epoch=max(0, proposal.controller_epoch),
                zxid=zxid,
                left=[row.replica for row in proposal.moved] if proposal.is_shrink else [],
                moved=list(proposal.moved),
                caused_by=proposal_cause(proposal.topic_partition, proposal.partition_epoch),
            )
        )

    # ---- notifications for the controller -------------------------------------------------------------------------

    def _note_change(self, topic_partition: TopicPartition) -> None:
        self._changed[topic_partition] = None
        self._changed_ms = self._runtime.now().mono_ms
        self._check_later()

    def _check_later(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._runtime.call_later(CHECK_PERIOD_MS, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._changed or self._note is not None:
            return
        now_ms = self._runtime.now().mono_ms
        if now_ms - self._changed_ms > LINGER_MS or now_ms - self._noted_ms > DELAY_MS_MAX:
            self._note = self._runtime.spawn(self._leave_note(), "isr change notification")
        else:
            self._check_later()

    async def _leave_note(self) -> None:
        partitions, self._changed = list(self._changed), {}
        service = self._zk.service
        path = f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_"
        data = znodes.encode_partition_set(partitions)
        try:
            await self._zk.attempt(partial(service.create, path, data, sequential=True))
            self._noted_ms = self._runtime.now().mono_ms
        except SessionExpired:
            self._changed = {**dict.fromkeys(partitions), **self._changed}
        self._note = None
        if self._changed:
            self._check_later()


def _written(proposal: IsrProposal, version: int) -> IsrAnswer:
    return IsrAnswer(int(KafkaError.none), proposal.leader_epoch, proposal.isr, version)


def isr_writer(config: KafkaConfig, zk: Zk, runtime: Runtime, emit: Emit) -> ZooKeeperIsrWriter | None:
    """Return the writer of this broker's ISR changes, or None if the controller writes them (AlterPartition)."""
    if Historical.DIRECT_ZOOKEEPER_ISR in config.historical:
        is_own = _is_never_own if Historical.OWN_ISR_WRITE_UNKNOWN in config.historical else _is_equal
        return ZooKeeperIsrWriter(config.broker_id, zk, runtime, emit, is_own)
    return None
