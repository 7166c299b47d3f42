"""Eligible leader replicas (KIP-966): they left an ISR smaller than min.insync.replicas, but have all committed
records.
"""

from __future__ import annotations

import pytest

from tests.controller.controller_world import World
from zabka.controller.eligibility import given_way, not_eligible, with_isr, without_eligible
from zabka.controller.historical import Historical
from zabka.journal.events import ControllerEventFailed, LeaderElected, TopicPartition
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import LeaderAndIsr

T0 = TopicPartition("t", 0)


@pytest.fixture
def world() -> World:
    """Return a world with the controller on broker 1, and t-0 on brokers 2, 3 and 4 with min.insync.replicas=2."""
    made = World()
    made.start(1)
    made.join(2, 3, 4)
    made.create_topic("t", {0: [2, 3, 4]}, min_insync_replicas="2")
    made.settle()
    return made


def stands(world: World) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the (leader, ISR, eligible leader replicas) of t-0."""
    state = world.state("t")
    return state.leader, state.isr, state.eligible


def leave(world: World, *broker_ids: int) -> None:
    """Stop the brokers one after the other, and wait each time until the controller has handled the stop."""
    for broker_id in broker_ids:
        world.leave(broker_id)
        world.settle()


def join(world: World, broker_id: int, *, intact: bool) -> None:
    world.join(broker_id, intact=intact)
    world.settle()


def last_election(world: World) -> tuple[int, str, bool]:
    event = world.events(LeaderElected)[-1]
    return event.leader, event.cause, event.unclean


# ---- which replicas become eligible ---------------------------------------------------------------------------


def test_replica_leaving_an_isr_of_min_isr_size_is_not_eligible(world: World) -> None:
    leave(world, 4)
    assert stands(world) == (2, (2, 3), ())


def test_replica_leaving_an_isr_below_min_isr_is_eligible(world: World) -> None:
    leave(world, 4, 3)
    assert stands(world) == (2, (2,), (3,))
    assert world.events(LeaderElected)[-1].eligible == [3]


def test_eligibility_ends_when_isr_reaches_the_minimum_again(world: World) -> None:
    leave(world, 4, 3)
    state = world.active().controller.term.context.leadership[T0]
    settled = world.call(world.active().controller.term.store.update({T0: with_isr(state, (2, 4))}))
    assert settled.written[T0].eligible == ()


def test_state_znode_with_min_isr_1_has_kafkas_bytes(world: World) -> None:
    world.create_topic("plain", {0: [2, 3]})
    world.settle()
    leave(world, 3, 2)
    data = world.ensemble.data(znodes.partition_state_path(TopicPartition("plain", 0)))
    assert data == b'{"version":1,"leader":-1,"leader_epoch":2,"controller_epoch":1,"isr":[2]}'


def test_state_with_eligible_replicas_survives_a_round_trip() -> None:
    state = LeaderAndIsr(-1, 4, (2,), 3, 7, eligible=(3, 4), eligible_by_zxid=99, doubtful=(2,), broker_epoch_seen=77)
    data = znodes.encode_partition_state(state)
    assert data.endswith(
        b'"isr":[2],"eligible_leader_replicas":[3,4],"eligible_by_zxid":99,"doubtful_replicas":[2],"broker_epoch_seen":77}'
    )
    assert znodes.decode_partition_state(data, 7) == state
    for spoilt in (b'"x"', b"[true]", b"{}"):
        read = znodes.decode_partition_state(data.replace(b"[3,4]", spoilt), 7)
        assert read is not None and read.eligible == read.doubtful == () and read.isr == (2,)


def test_recent_min_isr_change_makes_no_replica_eligible(world: World) -> None:
    node = world.active()
    world.set_config("t", min_insync_replicas="3")
    changed = world.ensemble.nodes[znodes.config_path("topics", "t")]
    changed.mtime_ms = node.runtime.now().wall_ms
    leave(world, 4)
    assert stands(world) == (2, (2, 3), ())
    # Let twice the session timeout pass. A leader that has not received the config change has lost its session by then.
    changed.mtime_ms -= 2 * node.config.session_timeout_ms
    leave(world, 3)
    assert stands(world) == (2, (2,), (3,))


def test_invalid_min_isr_makes_no_replica_eligible(world: World) -> None:
    world.set_config("t", min_insync_replicas="9" * 5_000)
    leave(world, 4, 3)
    assert stands(world) == (2, (2,), ())
    assert world.events(ControllerEventFailed) == []


def test_replica_is_ineligible_just_after_default_min_isr_change(world: World) -> None:
    world.create_topic("u", {0: [2, 3, 4]})
    world.settle()
    node, path = world.active(), znodes.config_path("brokers", "<default>")
    world.ensemble.put(path, znodes.encode_config({"min.insync.replicas": "2"}))
    world.ensemble.nodes[path].mtime_ms = node.runtime.now().wall_ms
    leave(world, 4, 3)
    # A leader that still uses min.insync.replicas=1 can have committed records without replica 3.
    assert (world.state("u").isr, world.state("u").eligible) == ((2,), ())


# ---- elections ------------------------------------------------------------------------------------------------


def test_eligible_replica_is_elected_cleanly_without_live_isr(world: World) -> None:
    leave(world, 4, 3)
    join(world, 3, intact=True)
    assert stands(world) == (2, (2,), (3,))
    leave(world, 2)
    assert stands(world) == (3, (3,), (2,))
    assert last_election(world) == (3, "offline", False)


def test_election_waits_for_the_last_isr_member_as_in_kafka() -> None:
    world = World()
    world.start(1, historical=frozenset({Historical.LAST_REPLICA_STANDING}))
    world.join(2, 3, 4)
    world.create_topic("t", {0: [2, 3, 4]}, min_insync_replicas="2")
    world.settle()
    leave(world, 4, 3)
    join(world, 3, intact=True)
    leave(world, 2)
    assert stands(world) == (-1, (2,), ())
    join(world, 2, intact=False)
    assert stands(world) == (2, (2,), ())


def test_lowered_min_isr_removes_eligible_replicas(world: World) -> None:
    leave(world, 4, 3)
    join(world, 3, intact=True)
    world.set_config("t", min_insync_replicas="1")
    leave(world, 2)
    assert stands(world) == (-1, (2,), ())


def test_default_min_isr_change_makes_replicas_ineligible(world: World) -> None:
    leave(world, 4, 3)
    join(world, 3, intact=True)
    world.ensemble.put(znodes.config_path("brokers", "<default>"), znodes.encode_config({"min.insync.replicas": "1"}))
    leave(world, 2)
    assert stands(world) == (-1, (2,), ())


# ---- returning replicas ---------------------------------------------------------------------------------------


def test_eligible_replica_without_an_intact_log_is_removed(world: World) -> None:
    leave(world, 4, 3)
    leader_epoch = world.state("t").leader_epoch
    join(world, 3, intact=False)
    assert stands(world) == (2, (2,), ())
    # The controller must send the leader the new state, because the leader otherwise keeps an outdated partition epoch.
    assert world.requests("LeaderAndIsr", 2)[-1].partitions()[T0].leader_epoch == leader_epoch + 1


def test_broker_that_deleted_its_replica_gets_no_request_for_it(world: World) -> None:
    leave(world, 4, 3)
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    # Broker 2 has deleted its replica. The topic's znodes are removed after the other brokers have returned.
    world.leave(2)
    world.settle()
    world.received.clear()
    join(world, 2, intact=False)
    assert world.requests("UpdateMetadata", 2) and not world.requests("LeaderAndIsr", 2)
    world.join(3, 4)
    world.settle()
    assert not world.has("t")


def test_last_isr_member_with_lost_log_waits_for_an_eligible_one(world: World) -> None:
    leave(world, 4, 3, 2)
    assert stands(world) == (-1, (2,), (3,))
    join(world, 2, intact=False)
    assert stands(world) == (-1, (2,), (3,)) and world.state("t").doubtful == (2,)
    assert last_election(world)[1] == "doubtful_return"
    join(world, 3, intact=True)
    # Broker 2 may have lost records. As a follower, it fetches them from replica 3.
    assert stands(world) == (3, (3,), ()) and world.state("t").doubtful == ()
    assert last_election(world) == (3, "offline", False)


def test_returning_last_isr_member_with_an_intact_log_leads(world: World) -> None:
    leave(world, 4, 3, 2)
    join(world, 2, intact=True)
    assert stands(world) == (2, (2,), (3,))


def test_last_isr_member_leads_if_no_replica_has_an_intact_log(world: World) -> None:
    leave(world, 4, 3, 2)
    join(world, 2, intact=False)
    join(world, 3, intact=False)
    assert stands(world) == (2, (2,), ()) and world.state("t").doubtful == ()


def test_replica_with_lost_records_leads_if_unclean_is_enabled(world: World) -> None:
    world.create_topic("u", {0: [4, 3, 2]}, min_insync_replicas="3", unclean_leader_election_enable="true")
    world.settle()
    leave(world, 4, 3, 2)
    assert world.state("u").eligible == (4, 3)
    join(world, 2, intact=False)
    assert world.state("u") == world.state("u")._replace(leader=2, isr=(2,), eligible=(), doubtful=(), recovering=True)
    assert [(e.leader, e.unclean) for e in world.events(LeaderElected) if e.topic == "u"][-1] == (2, True)


def test_next_controller_handles_an_unseen_return_of_a_broker(world: World) -> None:
    leave(world, 4, 3)
    world.kill(1)
    world.leave(2)
    world.join(2)
    world.start(9)
    world.settle()
    assert stands(world) == (-1, (2,), (3,)) and world.state("t").doubtful == (2,)
    join(world, 3, intact=True)
    assert stands(world) == (3, (3,), ())


def test_unseen_broker_return_is_handled_after_a_state_rewrite(world: World) -> None:
    leave(world, 4, 3)
    # Replica 3 returns while the controller receives no watch events. The controller then writes the partition state
    # again, as it does after an ISR shrink, and dies.
    node = world.active()
    node.session.hold_watches = True
    world.join(3)
    store, state = node.controller.term.store, node.controller.term.context.leadership[T0]
    world.call(store.update({T0: state._replace(leader_epoch=state.leader_epoch + 1)}))
    assert stands(world) == (2, (2,), (3,))
    world.kill(1)
    world.start(9)
    world.settle()
    assert stands(world) == (2, (2,), ())


def test_possibly_incomplete_replica_stays_marked_on_failover(world: World) -> None:
    leave(world, 4, 3, 2)
    join(world, 2, intact=False)
    world.kill(1)
    world.start(9)
    world.settle()
    assert stands(world) == (-1, (2,), (3,)) and world.state("t").doubtful == (2,)


def test_state_without_eligible_replicas_survives_a_round_trip() -> None:
    """A partition state without eligible replicas is decoded exactly as it was encoded.

    The controller recognizes its own repeated write by the znode's content.
    """
    state = LeaderAndIsr(2, 7, (2,), 3, 11, eligible=(3,), eligible_by_zxid=9)
    for changed in (with_isr(state, (2, 3)), not_eligible(state, [3]), without_eligible(state)):
        assert znodes.decode_partition_state(znodes.encode_partition_state(changed), 11) == changed


def test_broker_without_replica_leaves_the_eligible_replicas(world: World) -> None:
    leave(world, 4, 3)
    state = world.state("t")._replace(eligible=(9,))
    written = world.call(world.active().controller.term.store.update({T0: state})).written[T0]
    assert written == world.state("t") == without_eligible(written)


def test_possibly_incomplete_replica_stays_in_the_isr() -> None:
    state = LeaderAndIsr(2, 7, (2, 3), 3, 11, eligible=(4,), eligible_by_zxid=9)
    assert given_way(state, [3]) == state._replace(doubtful=(3,))
    assert given_way(state, [2]) == state._replace(leader=-1, doubtful=(2,))
    assert given_way(state, [4]) == state._replace(eligible=(), eligible_by_zxid=-1)
