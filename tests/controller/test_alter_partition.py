"""The controller's checks of AlterPartition requests, and their order (acceptance scenarios 46 and 61)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from kio.schema.alter_partition.v3.request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kio.schema.controlled_shutdown.v3.request import ControlledShutdownRequest
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller.controller_world import World
from zabka.journal.events import IsrChanged, LeaderElected, TopicPartition, WriteFenced
from zabka.kafka.topic_ids import random_topic_id, topic_id_to_kafka

T0 = TopicPartition("t", 0)


@pytest.fixture
def world() -> World:
    made = World()
    made.start(1)
    made.join(2, 3, 4)
    made.create_topic("t", {0: [2, 3, 4]})
    made.settle()
    made.received.clear()
    return made


def alter(
    world: World,
    isr: list[int],
    *,
    sender: int = 2,
    broker_epoch: int | None = None,
    leader_epoch: int | None = None,
    partition_epoch: int | None = None,
    recovering: bool = False,
    topic_id: str | None = None,
    partition: int = 0,
    member_epochs: dict[int, int] | None = None,
) -> Any:
    """Send AlterPartition for t-0 as its leader. All fields that are not given have valid values.

    Return the partition's entry in the response, or the whole response if it has no partition entry.
    """
    context = world.active().controller.term.context
    state = context.leadership[T0]
    epochs = member_epochs or {}
    request = AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=context.broker_epoch(sender) if broker_epoch is None else broker_epoch,
        topics=(
            TopicData(
                topic_id=topic_id_to_kafka(topic_id or context.topic_ids["t"]),
                partitions=(
                    PartitionData(
                        partition_index=partition,
                        leader_epoch=state.leader_epoch if leader_epoch is None else leader_epoch,
                        new_isr_with_epochs=tuple(
                            BrokerState(broker_id=b, broker_epoch=epochs.get(b, -1)) for b in isr
                        ),
                        leader_recovery_state=1 if recovering else 0,
                        partition_epoch=state.partition_epoch if partition_epoch is None else partition_epoch,
                    ),
                ),
            ),
        ),
    )
    answer = world.call(world.active().controller.alter_partition(request))
    world.settle()
    return answer.topics[0].partitions[0] if answer.topics else answer


def test_isr_shrink_and_expansion_increment_only_partition_epoch(world: World) -> None:
    row = alter(world, [2, 3])
    assert (row.error_code, row.leader_id, row.leader_epoch, row.isr, row.partition_epoch) == (
        KafkaError.none,
        2,
        0,
        (2, 3),
        1,
    )
    assert world.ensemble.data("/brokers/topics/t/partitions/0/state") == (
        b'{"version":1,"leader":2,"leader_epoch":0,"controller_epoch":1,"isr":[2,3]}'
    )
    assert not world.requests("LeaderAndIsr")
    for broker_id in (1, 2, 3, 4):
        received = world.requests("UpdateMetadata", broker_id)[-1].partitions()[T0]
        assert (received.isr, received.zk_version, received.leader_epoch) == ((2, 3), 1, 0)
    assert alter(world, [2, 3, 4]).partition_epoch == 2
    changes = [(e.isr, e.cause, e.partition_epoch, e.leader_epoch) for e in world.events(IsrChanged)]
    assert changes == [([2, 3], "lag", 1, 0), ([2, 3, 4], "caught_up", 2, 0)]
    assert len(world.events(LeaderElected)) == 1
    assert all(e.zxid and e.controller_epoch == 1 for e in world.events(IsrChanged))


@pytest.mark.scenario(61)
def test_invalid_isr_change_returns_the_error_for_its_cause(world: World) -> None:
    # Port of Kafka's testAlterPartitionErrors.
    assert alter(world, [2, 3]).error_code is KafkaError.none
    context = world.active().controller.term.context
    epoch = context.broker_epoch(2)
    before = world.state("t")
    assert alter(world, [2], broker_epoch=epoch - 1).error_code is KafkaError.stale_broker_epoch
    assert alter(world, [2], broker_epoch=epoch + 1).error_code is KafkaError.stale_broker_epoch
    assert alter(world, [2], sender=99, broker_epoch=1).error_code is KafkaError.stale_broker_epoch
    unknown = random_topic_id(world.random)
    assert alter(world, [2], topic_id=unknown).error_code is KafkaError.unknown_topic_id
    assert alter(world, [2], partition=9).error_code is KafkaError.unknown_topic_or_partition
    pe, le = before.partition_epoch, before.leader_epoch
    assert alter(world, [2], partition_epoch=pe - 1).error_code is KafkaError.invalid_update_version
    assert alter(world, [2], partition_epoch=pe + 1).error_code is KafkaError.not_controller
    assert alter(world, [2], leader_epoch=le - 1).error_code is KafkaError.fenced_leader_epoch
    assert alter(world, [2], leader_epoch=le + 1).error_code is KafkaError.not_controller
    assert alter(world, [2], recovering=True).error_code is KafkaError.invalid_request
    assert world.state("t") == before


@pytest.mark.scenario(61)
def test_unchanged_isr_succeeds_even_with_an_older_epoch(world: World) -> None:
    # Port of Kafka's testIdempotentAlterPartition.
    assert alter(world, [2, 3]).partition_epoch == 1
    row = alter(world, [2, 3], partition_epoch=0)
    assert (row.error_code, row.partition_epoch, row.isr) == (KafkaError.none, 1, (2, 3))
    assert world.state("t").partition_epoch == 1


@pytest.mark.scenario(61)
def test_dead_or_stopping_replica_cannot_join_the_isr(world: World) -> None:
    # Port of Kafka's testShutdownBrokerNotAddedToIsr.
    shutdown = ControlledShutdownRequest(broker_id=4, broker_epoch=-1)
    world.call(world.active().controller.controlled_shutdown(shutdown))
    assert world.state("t").isr == (2, 3)
    assert alter(world, [2, 3, 4]).error_code is KafkaError.ineligible_replica
    world.leave(4)
    world.settle()
    assert alter(world, [2, 3, 4]).error_code is KafkaError.ineligible_replica
    assert world.state("t").isr == (2, 3)


def test_replica_with_an_earlier_broker_epoch_cannot_join_isr(world: World) -> None:
    # KIP-903: the broker may have restarted with an empty disk.
    context = world.active().controller.term.context
    assert alter(world, [2, 3]).error_code is KafkaError.none
    old = context.broker_epoch(4)
    world.ensemble.end_session(0x9004)
    world.join(4)
    world.settle()
    assert alter(world, [2, 3, 4], member_epochs={4: old}).error_code is KafkaError.ineligible_replica
    new = context.broker_epoch(4)
    assert alter(world, [2, 3, 4], member_epochs={4: new}).error_code is KafkaError.none


def test_isr_change_from_a_non_leader_or_invalid_isr_is_rejected(world: World) -> None:
    assert alter(world, [3, 2], sender=3).error_code is KafkaError.invalid_request
    assert alter(world, [3]).error_code is KafkaError.invalid_request
    assert alter(world, []).error_code is KafkaError.invalid_request
    assert alter(world, [2, 2]).error_code is KafkaError.invalid_request
    assert alter(world, [2, 1]).error_code is KafkaError.invalid_request
    assert world.state("t").partition_epoch == 0


@pytest.mark.scenario(46)
def test_recovering_isr_keeps_one_member_after_unclean_election() -> None:
    # Port of Kafka's testAlterPartitionErrorsAfterUncleanElection.
    world = World()
    world.start(1)
    world.join(2, 3)
    world.create_topic("t", {0: [2, 3]}, unclean_leader_election_enable="true")
    world.settle()
    world.leave(2)
    world.settle()
    assert world.brief("t") == (3, (3,), 1)
    world.set_config("t")
    world.leave(3)
    world.settle()
    assert world.brief("t") == (-1, (3,), 2)
    world.set_config("t", unclean_leader_election_enable="true")
    world.join(2)
    world.settle()
    assert world.brief("t") == (2, (2,), 3) and world.state("t").recovering
    world.join(3)
    world.settle()
    assert alter(world, [2, 3], recovering=True).error_code is KafkaError.invalid_request
    # The new leader reports that it has recovered. After that, other replicas can join the ISR.
    row = alter(world, [2])
    assert (row.error_code, row.leader_recovery_state) == (KafkaError.none, 0)
    assert not world.state("t").recovering and world.state("t").leader_epoch == 3
    assert alter(world, [2], recovering=True).error_code is KafkaError.invalid_request
    assert alter(world, [2, 3]).error_code is KafkaError.none
    assert world.brief("t") == (2, (2, 3), 3)


def test_isr_change_after_external_write_gets_invalid_version(world: World) -> None:
    world.set_isr("t", 0, [2, 4])
    assert alter(world, [2, 3]).error_code is KafkaError.invalid_update_version
    assert world.state("t").isr == (2, 4)


def test_lost_zookeeper_response_does_not_fail_the_isr_change(world: World) -> None:
    world.nodes[1].session.lose_replies = 1
    row = alter(world, [2, 3])
    assert (row.error_code, row.partition_epoch) == (KafkaError.none, 1)
    assert world.state("t").partition_epoch == 1


def test_fenced_controller_returns_not_controller(world: World) -> None:
    zombie = world.nodes[1]
    zombie.session.hold_watches = True
    world.ensemble.put("/controller_epoch", b"2")
    before = world.state("t")
    answer = alter(world, [2, 3])
    assert answer.error_code is KafkaError.not_controller
    assert world.state("t") == before
    [fenced] = world.events(WriteFenced)
    assert (fenced.operation, fenced.path) == ("setData", "/brokers/topics/t/partitions/0/state")


def test_unexpected_failure_returns_an_error_and_ends_the_term(world: World) -> None:
    world.active().controller.term.batch.add_update_metadata([2], [])
    answer = alter(world, [2, 3])
    assert answer.error_code is KafkaError.unknown_server_error
    assert not world.nodes[1].controller.is_active


# ---- older request versions -----------------------------------------------------------------------------------


def alter_in(world: World, version: int, isr: list[int], **fields: int) -> Any:
    """Send AlterPartition in a version before 3, which has no member epochs. Versions 0 and 1 use topic names."""
    context = world.active().controller.term.context
    state = context.leadership[T0]
    schema = import_module(f"kio.schema.alter_partition.v{version}.request")
    row = schema.PartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        new_isr=tuple(isr),
        partition_epoch=state.partition_epoch,
        **fields,
    )
    called = {"topic_name": "t"} if version < 2 else {"topic_id": topic_id_to_kafka(context.topic_ids["t"])}
    request = schema.AlterPartitionRequest(
        broker_id=2, broker_epoch=context.broker_epoch(2), topics=(schema.TopicData(**called, partitions=(row,)),)
    )
    answer = world.call(world.active().controller.alter_partition(request))
    world.settle()
    assert answer.__version__ == version
    return answer


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_alter_partition_version_gets_its_response_version(world: World, version: int) -> None:
    [topic] = alter_in(world, version, [2, 3]).topics
    [row] = topic.partitions
    assert (row.error_code, row.isr, row.partition_epoch) == (KafkaError.none, (2, 3), 1)
    assert hasattr(topic, "topic_name") == (version < 2)
    assert hasattr(row, "leader_recovery_state") == (version >= 1)
    assert world.state("t").isr == (2, 3)


@pytest.mark.parametrize(("version", "error"), [(0, "operation_not_attempted"), (2, "ineligible_replica")])
def test_error_for_a_dead_isr_member_depends_on_request_version(world: World, version: int, error: str) -> None:
    world.leave(4)
    world.settle()
    [topic] = alter_in(world, version, [2, 3, 4]).topics
    assert topic.partitions[0].error_code is KafkaError[error]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_stale_broker_epoch_is_rejected_in_every_version(world: World, version: int) -> None:
    schema = import_module(f"kio.schema.alter_partition.v{version}.request")
    request = schema.AlterPartitionRequest(broker_id=2, broker_epoch=1, topics=())
    answer = world.call(world.active().controller.alter_partition(request))
    assert (answer.error_code, answer.__version__) == (KafkaError.stale_broker_epoch, version)


def test_rejected_isr_change_still_updates_metadata_everywhere(world: World) -> None:
    assert alter(world, [2, 3], leader_epoch=7).error_code is KafkaError.not_controller
    assert [row.to for row in world.requests("UpdateMetadata") if T0 in row.partitions()] == [1, 2, 3, 4]
