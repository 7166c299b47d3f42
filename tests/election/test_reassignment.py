"""Replicas are reassigned while records are produced, and a controller dies during the reassignment."""

from __future__ import annotations

import pytest

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.testing.worlds.cluster import SimulatedCluster


def reassign(cluster: SimulatedCluster, topic: str, replicas: list[int] | None) -> KafkaMessage:
    """Send AlterPartitionReassignments for partition 0, as kafka-reassign-partitions does. Return its entry in the
    response.
    """
    row = {"partition_index": 0, "replicas": replicas}
    asked = request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, topics=[{"name": topic, "partitions": [row]}])
    answer = cluster.ask(cluster.admin.at_controller(asked, lambda message: [message.error_code], 10_000))
    return answer.responses[0].partitions[0]


def moved(cluster: SimulatedCluster, topic: str) -> list[dict[str, object]]:
    return [event for event in cluster.events("assignment_changed") if event["topic"] == topic]


@pytest.mark.scenario(48)
@pytest.mark.zabka(brokers=4)
def test_reassigned_partition_keeps_every_acknowledged_record(zabka_world: SimulatedCluster) -> None:
    orders = zabka_world.topics.create("orders", assignment={0: [1, 2]})
    zabka_world.until(lambda: orders.partitions[0].in_sync)
    before = orders.partitions[0].leader_epoch
    workload = zabka_world.workload("orders")
    zabka_world.let_pass(1)
    assert reassign(zabka_world, "orders", [3, 4]).error_code == 0
    zabka_world.until(lambda: orders.partitions[0].replicas == [3, 4] and orders.partitions[0].in_sync)
    zabka_world.let_pass(2)
    counts = workload.stop()
    assert counts.acknowledged > 0 and counts.lost == 0
    now = orders.partitions[0]
    assert (now.leader, sorted(now.isr)) == (3, [3, 4])
    # One to start, one to elect, one for each replica that leaves the ISR.
    assert now.leader_epoch == before + 4
    assert [(e["adding"], e["removing"]) for e in moved(zabka_world, "orders")] == [([3, 4], [1, 2]), ([], [])]
    zabka_world.until(lambda: set(orders.partitions[0].log_end_offsets) == {3, 4})
    assert zabka_world.world.replicas_agree("orders")
    assert zabka_world.violations == []


@pytest.mark.scenario(50)
@pytest.mark.zabka(brokers=4)
def test_next_controller_completes_a_started_reassignment(zabka_world: SimulatedCluster) -> None:
    controller = zabka_world.until(lambda: zabka_world.controller)
    leader, target = [broker for broker in zabka_world.brokers.values() if broker.id != controller.id][:2]
    orders = zabka_world.topics.create("orders", assignment={0: [leader.id]})
    zabka_world.until(lambda: orders.partitions[0].in_sync)
    zabka_world.produce("orders", ["m1"])
    target.kill()
    zabka_world.until(lambda: not target.registered)
    assert reassign(zabka_world, "orders", [target.id]).error_code != 0, "its broker is dead"
    target.start()
    zabka_world.until(lambda: target.registered)
    zabka_world.faults.cut(target, leader)
    assert reassign(zabka_world, "orders", [target.id]).error_code == 0
    controller.kill()
    zabka_world.until(lambda: zabka_world.controller not in (None, controller))
    zabka_world.faults.heal()
    zabka_world.until(lambda: orders.partitions[0].replicas == [target.id])
    assert orders.partitions[0].leader == target.id
    assert zabka_world.consume("orders") == ["m1"]
    assert zabka_world.violations == []
