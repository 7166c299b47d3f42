"""Transactions in the simulated world: producers, read-process-write loops, and a read_committed consumer.

Producers called payers write to the topic `ledger`.  Two of them share a transactional id and so fence each other.
They commit, abort, or pause in a transaction for so long that it times out, and then continue as zombies.  Movers form
a consumer group that copies every record of `ledger` to `totals` exactly once.  Some of their transactions fail after
the offsets are sent, or wait until another member has their partitions; one mover leaves and rejoins the group
repeatedly.  An auditor continuously reads both topics and the group's committed offsets, and reads everything again at
the end.  All clients run on machines without faults.  `transaction_history` and `transaction_logs` check their
histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from random import Random

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.store import java_hash
from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client import Isolation
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.coordinators import KeyType, find_coordinator
from zabka.kafka.client.group_client import GroupSettings
from zabka.kafka.client.history_clients import TopicPlan, create_topic
from zabka.kafka.client.read_process_write import Process, ReadProcessWrite
from zabka.kafka.client.transactional_producer import GroupMetadata, TransactionalProducer
from zabka.kafka.ports import ChannelBroken
from zabka.kafka.record_batch import Record
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.simulation.checkers.replication_audit import ReplicationAudit
from zabka.simulation.checkers.transaction_history import Attempt, Outcome, TransactionHistory
from zabka.simulation.checkers.transaction_logs import Decision, TransactionLogs
from zabka.simulation.cluster.client_machine import KafkaProgram, RunKafkaClient
from zabka.simulation.draws import derive_random

LEDGER, TOTALS = "ledger", "totals"
PARTITIONS = {LEDGER: 2, TOTALS: 1}
"""Number of partitions of each topic."""
GROUP = "movers"
MOVERS = 2
PAYERS: Mapping[str, tuple[str, int]] = {"payer-1": ("till", 900), "payer-2": ("till", 9_000), "payer-3": ("desk", 900)}
"""For each payer's machine: its transactional id, and its longest pause in ms before it starts again."""
IDS = ("till", "desk")
TIMEOUT_MS = 2_500
"""transaction.timeout.ms of the payers."""
MOVER_TIMEOUT_MS = 15_000
"""transaction.timeout.ms of the movers.

This timeout is longer than the session timeout of the movers' group, so that movers are fenced only because of their
generation.
"""
STALL_CHANCE, STALL_MS = 0.2, (500, 6_000)
MOVER_STALL_CHANCE, MOVER_STALL_MS = 0.03, (6_500, 10_000)
LINGER_CHANCE, LINGER_MS_MAX, FAILURE_CHANCE = 0.15, 1_500, 0.5
"""Probability that a mover waits after sending offsets, the longest wait in ms, and probability that it then fails."""
LEAVER = "mover-2"
STAYS_MS, AWAY_MS = (3_000, 9_000), (500, 3_000)
"""Shortest and longest time in ms for which LEAVER stays in the group, and for which it stays outside."""
COMMIT_CHANCE = 0.8
PAUSE_MS_MAX = 2_000
RECORDS_MAX = 3
POLL_MS = 700
ASK_TIMEOUT_MS = 2_000
SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS = 6_000, 8_000
_FAILURES = (KafkaRequestFailed, KafkaUnavailable)


def broker_keys(brokers: int) -> dict[str, str]:
    """Return broker settings for transactional clients: few internal partitions, early abort of open transactions."""
    factor = min(3, brokers)
    return {
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(min(2, factor)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }


def _partitions(*topics: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS[topic])]


def _values(records: Iterable[Record]) -> dict[int, str]:
    return {record.offset: (record.value or b"").decode() for record in records}


class _Producer(TransactionalProducer):
    """A transactional producer that records its requests and their replies in the history."""

    def __init__(
        self, client: AdminClient, runtime: Runtime, transactional_id: str, history: TransactionHistory,
        logs: TransactionLogs, offsets_in: Callable[[], TopicPartition], timeout_ms: int, draw: Random,
    ) -> None:  # fmt: skip
        super().__init__(client, runtime, transactional_id, timeout_ms)
        self._draw = draw
        self._history = history
        self._logs = logs
        self._offsets_in = offsets_in
        self._attempt: Attempt | None = None

    @property
    def attempt(self) -> Attempt:
        """Return the open transaction, or start a new one if none is open."""
        if self._attempt is None:
            self._attempt = self._history.begin(self.transactional_id)
        return self._attempt

    async def begin(self) -> None:
        """Get a new producer epoch, which makes the coordinator abort an open transaction."""
        await super().begin()
        self._history.started(self.transactional_id, self.producer)

    async def send(self, partition: TopicPartition, records: Iterable[Record]) -> int:
        """Send records in the transaction; each value must be unique."""
        batch, attempt = list(records), self.attempt
        for record in batch:
            self._history.sending(attempt, partition, (record.value or b"").decode())
        newest = self._history.newest(self.transactional_id)
        offset = await super().send(partition, batch)
        self._history.acknowledged(attempt, self.producer, newest, "a produce")
        return offset

    async def send_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> None:
        """Send consumed offsets in the transaction, with the transaction's number as metadata."""
        draw, attempt, newest = self._draw, self.attempt, self._history.newest(self.transactional_id)
        if draw.random() < MOVER_STALL_CHANCE:
            await self._runtime.sleep(draw.randrange(*MOVER_STALL_MS))
        attempt.offsets, attempt.kept_in = dict(offsets), self._offsets_in()
        await super().send_offsets(group, offsets, str(attempt.number))
        self._history.acknowledged(attempt, self.producer, newest, "a commit of offsets")
        if draw.random() < LINGER_CHANCE:
            await self._runtime.sleep(draw.randrange(1, LINGER_MS_MAX))
            if draw.random() < FAILURE_CHANCE:
                raise KafkaUnavailable("the application has failed")

    async def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction, and record the outcome in the history."""
        attempt, newest = self.attempt, self._history.newest(self.transactional_id)
        self._attempt = None
        if not self._is_open:
            attempt.outcome = Outcome.ABORTED
            return
        self._history.ending(attempt, commit=commit)
        await super().end(commit=commit)
        coordinator = (await self._coordinator(None)).broker_id
        if not self._logs.is_proven(Decision(self.transactional_id, *self.producer, commit), coordinator):
            self._history.unproven(attempt)
            return
        self._history.ended(attempt)
        self._history.acknowledged(attempt, self.producer, newest, "the end of a transaction")


class Transacting:
    """All transactional clients of one run.

    `stop()` stops the payers; `verified` becomes True when the auditor has read everything again at the end.
    """

    def __init__(
        self, run_client: RunKafkaClient, replication: ReplicationAudit, logs: TransactionLogs, seed: int, brokers: int
    ) -> None:
        self.history = TransactionHistory()
        self.verified = False
        self._replication = replication
        self._logs = logs
        self._factor = min(3, brokers)
        self._stopping = False
        self._reads_back = False
        self._loops: list[ReadProcessWrite] = []
        self._done: dict[str, None] = {}
        self._movers = [f"mover-{number}" for number in range(1, MOVERS + 1)]
        """Names of the machines on which the movers run. They are also the movers' transactional ids.

        A mover is a client that copies records from one topic to another.
        """
        self._stuck: dict[str, None] = {}
        """Partitions whose log still has an open transaction at the end."""
        for name in PAYERS:
            run_client(name, self._payer(name, derive_random(seed, name)))
        for name in self._movers:
            run_client(name, self._mover(name, derive_random(seed, name)))
        run_client("auditor", self._audit)

    # ---- payers ----------------------------------------------------------------------------------------------------

    def _payer(self, name: str, draw: Random) -> KafkaProgram:
        transactional_id, back_ms_max = PAYERS[name]

        async def pay(client: AdminClient, runtime: Runtime) -> None:
            for topic, count in PARTITIONS.items():
                await create_topic(client, runtime, TopicPlan(topic, count, self._factor, {}))
            producer = self._producer(client, runtime, transactional_id, TIMEOUT_MS, draw)
            has_begun = False
            while not self._stopping:
                pause_ms_max = PAUSE_MS_MAX
                try:
                    if not has_begun:
                        await producer.begin()
                    has_begun = False
                    await _pay(producer, runtime, draw)
                    has_begun = True
                except _FAILURES:
                    pause_ms_max = back_ms_max
                await runtime.sleep(draw.randrange(1, pause_ms_max))
            self._done[name] = None

        return pay

    def _producer(
        self, client: AdminClient, runtime: Runtime, transactional_id: str, timeout_ms: int, draw: Random
    ) -> _Producer:
        return _Producer(
            client, runtime, transactional_id, self.history, self._logs, self._offsets_partition,
            timeout_ms=timeout_ms, draw=draw,
        )  # fmt: skip

    # ---- movers ----------------------------------------------------------------------------------------------------

    def _mover(self, name: str, draw: Random) -> KafkaProgram:
        settings = GroupSettings(GROUP, (LEDGER,), None, SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS)

        async def move(client: AdminClient, runtime: Runtime) -> None:
            while True:
                producer = self._producer(client, runtime, name, MOVER_TIMEOUT_MS, draw)
                leaves_ms = runtime.now().mono_ms + draw.randrange(*STAYS_MS)
                loop = ReadProcessWrite(client, runtime, settings, producer, self._process(producer), POLL_MS)
                self._loops.append(loop)
                await loop.run(partial(self._leaves, name, runtime, leaves_ms))
                await runtime.sleep(draw.randrange(*AWAY_MS))

        return move

    def _leaves(self, name: str, runtime: Runtime, leaves_ms: int) -> bool:
        return name == LEAVER and not self._stopping and runtime.now().mono_ms > leaves_ms

    def _process(self, producer: _Producer) -> Process:
        def process(partition: TopicPartition, record: Record) -> tuple[TopicPartition, Record]:
            value = (record.value or b"").decode()
            self.history.read(partition, record.offset, value)
            attempt = producer.attempt
            attempt.inputs[value] = partition, record.offset
            output = f"{attempt.number}/{value}".encode()
            return TopicPartition(TOTALS, 0), Record(None, output, record.timestamp_ms)

        return process

    def _offsets_partition(self) -> TopicPartition:
        topic = self._replication.znodes.topics.get(CONSUMER_OFFSETS)
        return TopicPartition(CONSUMER_OFFSETS, java_hash(GROUP) % len(topic.partitions) if topic else 0)

    # ---- auditor ---------------------------------------------------------------------------------------------------

    async def _audit(self, client: AdminClient, runtime: Runtime) -> None:
        positions = dict.fromkeys(_partitions(*PARTITIONS), 0)
        while not self._reads_back:
            await runtime.sleep(POLL_MS)
            for name, position in positions.items():
                with suppress(*_FAILURES):
                    positions[name] = await self._read(client, name, position)
            with suppress(*_FAILURES):
                await self._look_at_offsets(client, runtime)
        while not self.verified:
            with suppress(*_FAILURES):
                await self._read_back(client, list(positions))
                self.history.group_offsets = await self._look_at_offsets(client, runtime)
                self.verified = True
            await runtime.sleep(POLL_MS)

    async def _read(self, client: AdminClient, name: TopicPartition, position: int) -> int:
        """Read records from `position`, and return the position after them."""
        try:
            fetched = await client.fetch(
                name, position, max_wait_ms=0, timeout_ms=ASK_TIMEOUT_MS, isolation=Isolation.READ_COMMITTED
            )
        except KafkaRequestFailed as refused:
            return 0 if refused.error is ErrorCode.offset_out_of_range else position
        self.history.polled(name, position, fetched.next_offset, _values(fetched.records))
        return fetched.next_offset

    async def _read_back(self, client: AdminClient, names: Iterable[TopicPartition]) -> None:
        found: dict[TopicPartition, dict[int, str]] = {}
        for name in names:
            values = found[name] = {}
            position, end = 0, await client.list_offset(name, isolation=Isolation.READ_COMMITTED)
            while position < end:
                fetched = await client.fetch(name, position, max_wait_ms=0, isolation=Isolation.READ_COMMITTED)
                received = _values(fetched.records)
                self.history.polled(name, position, fetched.next_offset, received)
                values.update(received)
                position = fetched.next_offset
        self.history.read_back = found

    async def _look_at_offsets(self, client: AdminClient, runtime: Runtime) -> dict[TopicPartition, int]:
        """Return the committed offsets of the movers' group, ignoring pending transactional commits."""
        coordinator = await find_coordinator(client, runtime, KeyType.GROUP, GROUP, ASK_TIMEOUT_MS)
        rows = [{"name": LEDGER, "partition_indexes": list(range(PARTITIONS[LEDGER]))}]
        asked = request(ApiKey.OFFSET_FETCH, 7, group_id=GROUP, topics=rows, require_stable=False)
        try:
            answer = await client.call(coordinator, asked, ASK_TIMEOUT_MS)
        except ChannelBroken as broken:
            raise KafkaUnavailable(str(broken)) from None
        if answer.error_code != ErrorCode.none:
            raise KafkaRequestFailed(ErrorCode(answer.error_code))
        found = {}
        for row in answer.topics[0].partitions:
            if row.error_code != ErrorCode.none:
                raise KafkaRequestFailed(ErrorCode(row.error_code))
            if row.committed_offset >= 0:
                name = TopicPartition(LEDGER, int(row.partition_index))
                found[name] = int(row.committed_offset)
                self.history.offset_returned(name, found[name], int(row.metadata))
        return found

    # ---- progress --------------------------------------------------------------------------------------------------

    @property
    def committed(self) -> int:
        """Return the number of acknowledged commits of payers."""
        return sum(each.outcome is Outcome.COMMITTED and each.transactional_id in IDS for each in self.history.attempts)

    @property
    def moved(self) -> int:
        """Return the number of records in the movers' acknowledged transactions."""
        return sum(loop.processed for loop in self._loops)

    def stop(self) -> None:
        """Make the payers (the producers that write payments) stop after their current transaction."""
        self._stopping = True

    @property
    def is_stopped(self) -> bool:
        """Return whether all payers have stopped."""
        return len(self._done) == len(PAYERS)

    @property
    def is_decided(self) -> bool:
        """Return whether no transaction is open, and the movers have copied all records."""
        return all(map(self._logs.is_decided, self._every_log())) and all(
            self._replication.leader_log_end(name) in [loop.position(name) for loop in self._loops]
            for name in _partitions(LEDGER)
        )

    @property
    def may_hang(self) -> bool:
        """Return whether a log lost records in a way that Kafka allows, which can leave transactions open forever."""
        return self.is_excused(self._every_log(), *IDS, *self._movers)

    def _every_log(self) -> list[TopicPartition]:
        return [*_partitions(*PARTITIONS), self._offsets_partition()]

    def read_back(self) -> None:
        """Make the auditor read everything again, after which `verified` is True."""
        self._stuck = {str(name): None for name in self._every_log() if not self._logs.is_decided(name)}
        self._reads_back = True

    def check_markers(self) -> None:
        """Check, at the end of the run, that each transaction has the same marker in all its partitions."""
        self._logs.check_markers(self.history.attempts)

    # ---- results of the checks -------------------------------------------------------------------------------------

    def is_excused(self, partitions: Iterable[TopicPartition], *transactional_ids: str) -> bool:
        """Return whether one of these partitions lost records in a way that Kafka allows.

        The partitions of `__transaction_state` for the transactional ids count as well. A partition that had such a
        loss also counts if its log still has an open transaction at the end of the run.
        """
        used = [*partitions, *map(self._logs.state_partition, transactional_ids)]
        excused = self._replication.forgiven() | self._stuck
        return any(str(name) in excused for name in used)

    @property
    def violations(self) -> list[str]:
        """Return the violations in the history of the transactional clients."""
        return self.history.violations(self.is_excused)


async def _pay(producer: _Producer, runtime: Runtime, draw: Random) -> None:
    """Send the records of one transaction, in some cases after a long pause, and commit or abort it."""
    attempt = producer.attempt
    first, count = draw.randrange(0, PARTITIONS[LEDGER]), draw.randrange(1, RECORDS_MAX + 1)
    stalls = draw.random() < STALL_CHANCE
    try:
        for index in range(count):
            partition = TopicPartition(LEDGER, (first + index) % PARTITIONS[LEDGER])
            value = f"{attempt.number}.{index}".encode()
            await producer.send(partition, [Record(None, value, runtime.now().wall_ms)])
            if stalls and index == 0:
                await runtime.sleep(draw.randrange(*STALL_MS))
    except _FAILURES:
        await producer.end(commit=False)
        raise
    await producer.end(commit=draw.random() < COMMIT_CHANCE)
