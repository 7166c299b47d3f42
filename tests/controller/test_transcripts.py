"""The acceptance scenarios, checked against lines like those of Kafka's state-change log (`controller_transcript`).

Broker 9 runs the controller and hosts no replicas. The other brokers are fakes without a controller.
"""

from __future__ import annotations

from textwrap import dedent

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller.controller_requests import ask_for_isr, reassign, shut_down
from tests.controller.controller_transcript import Transcript
from tests.controller.controller_world import World
from zabka.journal.events import TopicPartition
from zabka.kafka.zk import znodes

T0 = TopicPartition("t", 0)


def cluster(*broker_ids: int) -> tuple[World, Transcript]:
    world = World()
    world.join(*broker_ids)
    world.start(9, auto_leader_rebalance_enable=False)
    return world, Transcript(world)


def expect(transcript: Transcript, text: str) -> None:
    assert transcript.take() == dedent(text).strip("\n")


@pytest.mark.scenario(26)
def test_topic_creation_sends_the_expected_requests() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1, 2]})
    expect(
        transcript,
        """
        zk + /brokers/topics/t/partitions
        zk + /brokers/topics/t/partitions/0
        zk t-0: leader 1, ISR 1,2, LE 0, PE 0
        LeaderAndIsr 1,2: t-0 leader 1, ISR 1,2, LE 0, replicas 1,2, new
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 1, ISR 1,2, LE 0
        """,
    )


@pytest.mark.scenario(27)
def test_topic_created_with_dead_preferred_leader_sends_requests() -> None:
    world, transcript = cluster(2)
    world.create_topic("t", {0: [1, 2]})
    expect(
        transcript,
        """
        zk + /brokers/topics/t/partitions
        zk + /brokers/topics/t/partitions/0
        zk t-0: leader 2, ISR 2, LE 0, PE 0
        LeaderAndIsr 2: t-0 leader 2, ISR 2, LE 0, replicas 1,2, new
        UpdateMetadata 2,9: live 2,9; t-0 leader 2, ISR 2, LE 0, offline 1
        """,
    )
    world.join(1)
    expect(
        transcript,
        """
        UpdateMetadata 2,9: live 1,2,9
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 2, ISR 2, LE 0
        LeaderAndIsr 1: t-0 leader 2, ISR 2, LE 0, replicas 1,2
        UpdateMetadata 1: live 1,2,9; t-0 leader 2, ISR 2, LE 0
        """,
    )


@pytest.mark.scenario(28)
def test_added_partition_sends_the_expected_requests() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1, 2]})
    transcript.take()
    world.create_topic("t", {0: [1, 2], 1: [2, 1]})
    expect(
        transcript,
        """
        zk + /brokers/topics/t/partitions/1
        zk t-1: leader 2, ISR 2,1, LE 0, PE 0
        LeaderAndIsr 1,2: t-1 leader 2, ISR 2,1, LE 0, replicas 2,1, new
        UpdateMetadata 1,2,9: live 1,2,9; t-1 leader 2, ISR 2,1, LE 0
        """,
    )


@pytest.mark.scenario(30)
def test_topic_deletion_sends_the_expected_requests() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1, 2]}, retention_ms="1")
    transcript.take()
    world.ensemble.put(znodes.delete_topic_path("t"))
    expect(
        transcript,
        """
        zk t-0: leader none, ISR 2, LE 1, PE 1
        zk t-0: leader none, ISR 2, LE 2, PE 2
        zk - /brokers/topics/t/partitions/0/state
        zk - /brokers/topics/t/partitions/0
        zk - /brokers/topics/t/partitions
        zk - /config/topics/t
        zk - /brokers/topics/t
        zk - /admin/delete_topics/t
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader deleted, ISR 1,2, LE 0
        StopReplica 1,2: t-0 LE -2
        StopReplica 1,2: t-0 LE -2, delete
        """,
    )


@pytest.mark.scenario(31)
def test_topic_deletion_waits_for_a_dead_broker() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1, 2]})
    world.settle()
    world.leave(2)
    transcript.take()
    world.ensemble.put(znodes.delete_topic_path("t"))
    expect(
        transcript,
        """
        zk t-0: leader none, ISR 1, LE 2, PE 2
        UpdateMetadata 1,9: live 1,9; t-0 leader deleted, ISR 1, LE 0, offline 2
        StopReplica 1: t-0 LE -2
        StopReplica 1: t-0 LE -2, delete
        """,
    )
    world.join(2)
    expect(
        transcript,
        """
        zk - /brokers/topics/t/partitions/0/state
        zk - /brokers/topics/t/partitions/0
        zk - /brokers/topics/t/partitions
        zk - /brokers/topics/t
        zk - /admin/delete_topics/t
        UpdateMetadata 1,9: live 1,2,9
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader deleted, ISR 1, LE 0
        LeaderAndIsr 2: t-0 leader none, ISR 1, LE 2, replicas 1,2
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader deleted, ISR 1, LE 0
        UpdateMetadata 2: live 1,2,9; t-0 leader deleted, ISR 1, LE 0
        StopReplica 2: t-0 LE -2
        StopReplica 2: t-0 LE -2, delete
        """,
    )


@pytest.mark.scenario(34)
def test_death_and_return_of_a_leader_send_the_expected_requests() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1, 2]})
    transcript.take()
    world.leave(1)
    expect(
        transcript,
        """
        zk t-0: leader 2, ISR 2, LE 1, PE 1
        LeaderAndIsr 2: t-0 leader 2, ISR 2, LE 1, replicas 1,2
        UpdateMetadata 2,9: live 2,9; t-0 leader 2, ISR 2, LE 1, offline 1
        LeaderAndIsr 2: t-0 leader 2, ISR 2, LE 1, replicas 1,2
        UpdateMetadata 2,9: live 2,9; t-0 leader 2, ISR 2, LE 1, offline 1
        """,
    )
    world.join(1)
    expect(
        transcript,
        """
        UpdateMetadata 2,9: live 1,2,9
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 2, ISR 2, LE 1
        LeaderAndIsr 1: t-0 leader 2, ISR 2, LE 1, replicas 1,2
        UpdateMetadata 1: live 1,2,9; t-0 leader 2, ISR 2, LE 1
        """,
    )
    assert ask_for_isr(world, [2, 1], "t") is KafkaError.none
    expect(
        transcript,
        """
        zk t-0: leader 2, ISR 2,1, LE 1, PE 2
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 2, ISR 2,1, LE 1
        """,
    )
    world.ensemble.put(znodes.PREFERRED_REPLICA_ELECTION, znodes.encode_partition_set([T0]))
    expect(
        transcript,
        """
        zk t-0: leader 1, ISR 2,1, LE 2, PE 3
        zk - /admin/preferred_replica_election
        LeaderAndIsr 1,2: t-0 leader 1, ISR 2,1, LE 2, replicas 1,2
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 1, ISR 2,1, LE 2
        """,
    )


@pytest.mark.scenario(36)
def test_replica_outside_the_isr_can_return_but_not_lead() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1, 2]})
    transcript.take()
    world.leave(2)
    expect(
        transcript,
        """
        zk t-0: leader 1, ISR 1, LE 1, PE 1
        LeaderAndIsr 1: t-0 leader 1, ISR 1, LE 1, replicas 1,2
        UpdateMetadata 1,9: live 1,9; t-0 leader 1, ISR 1, LE 1, offline 2
        """,
    )
    world.leave(1)
    expect(
        transcript,
        """
        zk t-0: leader none, ISR 1, LE 2, PE 2
        UpdateMetadata 9: live 9; t-0 leader none, ISR 1, LE 2, offline 1,2
        """,
    )
    world.join(2)
    expect(
        transcript,
        """
        UpdateMetadata 9: live 2,9
        UpdateMetadata 2,9: live 2,9; t-0 leader none, ISR 1, LE 2, offline 1
        LeaderAndIsr 2: t-0 leader none, ISR 1, LE 2, replicas 1,2
        UpdateMetadata 2: live 2,9; t-0 leader none, ISR 1, LE 2, offline 1
        """,
    )


@pytest.mark.scenario(42)
def test_unclean_election_sends_the_expected_requests() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1, 2]}, unclean_leader_election_enable="true")
    world.settle()
    world.leave(2)
    world.settle()
    world.leave(1)
    transcript.take()
    world.join(2)
    expect(
        transcript,
        """
        zk t-0: leader 2, ISR 2, LE 3, PE 3, recovering
        UpdateMetadata 9: live 2,9
        UpdateMetadata 2,9: live 2,9; t-0 leader none, ISR 1, LE 2, offline 1
        LeaderAndIsr 2: t-0 leader none, ISR 1, LE 2, replicas 1,2
        UpdateMetadata 2: live 2,9; t-0 leader none, ISR 1, LE 2, offline 1
        LeaderAndIsr 2: t-0 leader 2, ISR 2, LE 3, replicas 1,2
        UpdateMetadata 2,9: live 2,9; t-0 leader 2, ISR 2, LE 3, offline 1
        """,
    )


@pytest.mark.scenario(37)
def test_consecutive_controlled_shutdowns_send_expected_requests() -> None:
    world, transcript = cluster(0, 1, 2)
    world.create_topic("t", {0: [0, 1, 2]})
    transcript.take()
    assert shut_down(world, 2) == (KafkaError.none, [])
    expect(
        transcript,
        """
        zk t-0: leader 0, ISR 0,1, LE 1, PE 1
        LeaderAndIsr 0,1: t-0 leader 0, ISR 0,1, LE 1, replicas 0,1,2
        StopReplica 2: t-0 LE 0
        UpdateMetadata 0,1,2,9: live 0,1,2,9; t-0 leader 0, ISR 0,1, LE 1, offline 2
        StopReplica 2: t-0 LE 0
        """,
    )
    assert shut_down(world, 1) == (KafkaError.none, [])
    expect(
        transcript,
        """
        zk t-0: leader 0, ISR 0, LE 2, PE 2
        LeaderAndIsr 0,2: t-0 leader 0, ISR 0, LE 2, replicas 0,1,2
        StopReplica 1: t-0 LE 1
        UpdateMetadata 0,1,2,9: live 0,1,2,9; t-0 leader 0, ISR 0, LE 2, offline 1,2
        StopReplica 1: t-0 LE 1
        """,
    )
    assert shut_down(world, 0) == (KafkaError.none, [T0])
    expect(transcript, "")


@pytest.mark.scenario(37)
def test_controlled_shutdown_of_leader_sends_expected_requests() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1, 2]})
    transcript.take()
    assert shut_down(world, 1) == (KafkaError.none, [])
    expect(
        transcript,
        """
        zk t-0: leader 2, ISR 2, LE 1, PE 1
        LeaderAndIsr 1,2: t-0 leader 2, ISR 2, LE 1, replicas 1,2
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 2, ISR 2, LE 1, offline 1
        """,
    )


@pytest.mark.scenario(48)
def test_reassignment_sends_the_expected_requests() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1]})
    transcript.take()
    assert reassign(world, T0, [2]) is KafkaError.none
    expect(
        transcript,
        """
        zk t: 0 = 2,1 adding 2 removing 1
        zk t-0: leader 1, ISR 1, LE 1, PE 1
        LeaderAndIsr 1: t-0 leader 1, ISR 1, LE 1, replicas 2,1 adding 2 removing 1
        LeaderAndIsr 2: t-0 leader 1, ISR 1, LE 1, replicas 2,1 adding 2 removing 1, new
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 1, ISR 1, LE 1
        LeaderAndIsr 2: t-0 leader 1, ISR 1, LE 1, replicas 2,1 adding 2 removing 1, new
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 1, ISR 1, LE 1
        """,
    )
    assert ask_for_isr(world, [1, 2], "t") is KafkaError.none
    expect(
        transcript,
        """
        zk t-0: leader 1, ISR 1,2, LE 1, PE 2
        zk t-0: leader 2, ISR 1,2, LE 2, PE 3
        zk t-0: leader 2, ISR 2, LE 3, PE 4
        zk t: 0 = 2
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 1, ISR 1,2, LE 1
        LeaderAndIsr 2: t-0 leader 2, ISR 1,2, LE 2, replicas 2
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 2, ISR 1,2, LE 2
        LeaderAndIsr 2: t-0 leader 2, ISR 2, LE 3, replicas 2
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 2, ISR 2, LE 3
        StopReplica 1: t-0 LE 2
        StopReplica 1: t-0 LE 3, delete
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 2, ISR 2, LE 3
        """,
    )


@pytest.mark.scenario(51)
def test_cancelled_reassignment_sends_the_expected_requests() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1]})
    world.settle()
    assert reassign(world, T0, [2]) is KafkaError.none
    transcript.take()
    assert reassign(world, T0, None) is KafkaError.none
    expect(
        transcript,
        """
        zk t: 0 = 1
        zk t-0: leader 1, ISR 1, LE 2, PE 2
        zk t: 0 = 1
        LeaderAndIsr 1: t-0 leader 1, ISR 1, LE 1, replicas 1
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 1, ISR 1, LE 1
        StopReplica 2: t-0 LE 1
        StopReplica 2: t-0 LE 1, delete
        LeaderAndIsr 1: t-0 leader 1, ISR 1, LE 2, replicas 1
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 1, ISR 1, LE 2
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 1, ISR 1, LE 2
        """,
    )


@pytest.mark.scenario(20)
def test_broker_bounce_sends_the_expected_requests() -> None:
    world, transcript = cluster(1, 2)
    world.create_topic("t", {0: [1, 2]})
    transcript.take()
    world.ensemble.end_session(0x9001)
    world.join(1)
    expect(
        transcript,
        """
        zk t-0: leader 2, ISR 2, LE 1, PE 1
        LeaderAndIsr 2: t-0 leader 2, ISR 2, LE 1, replicas 1,2
        UpdateMetadata 2,9: live 2,9; t-0 leader 2, ISR 2, LE 1, offline 1
        LeaderAndIsr 2: t-0 leader 2, ISR 2, LE 1, replicas 1,2
        UpdateMetadata 2,9: live 2,9; t-0 leader 2, ISR 2, LE 1, offline 1
        UpdateMetadata 2,9: live 1,2,9
        UpdateMetadata 1,2,9: live 1,2,9; t-0 leader 2, ISR 2, LE 1
        LeaderAndIsr 1: t-0 leader 2, ISR 2, LE 1, replicas 1,2
        UpdateMetadata 1: live 1,2,9; t-0 leader 2, ISR 2, LE 1
        """,
    )


@pytest.mark.scenario(23)
def test_broker_without_replicas_sends_the_expected_requests() -> None:
    world, transcript = cluster(1)
    world.join(2)
    expect(
        transcript,
        """
        UpdateMetadata 1,2,9: live 1,2,9
        """,
    )
    world.leave(2)
    expect(
        transcript,
        """
        UpdateMetadata 1,9: live 1,9
        """,
    )


@pytest.mark.scenario(34)
def test_death_of_controller_leading_a_partition_sends_requests() -> None:
    world = World()
    world.start(1)
    world.start(2)
    world.join(3)
    world.create_topic("t", {0: [1, 2, 3]})
    transcript = Transcript(world)
    transcript.take()
    world.kill(1)
    expect(
        transcript,
        """
        zk + /controller
        zk = /controller_epoch
        zk t-0: leader none, ISR 2,3, LE 1, PE 1
        zk t-0: leader 2, ISR 2,3, LE 2, PE 2
        UpdateMetadata 2,3: live 2,3
        LeaderAndIsr 2,3: t-0 leader 1, ISR 1,2,3, LE 0, replicas 1,2,3
        UpdateMetadata 2,3: live 2,3; t-0 leader 1, ISR 1,2,3, LE 0, offline 1
        LeaderAndIsr 2,3: t-0 leader none, ISR 2,3, LE 1, replicas 1,2,3
        UpdateMetadata 2,3: live 2,3; t-0 leader none, ISR 2,3, LE 1, offline 1
        LeaderAndIsr 2,3: t-0 leader 2, ISR 2,3, LE 2, replicas 1,2,3
        UpdateMetadata 2,3: live 2,3; t-0 leader 2, ISR 2,3, LE 2, offline 1
        """,
    )
