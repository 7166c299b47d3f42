"""A consumer group in the simulated world: its members join, rebalance and commit while faults are injected.

The members run on machines without faults.  The records that they poll are added to the producers' history, which is
checked for order and for one value at each offset.  In addition, the group as a whole must not skip an acknowledged
record when a partition moves to another member, and two members must not read a partition in the same generation.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.store import java_hash
from zabka.ensemble.ports import Runtime
from zabka.journal.checkers.kafka_analysis import KafkaHistory, Polled
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.group_client import GroupSettings
from zabka.kafka.client.group_consumer import GroupConsumer
from zabka.kafka.record_batch import Record
from zabka.simulation.checkers.replication_audit import ReplicationAudit
from zabka.simulation.cluster.client_machine import RunKafkaClient

GROUP = "readers"
MEMBERS = 2
POLL_MS = 250
SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 8_000


class Consuming:
    """The members of one consumer group, which consumes one topic."""

    def __init__(
        self,
        run_client: RunKafkaClient,
        replication: ReplicationAudit,
        topic: str,
        history: KafkaHistory,
        members: int = MEMBERS,
    ) -> None:
        self.topic = topic
        self._replication = replication
        self._history = history
        self._seen: dict[str, dict[int, None]] = {}
        self._readers: dict[tuple[int, TopicPartition], str] = {}
        self._overlaps: dict[str, None] = {}
        self.read_to: dict[TopicPartition, int] = {}
        """Offset up to which the group has read each partition."""
        self.members = [_Member(f"member-{number}", self) for number in range(1, members + 1)]
        for number, member in enumerate(self.members, 1):
            run_client(f"member-{number}", member.run)

    @property
    def consumed(self) -> int:
        """Return the number of different records that the group has read."""
        return sum(self.read_to.values())

    @property
    def is_whole(self) -> bool:
        """Return whether all members are in the same generation."""
        consumers = [member.consumer for member in self.members]
        statuses = [consumer.status() for consumer in consumers if consumer is not None]
        if len(statuses) < len(consumers):
            return False
        return len({status.generation_id for status in statuses}) == 1 and statuses[0].generation_id >= 0

    def has_read_to(self, ends: dict[str, int]) -> bool:
        """Return whether the group has read each partition of its topic to the end offset in `ends`."""
        of_topic = {name: end for name, end in ends.items() if name.rpartition("-")[0] == self.topic}
        return all(self.read_to.get(_partition(name), 0) >= end for name, end in of_topic.items())

    def took(
        self, member: str, generation_id: int, assignment: int, name: TopicPartition, records: list[Record]
    ) -> None:
        """Add the records that a member has received to the history; check that no other member reads the partition."""
        values = tuple((record.offset, (record.value or b"").decode()) for record in records)
        self._history.polled.append(Polled(member, assignment, str(name), values))
        self._seen.setdefault(str(name), {}).update(dict.fromkeys(record.offset for record in records))
        self.read_to[name] = max(self.read_to.get(name, 0), records[-1].offset + 1)
        reader = self._readers.setdefault((generation_id, name), member)
        if reader != member:
            self._overlaps[f"{name} is read by {reader} and {member} in generation {generation_id}"] = None

    @property
    def violations(self) -> list[str]:
        """Return violations of the rules for the group. Violations about records are in the producers' history.

        If a log was truncated and rewritten, the group can have skipped records; the invariants check such runs.  If
        the log that stores this group lost records in a way that Kafka allows, generation ids start again from 1, so a
        repeated generation id is no violation.  The group then continues from an older offset, but skips nothing.
        """
        forgiven = self._replication.forgiven()
        overlaps = () if self._kept_in() in forgiven else self._overlaps
        passed_over = [
            f"{sent.partition} offset {sent.offset} was acknowledged, and passed over by the group"
            for sent in self._history.sent
            if sent.offset is not None
            and sent.partition not in forgiven
            and sent.offset < self.read_to.get(_partition(sent.partition), 0)
            and sent.offset not in self._seen[sent.partition]
        ]
        return [*overlaps, *passed_over]

    def _kept_in(self) -> str | None:
        """Return the partition of `__consumer_offsets` that stores the group, or None if it does not exist yet."""
        offsets = self._replication.znodes.topics.get(CONSUMER_OFFSETS)
        return None if offsets is None else f"{CONSUMER_OFFSETS}-{java_hash(GROUP) % len(offsets.partitions)}"


class _Member:
    """The program of one member of the group."""

    def __init__(self, name: str, group: Consuming) -> None:
        self.consumer: GroupConsumer | None = None
        self._name = name
        self._group = group

    async def run(self, client: KafkaClient, runtime: Runtime) -> None:
        """Run the member on a machine of its own."""
        settings = GroupSettings(GROUP, (self._group.topic,), None, SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS)
        self.consumer = GroupConsumer(client, runtime, settings, self._take, poll_period_ms=POLL_MS)
        self.consumer.start()
        await runtime.future()

    def _take(self, name: TopicPartition, records: Sequence[Record]) -> None:
        assert self.consumer is not None, "who is given records consumes"
        status = self.consumer.status()
        self._group.took(self._name, status.generation_id, status.assignment, name, list(records))


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
