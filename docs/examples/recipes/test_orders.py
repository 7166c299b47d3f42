"""The first test of the guide: an order must survive the loss of the leader that acknowledged it."""

from __future__ import annotations

import pytest
from orders import Shop

from zabka.testing import LiveCluster


def lose_the_leader(cluster: LiveCluster, acks: str) -> None:
    """Isolate the leader from its only follower, place an order, and kill the leader."""
    controller = cluster.until(lambda: cluster.controller)
    leader, follower = (broker for broker in cluster.brokers.values() if broker is not controller)
    topic = cluster.topics.create("orders", assignment={0: [leader.id, follower.id]})
    link = cluster.faults.cut(leader, follower)
    Shop(cluster.client_config("confluent"), acks).place("42")
    leader.kill()
    cluster.until(lambda: topic.partitions[0].leader != leader.id)
    link.heal()
    leader.start()
    cluster.until_in_sync("orders")


def test_order_survives_the_loss_of_its_leader(zabka_cluster: LiveCluster) -> None:
    lose_the_leader(zabka_cluster, acks="all")
    assert zabka_cluster.consume("orders") == ["42"]


def test_order_produced_with_acks_1_is_lost_with_its_leader(zabka_cluster: LiveCluster) -> None:
    lose_the_leader(zabka_cluster, acks="1")
    with pytest.raises(AssertionError):
        assert zabka_cluster.consume("orders") == ["42"]
    assert zabka_cluster.until(lambda: zabka_cluster.events("records_lost"))
