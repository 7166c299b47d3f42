"""Methods that live and simulated clusters share: for records, groups, leaders and quotas, and for waiting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.group_admin import GroupAdmin, GroupInfo
from zabka.kafka.client.reassignment_client import alter_reassignments
from zabka.testing.cluster import Broker, ClusterFailed, Happening, Topics
from zabka.testing.quotas import Quotas
from zabka.testing.records import IsolationLevel, Payload, Record, read_records, write_records

T = TypeVar("T")
B = TypeVar("B", bound=Broker)

Work = Callable[[AdminClient, Runtime], Coroutine[Any, Any, T]]
"""A coroutine function that sends the requests of a call with a Kafka client."""


class SharedCalls(Generic[B]):
    """Methods of a cluster that need a Kafka client."""

    brokers: Mapping[int, B]
    topics: Topics

    @abstractmethod
    def call(self, work: Work[T]) -> T:
        """Run requests with a Kafka client, and return the result. Raises ClusterFailed if a request is rejected."""

    @abstractmethod
    def until(self, condition: Callable[[], T | Literal[False] | None], timeout_s: float = 30.0, what: str = "") -> T:
        """Poll until the condition returns a true value, and return that value."""

    @abstractmethod
    def events(self, *types: str, after_us: int | None = None) -> list[Happening]:
        """Return the events since the test began, or since `after_us`; with `types`, only events of these types."""

    @abstractmethod
    def elect(self, kind: str, topic: str, partition: int = 0) -> str | None:
        """Request a PREFERRED or UNCLEAN election; return None, or Kafka's error name if it failed."""

    @property
    @abstractmethod
    def now_us(self) -> int:
        """Return the current time on the clock of the events' `mono_us`."""

    # ---- records -----------------------------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        values: Sequence[Payload | Record],
        partition: int = 0,
        *,
        acks: int = -1,
        timeout_s: float = 10.0,
    ) -> int:
        """Write values or records, in one batch per partition, and return the offset of the first record."""
        return self.call(
            lambda client, runtime: write_records(
                client, topic, values, partition, now_ms=runtime.now().wall_ms, acks=acks, timeout_s=timeout_s
            )
        )

    def consume(self, topic: str, partition: int = 0, *, timeout_s: float = 10.0) -> list[str]:
        """Return every committed value of a partition as a string, in order."""
        return [record.text for record in self.records(topic, partition, timeout_s=timeout_s)]

    def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        timeout_s: float = 10.0,
    ) -> list[Record]:
        """Return every record below the high watermark of a partition, or of all partitions in partition order.

        With isolation level read_committed, records of open and aborted transactions are omitted.
        """
        numbers = [each.partition for each in self.topics[topic].partitions] if partition is None else [partition]
        return self.call(lambda client, _: read_records(client, topic, numbers, isolation_level, timeout_s))

    # ---- groups, leaders, quotas -------------------------------------------------------------------------------------

    @property
    def quotas(self) -> Quotas:
        """The quotas of users, client ids and IP addresses."""
        return Quotas(self)

    def coordinator(self, group: str) -> B:
        """Return the broker that is the coordinator of a consumer group."""
        return self.brokers[self.call(lambda client, runtime: GroupAdmin(client, runtime).coordinator(group)).broker_id]

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """Return a group's lag: the number of records after its committed offset, keyed by topic and partition.

        If the group has no committed offset for a partition that a member has, all records of the partition count.
        """
        return self.call(lambda client, runtime: _lag(client, runtime, group))

    def move_leader(self, topic: str, partition: int, to: Broker | int, timeout_s: float = 30.0) -> None:
        """Make a replica the preferred leader of a partition, and elect it.

        Raises ClusterFailed if the broker has no replica of the partition, or is not its leader after `timeout_s`.
        """
        target = to if isinstance(to, int) else to.id
        name = TopicPartition(topic, partition)
        replicas = self.topics[topic].partitions[partition].replicas
        if target not in replicas:
            raise ClusterFailed(f"broker {target} has no replica of {name}: its replicas are on {replicas}")
        order = [target, *(replica for replica in replicas if replica != target)]
        refusals = self.call(lambda client, _: alter_reassignments(client, {name: order}))
        if refusals:
            raise ClusterFailed(f"{name} cannot be reassigned: {refusals[name]}")

        def leads() -> bool:
            # The election fails until the reassignment is complete and the new preferred leader is in the ISR.
            return self._leads(target, topic, partition) or not self.elect("PREFERRED", topic, partition)

        self.until(leads, timeout_s, f"the election of broker {target} for {name}")
        self.until_leads(target, topic, partition, timeout_s)

    # ---- waits -------------------------------------------------------------------------------------------------------

    def until_leads(self, broker: Broker | int, topic: str, partition: int = 0, timeout_s: float = 30.0) -> None:
        """Wait until a broker leads a partition."""
        number = broker if isinstance(broker, int) else broker.id
        what = f"broker {number} as leader of {topic}-{partition}"
        self.until(lambda: self._leads(number, topic, partition), timeout_s, what)

    def _leads(self, broker: int, topic: str, partition: int) -> bool:
        return self.topics[topic].partitions[partition].leader == broker

    def until_in_sync(self, topic: str, timeout_s: float = 60.0) -> None:
        """Wait until every partition of a topic has a leader and all its replicas in the ISR."""

        def partitions_out_of_sync_are_none() -> bool:
            behind = [each for each in self.topics[topic].partitions if not each.in_sync]
            assert not behind, f"not in sync: {behind}"
            return bool(self.topics[topic].partitions)

        self.until(partitions_out_of_sync_are_none, timeout_s, f"all replicas of {topic} in sync")

    def until_stable(self, group: str, members: int | None = None, timeout_s: float = 60.0) -> GroupInfo:
        """Wait until a group is Stable, with `members` members if given, and return its description."""

        def stable() -> GroupInfo:
            found = self.call(lambda client, runtime: GroupAdmin(client, runtime).described(group))
            count = len(found.members)
            assert found.state == "Stable", f"the group is {found.state} with {count} members"
            assert members in (None, count), f"the group has {count} members"
            return found

        return self.until(stable, timeout_s, f"a stable group {group}")

    def until_caught_up(self, group: str, timeout_s: float = 60.0) -> None:
        """Wait until a group has committed offsets and has no lag."""

        def caught_up() -> bool:
            lag = self.lag(group)
            assert lag, "the group has no partitions and no offsets"
            behind = {f"{topic}-{number}": count for (topic, number), count in lag.items() if count}
            assert not behind, f"lag: {behind}"
            return True

        self.until(caught_up, timeout_s, f"no lag of group {group}")


async def _lag(client: AdminClient, runtime: Runtime, group: str) -> dict[tuple[str, int], int]:
    groups = GroupAdmin(client, runtime)
    committed = await groups.offsets(group)
    assigned = {name for member in (await groups.described(group)).members for name in member.partitions}
    found: dict[tuple[str, int], int] = {}
    for name in sorted({*committed, *assigned}):
        begin = committed[name] if name in committed else await client.list_offset(name, -2)
        found[name] = await client.list_offset(name) - begin
    return found
