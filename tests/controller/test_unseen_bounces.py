"""Brokers that bounce while there is no controller.

The next controller detects such a bounce: it compares the czxid of a broker's registration with the mzxid of the
partition state.
"""

from __future__ import annotations

from itertools import product

import pytest
from kio.schema.alter_partition.v3 import request as alter_v3
from kio.schema.errors import ErrorCode as KafkaError

from tests.controller.controller_world import Node, World
from zabka.controller.config import ControllerConfig
from zabka.controller.election import leader_after_bounce
from zabka.controller.partition_store import WrittenState
from zabka.controller.unseen_bounces import _fenced
from zabka.ensemble.client.service import Op
from zabka.journal.events import ControllerEventFailed, LeaderElected, TopicPartition
from zabka.kafka.topic_ids import topic_id_to_kafka
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import LeaderAndIsr

T0 = TopicPartition("t", 0)


@pytest.fixture
def world() -> World:
    """Return a world with the controller on broker 1, and brokers 2, 3 and 4 for the topics of the tests."""
    made = World()
    made.start(1)
    made.join(2, 3, 4)
    return made


def create(world: World, *replicas: int, **config: str) -> None:
    world.create_topic("t", {0: replicas}, **config)
    world.settle()


def bounce(world: World, *broker_ids: int, intact: bool = False) -> None:
    for broker_id in broker_ids:
        world.leave(broker_id)
    world.join(*broker_ids, intact=intact)


def next_controller(world: World, broker_id: int = 9) -> Node:
    """Start the next controller. Then `world.received` contains only the requests of this controller."""
    world.received.clear()
    world.start(broker_id)
    assert world.nodes[broker_id].controller.is_active
    return world.nodes[broker_id]


def epochs_sent(world: World, to: int) -> list[int]:
    return [received.partitions()[T0].leader_epoch for received in world.requests("LeaderAndIsr", to)]


def causes(world: World) -> list[str]:
    return [event.cause for event in world.events(LeaderElected)]


def test_isr_member_replaces_a_leader_whose_bounce_was_not_seen(world: World) -> None:
    create(world, 2, 3)
    world.kill(1)
    bounce(world, 2)
    next_controller(world)
    # The partition state is the same as if a controller had noticed the bounce.
    assert world.brief("t") == (3, (3,), 1)
    assert causes(world) == ["new_topic", "bounced"]
    assert [event.unclean for event in world.events(LeaderElected)] == [False, False]
    # No broker is sent the old leader epoch again. As usual, the list of live brokers is sent first (KAFKA-4443).
    assert set(epochs_sent(world, 2)) == set(epochs_sent(world, 3)) == {1}
    assert next(received.kind for received in world.received if received.to == 2) == "UpdateMetadata"


def test_follower_whose_bounce_was_not_seen_leaves_the_isr(world: World) -> None:
    create(world, 2, 3, 4)
    world.kill(1)
    bounce(world, 3)
    next_controller(world)
    assert world.brief("t") == (2, (2, 4), 1)
    assert set(epochs_sent(world, 3)) == {1}


def test_first_isr_member_that_did_not_bounce_leads(world: World) -> None:
    create(world, 2, 4, 3)
    world.kill(1)
    bounce(world, 2)
    next_controller(world)
    assert world.brief("t") == (4, (4, 3), 1)


def test_unseen_bounce_of_the_only_replica_starts_a_new_epoch(world: World) -> None:
    create(world, 2)
    world.kill(1)
    bounce(world, 2)
    next_controller(world)
    assert world.brief("t") == (2, (2,), 1)
    assert set(epochs_sent(world, 2)) == {1}


def test_isr_is_kept_in_a_new_epoch_if_all_members_bounced(world: World) -> None:
    create(world, 2, 3, 4)
    world.kill(1)
    bounce(world, 4, 3, 2)
    next_controller(world)
    assert world.brief("t") == (2, (2, 3, 4), 1)


def test_isr_whose_members_bounced_keeps_those_with_intact_logs(world: World) -> None:
    create(world, 2, 3, 4)
    world.kill(1)
    bounce(world, 2)
    bounce(world, 3, 4, intact=True)
    next_controller(world)
    # Broker 2 may have lost records. If it stayed leader, the others would truncate their logs to its log.
    assert world.brief("t") == (3, (3, 4), 1)
    assert world.state("t").eligible == ()


def test_possibly_incomplete_replica_is_not_counted_for_min_isr(world: World) -> None:
    world.join(5)
    create(world, 2, 3, 4, 5, min_insync_replicas="3")
    for broker_id in (5, 4):
        world.leave(broker_id)
        world.settle()
    assert world.state("t").isr == (2, 3) and world.state("t").eligible == (4,)
    world.kill(1)
    bounce(world, 2, intact=True)
    bounce(world, 3)
    next_controller(world)
    # If broker 3 (and 5 once it has caught up) were in the ISR, the leader would commit records that broker 4 does not
    # have, although 4 could still become leader.
    assert world.state("t").isr == (2,) and world.state("t").eligible == (4,)
    assert world.state("t").leader == 2


def test_replica_without_log_waits_for_an_eligible_replica(world: World) -> None:
    create(world, 2, 3, 4, min_insync_replicas="2")
    world.leave(4)
    world.settle()
    world.kill(1)
    world.leave(3)
    bounce(world, 2)
    next_controller(world)
    # Broker 3 has the records that broker 2 may have lost.
    assert world.brief("t")[:2] == (-1, (2,)) and world.state("t").eligible == (3,)
    world.join(3, intact=True)
    world.settle()
    assert world.brief("t")[:2] == (3, (3,))
    assert not any(event.unclean for event in world.events(LeaderElected))


def test_first_eligible_replica_leads_if_no_log_is_intact(world: World) -> None:
    create(world, 2, 3, min_insync_replicas="2")
    world.kill(1)
    world.leave(3)
    bounce(world, 2)
    next_controller(world)
    world.join(3)
    world.settle()
    assert world.brief("t")[:2] == (2, (2,)) and world.state("t").eligible == ()


@pytest.mark.parametrize("back", [2, 3, 4])
def test_first_isr_member_leads_after_a_cluster_restart(world: World, back: int) -> None:
    create(world, 2, 3, 4, unclean_leader_election_enable="false")
    world.leave(2, 3, 4)
    world.kill(1)
    # The previous controller died before it noticed that the brokers were down.
    assert world.brief("t") == (2, (2, 3, 4), 0)
    world.join(back)
    next_controller(world)
    assert world.brief("t") == (back, (back,), 1)
    assert not any(event.unclean for event in world.events(LeaderElected))


def test_isr_member_that_stayed_is_preferred_to_a_bounced_one(world: World) -> None:
    create(world, 2, 3, 4)
    world.kill(1)
    world.leave(2)
    bounce(world, 3)
    next_controller(world)
    assert world.brief("t") == (4, (4,), 1)


def test_bounced_broker_outside_the_isr_changes_nothing(world: World) -> None:
    create(world, 2, 3, 4)
    world.set_isr("t", 0, [2, 3])
    world.kill(1)
    bounce(world, 4)
    next_controller(world)
    assert world.brief("t") == (2, (2, 3), 0)
    assert epochs_sent(world, 4) == [0]


def test_state_newer_than_a_registration_is_not_overwritten(world: World) -> None:
    create(world, 2, 3, 4)
    bounce(world, 3)
    world.settle()
    assert world.brief("t") == (2, (2, 4), 1)
    # Replica 3 has caught up, so its leader proposes to add it to the ISR again.
    controller = world.nodes[1].controller
    epoch = controller.term.context.broker_epoch(2)
    row = alter_v3.PartitionData(
        partition_index=0,
        leader_epoch=1,
        new_isr_with_epochs=tuple(alter_v3.BrokerState(broker_id=b, broker_epoch=-1) for b in (2, 3, 4)),
        leader_recovery_state=0,
        partition_epoch=world.state("t").partition_epoch,
    )
    topic_id = topic_id_to_kafka(controller.term.context.topic_ids["t"])
    topic = alter_v3.TopicData(topic_id=topic_id, partitions=(row,))
    request = alter_v3.AlterPartitionRequest(broker_id=2, broker_epoch=epoch, topics=(topic,))
    assert world.call(controller.alter_partition(request)).topics[0].partitions[0].error_code is KafkaError.none
    world.kill(1)
    next_controller(world)
    assert world.brief("t") == (2, (2, 3, 4), 1)
    assert epochs_sent(world, 2) == epochs_sent(world, 3) == [1]


def test_bounce_already_handled_is_ignored_by_next_controller(world: World) -> None:
    create(world, 2, 3)
    world.kill(1)
    bounce(world, 2, 3)
    next_controller(world)
    assert world.brief("t") == (2, (2, 3), 1)
    world.kill(9)
    next_controller(world, 8)
    assert world.brief("t") == (2, (2, 3), 1)


def test_bounces_before_and_after_a_failover_are_both_handled(world: World) -> None:
    create(world, 2, 3)
    world.kill(1)
    bounce(world, 2)
    next_controller(world)
    bounce(world, 3)
    world.settle()
    # Broker 3 was the only ISR member when it bounced.
    assert world.brief("t") == (3, (3,), 3)


def test_fencing_write_is_recognized_after_a_lost_response(world: World) -> None:
    create(world, 2, 3)
    world.kill(1)
    bounce(world, 2)
    lost: list[str] = []

    def lose(ops: list[Op]) -> bool:
        paths = [op.path for op in ops if op.path.endswith("/state")]
        if paths and not lost:
            lost.extend(paths)
            return True
        return False

    node = world.nodes[9] = Node(world, 9, ControllerConfig())
    node.session.lose_reply_to = lose
    node.start()
    world.settle()
    assert lost and world.brief("t") == (3, (3,), 1)
    assert causes(world) == ["new_topic", "bounced"]


def test_state_changed_before_the_fencing_write_is_read_again(world: World) -> None:
    create(world, 2, 3, 4)
    world.kill(1)
    bounce(world, 2)
    node = world.nodes[9] = Node(world, 9, ControllerConfig())
    original, changed = node.session.multi, []

    def multi(ops):
        if ops[-1].path.endswith("/state") and not changed:
            changed.append(1)
            world.set_isr("t", 0, [2, 3])
            # The broker bounces again, after the controller has read the list of brokers.
            bounce(world, 2)
        return original(ops)

    node.session.multi = multi
    node.start()
    world.settle()
    assert changed and world.brief("t") == (3, (3,), 1)
    assert not world.events(ControllerEventFailed)


def test_topic_being_deleted_is_deleted_if_its_leader_bounced(world: World) -> None:
    create(world, 2, 3)
    world.kill(1)
    bounce(world, 2)
    world.ensemble.put(znodes.delete_topic_path("t"))
    next_controller(world)
    world.settle()
    assert not world.has("t") and not world.events(ControllerEventFailed)


def test_isr_after_any_set_of_bounces_contains_the_leader() -> None:
    replicas = (1, 2, 3)
    # Each replica is either outside the ISR, or in the ISR and down, restarted or running.
    for places in product(("out", "dead", "bounced", "steady"), repeat=3):
        at = dict(zip(replicas, places, strict=True))
        isr = tuple(b for b in replicas if at[b] != "out")
        bounced = [b for b in isr if at[b] == "bounced"]
        if not bounced:
            continue
        live = [b for b in isr if at[b] != "dead"]
        steady = [b for b in isr if at[b] == "steady"]
        for leader in (-1, *isr):
            new = leader_after_bounce(LeaderAndIsr(leader, 4, isr, 1), replicas, live, bounced)
            assert new.leader in new.isr and new.leader_epoch == 5
            assert new.isr == tuple(steady or bounced)
            if leader in new.isr:
                assert new.leader == leader


def test_bounce_pending_at_a_failover_is_still_handled(
    world: World,
) -> None:
    create(world, 2, 3, min_insync_replicas="2")
    world.leave(3)
    world.settle()
    assert world.brief("t")[:2] == (2, (2,)) and world.state("t").eligible == (3,)
    node = world.nodes[1]
    original = node.session.multi

    def multi(ops: list[Op]) -> object:
        answer = original(ops)
        if ops[-1].path.endswith("/state"):
            # The controller dies right after the election of broker 3, before it handles that broker 2 may have lost
            # records.
            node.runtime.pause()
        return answer

    node.session.multi = multi
    world.leave(2)
    world.join(2)
    world.join(3, intact=True)
    world.settle()
    assert world.brief("t")[:2] == (3, (3,)) and world.state("t").eligible == (2,)
    world.kill(1)
    next_controller(world)
    assert world.brief("t")[:2] == (3, (3,)) and world.state("t").eligible == ()


@pytest.mark.parametrize(("written_in", "fenced"), [(-1, True), (0, True), (1, False)])
def test_state_written_by_a_later_controller_is_not_overwritten(world: World, written_in: int, fenced: bool) -> None:
    """A controller does not overwrite a partition state that a later controller has written.

    Such a state has a later controller epoch. The controller can overwrite states of its own and of earlier epochs.
    """
    create(world, 2, 3)
    context = world.active().controller.term.context
    state = context.leadership[T0]._replace(controller_epoch=context.epoch + written_in)
    bounced_after = min(context.broker_epoch(broker_id) or 0 for broker_id in (2, 3)) - 1
    assert bool(_fenced(context, {T0: WrittenState(state, bounced_after)})) == fenced
