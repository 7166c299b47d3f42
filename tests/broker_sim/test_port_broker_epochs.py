"""Control requests and the broker epoch they are meant for (BrokerEpochIntegrationTest)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker_world import Cluster
from kio.schema.errors import ErrorCode

from broker_sim.kafka_schema import ApiKey, request
from controller.ports import KafkaMessage
from journal.events import RequestFenced

KINDS = pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.LEADER_AND_ISR, 7), (ApiKey.UPDATE_METADATA, 8), (ApiKey.STOP_REPLICA, 4)]
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    made.start()
    yield made
    made.stop_all()


def send(cluster: Cluster, key: ApiKey, version: int, off_by: int) -> KafkaMessage:
    """Broker 2 gets a control request, meant for its epoch plus that much."""
    node = cluster.nodes[2]
    epoch = int(node.broker.controller.broker_epoch) + off_by
    sent = request(key, version, controller_id=9, controller_epoch=1, broker_epoch=epoch)
    return cluster.on(node, node.broker.handle(sent))


@pytest.mark.scenario(17)
@KINDS
def test_a_request_for_the_brokers_own_epoch_is_accepted(cluster: Cluster, key: ApiKey, version: int) -> None:
    assert send(cluster, key, version, 0).error_code is ErrorCode.none


@pytest.mark.scenario(18)
@KINDS
def test_a_request_for_an_earlier_epoch_is_refused_and_changes_nothing(
    cluster: Cluster, key: ApiKey, version: int
) -> None:
    node = cluster.nodes[2]
    before = node.broker.metadata.generation
    assert send(cluster, key, version, -1).error_code is ErrorCode.stale_broker_epoch
    assert node.broker.metadata.generation == before
    assert [event.reason for event in node.of(RequestFenced)] == ["STALE_BROKER_EPOCH"]


@pytest.mark.scenario(19)
@KINDS
def test_a_request_for_a_later_epoch_is_accepted(cluster: Cluster, key: ApiKey, version: int) -> None:
    # KAFKA-9839: the controller may know of a registration before the broker does.
    assert send(cluster, key, version, 1).error_code is ErrorCode.none
