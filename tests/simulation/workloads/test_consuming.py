"""A consumer group in the simulated world, and the violations that the group's own checks report."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.store import java_hash
from zabka.journal.checkers.kafka_analysis import KafkaHistory, Sent
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record
from zabka.kafka.zk.znodes import ReplicaAssignment, TopicAssignment
from zabka.simulation.checkers.replication_audit import ReplicationAudit
from zabka.simulation.cluster.world import World
from zabka.simulation.workloads.consuming import GROUP, Consuming

P0 = TopicPartition("orders", 0)


def a_group(world: World | None = None) -> tuple[Consuming, KafkaHistory]:
    """Return a group without members, whose callbacks the test calls. Offsets 0 to 3 are acknowledged."""
    history = KafkaHistory()
    history.sent += [Sent("p", "orders-0", str(offset), offset, offset, offset) for offset in range(4)]
    world = world or World(0)
    return Consuming(world.run_kafka_client, world.replication, "orders", history, members=0), history


def records(*offsets: int) -> list[Record]:
    return [Record(None, str(offset).encode(), 0, offset) for offset in offsets]


def test_group_member_can_resume_or_reread_after_another_member() -> None:
    group, history = a_group()
    group.took("member-1", 1, 1, P0, records(0, 1, 2))
    group.took("member-2", 2, 1, P0, records(1, 2, 3))
    assert group.violations == [] and history.violations() == []
    assert group.consumed == 4
    assert group.has_read_to({"orders-0": 4, "other-0": 9}) and not group.has_read_to({"orders-0": 5})


def test_acknowledged_record_that_no_member_read_is_a_violation() -> None:
    group, _ = a_group()
    group.took("member-1", 1, 1, P0, records(0, 1))
    group.took("member-2", 2, 1, P0, records(3))
    assert group.violations == ["orders-0 offset 2 was acknowledged, and passed over by the group"]


def test_two_readers_of_a_partition_in_a_generation_are_invalid() -> None:
    group, _ = a_group()
    group.took("member-1", 1, 1, P0, records(0, 1))
    group.took("member-2", 1, 1, P0, records(2, 3))
    assert group.violations == ["orders-0 is read by member-1 and member-2 in generation 1"]


OWN = java_hash(GROUP) % 2
OVERLAP = "orders-0 is read by member-1 and member-2 in generation 1"
PASSED_OVER = "orders-0 offset 2 was acknowledged, and passed over by the group"


@pytest.mark.parametrize(("number", "found"), [(OWN, [PASSED_OVER]), (1 - OWN, [OVERLAP, PASSED_OVER])])
def test_loss_of_the_offsets_log_permits_only_generation_errors(number: int, found: list[str]) -> None:
    with patch.object(ReplicationAudit, "forgiven", lambda _: {f"{CONSUMER_OFFSETS}-{number}": None}):
        world, replicas = World(0), ReplicaAssignment((1,))
        group, _ = a_group(world)
        world.replication.znodes.topics[CONSUMER_OFFSETS] = TopicAssignment(None, {0: replicas, 1: replicas})
        group.took("member-1", 1, 1, P0, records(0, 1))
        group.took("member-2", 1, 1, P0, records(3))
        assert group.violations == found
