"""The broker epoch in control requests (BrokerEpochIntegrationTest), and control requests from a former controller."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.request_context import RequestContext, RequestRefused
from zabka.journal.events import RequestFenced, TopicPartition
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, request
from zabka.kafka.zk import znodes

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
    """Send broker 2 a control request whose broker epoch is the current one plus `off_by`, and return the response."""
    node = cluster.nodes[2]
    epoch = int(node.broker.controller.broker_epoch) + off_by
    sent = request(key, version, controller_id=9, controller_epoch=1, broker_epoch=epoch)
    return cluster.on(node, node.broker.handle(sent))


@pytest.mark.scenario(17)
@KINDS
def test_request_with_the_current_broker_epoch_is_accepted(cluster: Cluster, key: ApiKey, version: int) -> None:
    assert send(cluster, key, version, 0).error_code is ErrorCode.none


@pytest.mark.scenario(18)
@KINDS
def test_request_with_an_earlier_broker_epoch_is_rejected(cluster: Cluster, key: ApiKey, version: int) -> None:
    node = cluster.nodes[2]
    before = node.broker.metadata.generation
    assert send(cluster, key, version, -1).error_code is ErrorCode.stale_broker_epoch
    assert node.broker.metadata.generation == before
    assert [event.reason for event in node.of(RequestFenced)] == ["STALE_BROKER_EPOCH"]


@pytest.mark.scenario(19)
@KINDS
def test_request_with_a_later_broker_epoch_is_accepted(cluster: Cluster, key: ApiKey, version: int) -> None:
    # KAFKA-9839: after a registration, the controller can send the new broker epoch before the broker itself has
    # received ZooKeeper's response.
    assert send(cluster, key, version, 1).error_code is ErrorCode.none


@KINDS
def test_restarted_broker_rejects_a_controller_of_an_older_epoch(cluster: Cluster, key: ApiKey, version: int) -> None:
    # In Kafka, a restarted broker accepts its first control request from any controller. In this test, the controller
    # of epoch 8, which had not noticed its successor, made such a broker leader again (seed 400039).
    cluster.ensemble.put(znodes.CONTROLLER_EPOCH, b"9")
    node = cluster.nodes[2]
    node.kill()
    cluster.expire(node)
    broker = node.boot()
    node.runtime.spawn(broker.start(), "start")
    while broker.controller.broker_epoch < 0:
        # A broker handles no requests before it is registered, so wait for its registration.
        cluster.scheduler.step()
    assert broker.replicas.controller_epoch == 0
    sent = request(key, version, controller_id=1, controller_epoch=8, broker_epoch=int(broker.controller.broker_epoch))
    assert cluster.on(node, broker.handle(sent)).error_code is ErrorCode.stale_controller_epoch
    fenced = node.of(RequestFenced)[-1]
    assert (fenced.reason, fenced.request_epoch, fenced.known_epoch) == ("STALE_CONTROLLER_EPOCH", 8, 9)


@KINDS
def test_request_on_an_old_controllers_connection_is_rejected(cluster: Cluster, key: ApiKey, version: int) -> None:
    node = cluster.nodes[2]

    def obeys(connection: int, controller_epoch: int = 1) -> bool:
        sent = request(key, version, controller_id=9, controller_epoch=controller_epoch, broker_epoch=-1)
        context = RequestContext("9", "PLAINTEXT", connection=connection)

        async def ask() -> bool:
            try:
                return bool((await node.broker.serve(sent, context)).error_code is ErrorCode.none)
            except RequestRefused:
                return False

        return bool(cluster.on(node, ask()))

    first, second = 1, 2
    assert obeys(first)
    assert obeys(second)
    assert not obeys(first)
    assert obeys(first, controller_epoch=2), "another controller's connection"
    assert not obeys(second, controller_epoch=1)


def test_late_leader_and_isr_request_does_not_block_a_new_topic(cluster: Cluster) -> None:
    # In Kafka the late request passes all checks. The replica that it creates has another topic id than the recreated
    # topic, so requests fail with INCONSISTENT_TOPIC_ID until an administrator removes the directory.
    node = next(node for node in cluster.nodes.values() if node is not cluster.controller)
    sent: list[KafkaMessage] = []

    def on_connection(number: int, message: KafkaMessage) -> Coroutine[Any, Any, KafkaMessage | None]:
        return node.broker.serve(message, RequestContext("controller", "PLAINTEXT", connection=number))

    def by_the_present_connection(message: KafkaMessage, *_: str) -> Coroutine[Any, Any, KafkaMessage | None]:
        sent.append(message)
        return on_connection(2, message)

    node.broker.handle = by_the_present_connection  # type: ignore[method-assign]
    alone = {0: [node.broker_id]}
    cluster.run(cluster.client.create_topic("orders", assignment=alone))
    cluster.wait(1_000)
    (late,) = [each for each in sent if api_key_of(each) == ApiKey.LEADER_AND_ISR]
    cluster.run(cluster.client.delete_topic("orders"))
    cluster.wait(1_000)

    async def arrives() -> None:
        with pytest.raises(RequestRefused):
            await on_connection(1, late)

    cluster.on(node, arrives())
    topic_id = cluster.run(cluster.client.create_topic("orders", assignment=alone))
    cluster.wait(1_000)
    partition = node.broker.replicas.partitions[TopicPartition("orders", 0)]
    assert (partition.is_leader, partition.topic_id) == (True, topic_id)


def test_new_controller_rejects_requests_of_the_previous_one(cluster: Cluster) -> None:
    former = cluster.controller
    former.runtime.pause()
    cluster.expire(former)
    successor = next(node for node in cluster.nodes.values() if node is not former)
    while successor.broker.controller.controller_epoch < 2:
        cluster.scheduler.step()
    sent = request(ApiKey.UPDATE_METADATA, 8, controller_id=former.broker_id, controller_epoch=1, broker_epoch=-1)
    assert cluster.on(successor, successor.broker.handle(sent)).error_code is ErrorCode.stale_controller_epoch


def test_unreadable_controller_epoch_does_not_fence_requests() -> None:
    cluster = Cluster(1)
    cluster.start()
    cluster.expire(cluster.nodes[1])
    cluster.ensemble.put(znodes.CONTROLLER_EPOCH, b"\xff{")
    cluster.wait(5_000)
    node = cluster.nodes[1]
    assert node.broker.controller.broker_epoch == cluster.ensemble.nodes[znodes.broker_path(1)].czxid
    sent = request(ApiKey.UPDATE_METADATA, 8, controller_id=9, controller_epoch=1, broker_epoch=-1)
    assert cluster.on(node, node.broker.handle(sent)).error_code is ErrorCode.none
    cluster.stop_all()
