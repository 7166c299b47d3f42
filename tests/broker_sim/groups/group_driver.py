"""Consumer group members for tests. A test sends a member's request, and need not wait for the coordinator's
response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster, Node
from zabka.broker_sim.groups.store import java_hash
from zabka.journal.events import TopicPartition
from zabka.kafka.client.consumer_protocol import encode_assignment, encode_subscription
from zabka.kafka.wire.kafka_schema import ApiKey, request

GROUP = "payments"
OFFSETS_PARTITIONS = 4
INITIAL_DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
P0 = TopicPartition("orders", 0)


class Asked:
    """A request that was sent, and its response once received."""

    def __init__(self) -> None:
        self.answer: Any = None

    @property
    def error(self) -> ErrorCode | None:
        return None if self.answer is None else ErrorCode(self.answer.error_code)


def a_cluster(brokers: int = 3, **keys: str) -> Cluster:
    """Start brokers with a topic and a `__consumer_offsets` topic of four partitions, all with leaders."""
    keys = {"offsets_topic_num_partitions": str(OFFSETS_PARTITIONS), **keys}
    keys.setdefault("offsets_topic_replication_factor", str(min(3, brokers)))
    cluster = Cluster(brokers, **keys).start()
    cluster.run(cluster.client.create_topic("orders", 2, min(3, brokers)))
    find(cluster.controller, GROUP)
    cluster.wait(3_000)
    return cluster


def find(node: Node, *group_ids: str) -> Any:
    """Send FindCoordinator for these groups to that broker, and return the response."""
    asked = request(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=group_ids)
    return node.cluster.on(node, node.broker.handle(asked, "c", "PLAINTEXT")).coordinators


class Members:
    """Members of one consumer group. They send requests to the group's current coordinator."""

    def __init__(self, cluster: Cluster, group_id: str = GROUP) -> None:
        self.cluster = cluster
        self.group_id = group_id

    @property
    def coordinator(self) -> Node:
        number = java_hash(self.group_id) % OFFSETS_PARTITIONS
        tp = TopicPartition("__consumer_offsets", number)
        leaders = [
            node
            for node in self.cluster.nodes.values()
            if not node.runtime.stopped and tp in node.broker.replicas.partitions
            if node.broker.replicas.partitions[tp].is_leader
        ]
        return max(leaders, key=lambda node: node.broker.replicas.partitions[tp].leader_epoch)

    def ask(self, key: ApiKey, version: int, node: Node | None = None, **values: Any) -> Asked:
        """Send the request, and wait 20 ms for an immediate response."""
        asked = Asked()
        message = request(key, version, group_id=self.group_id, **values)
        at = node or self.coordinator

        async def carry_out() -> None:
            asked.answer = await at.broker.handle(message, "tester", "PLAINTEXT", "/10.0.0.1")

        at.runtime.spawn(carry_out(), "ask")
        self.cluster.wait(20)
        return asked

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance_id: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        node: Node | None = None,
    ) -> Asked:
        offered = {"range": encode_subscription(["orders"])} if protocols is None else protocols
        return self.ask(
            ApiKey.JOIN_GROUP,
            version,
            node,
            member_id=member_id,
            group_instance_id=instance_id,
            session_timeout=session_ms,
            rebalance_timeout=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[{"name": name, "metadata": metadata} for name, metadata in offered.items()],
        )

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, Sequence[TopicPartition]] | None = None,
        *,
        version: int = 5,
        protocol_name: str | None = "range",
        instance_id: str | None = None,
        node: Node | None = None,
    ) -> Asked:
        rows = [
            {"member_id": member, "assignment": encode_assignment(partitions)}
            for member, partitions in (assignments or {}).items()
        ]
        return self.ask(
            ApiKey.SYNC_GROUP,
            version,
            node,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocol_name=protocol_name,
            assignments=rows,
        )

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode | None:
        return self.ask(
            ApiKey.HEARTBEAT, 4, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        ).error

    def leave(self, *members: tuple[str, str | None]) -> Any:
        rows = [{"member_id": member_id, "group_instance_id": instance_id} for member_id, instance_id in members]
        return self.ask(ApiKey.LEAVE_GROUP, 5, members=rows).answer

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        *,
        version: int = 9,
        partition: TopicPartition = P0,
        metadata: str = "",
        node: Node | None = None,
        **values: Any,
    ) -> Asked:
        row = {
            "partition_index": partition.partition,
            "committed_offset": offset,
            "committed_leader_epoch": 0,
            "committed_metadata": metadata,
        }
        topics = [{"name": partition.topic, "partitions": [row]}]
        return self.ask(
            ApiKey.OFFSET_COMMIT,
            version,
            node,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=topics,
            **values,
        )

    def committed(self, partition: TopicPartition = P0, stable: bool = False, node: Node | None = None) -> Any:
        """Return the partition's entry in the OffsetFetch response, or the group's error."""
        topics = [{"name": partition.topic, "partition_indexes": [partition.partition]}]
        groups = [{"group_id": self.group_id, "topics": topics}]
        answer = self.ask(ApiKey.OFFSET_FETCH, 9, node, groups=groups, require_stable=stable).answer
        group = answer.groups[0]
        return group.topics[0].partitions[0] if group.topics else ErrorCode(group.error_code)

    def described(self, node: Node | None = None) -> Any:
        return self.ask(ApiKey.DESCRIBE_GROUPS, 5, node, groups=[self.group_id]).answer.groups[0]

    def state(self) -> str:
        return str(self.described().group_state)

    # ---- combined steps ----------------------------------------------------------------------------------------

    def new_member(self, instance_id: str | None = None, **values: Any) -> tuple[str, Asked]:
        """Join with a new member id. Return the id and the JoinGroup request, whose response may be pending."""
        first = self.join(instance_id=instance_id, **values)
        if instance_id is not None:
            return "", first
        assert first.error is ErrorCode.member_id_required
        member_id = first.answer.member_id
        return member_id, self.join(member_id, **values)

    def stable(self, count: int = 1, instances: Sequence[str] = ()) -> tuple[list[str], int]:
        """Create a stable group of `count` members, or of static members with the ids in `instances`.

        Return the member ids (group leader first) and the generation.
        """
        joins = [self.new_member(instance)[1] for instance in instances or [None] * count]  # type: ignore[list-item]
        self.cluster.wait(3 * INITIAL_DELAY_MS)
        answers = [join.answer for join in joins]
        assert all(answer.error_code == ErrorCode.none for answer in answers), answers
        members = [answer.member_id for answer in answers]
        generation = int(answers[0].generation_id)
        leader = answers[0].leader
        members.sort(key=lambda member: member != leader)
        given = {member: [TopicPartition("orders", number)] for number, member in enumerate(members)}
        syncs = [self.sync(member, generation, given if member == leader else None) for member in members]
        self.cluster.wait(100)
        assert [sync.error for sync in syncs] == [ErrorCode.none] * len(members)
        return members, generation
