"""The evidence and the causes that a controller records with its decisions."""

from __future__ import annotations

from tests.controller.controller_world import World
from tests.controller.test_alter_partition import alter
from zabka.controller.partition_store import candidates
from zabka.journal.cause import proposal_cause, registration_cause
from zabka.journal.events import BrokerLivenessChanged, IsrChanged, LeaderElected, TopicPartition
from zabka.kafka.ports import NO_LEADER

T0 = TopicPartition("t", 0)


def led_by_the_second(world: World) -> None:
    """Make broker 4 the controller and broker 2 the leader of t-0. Broker 1 is outside the ISR."""
    world.start(4)
    world.settle()
    world.start(1, 2, 3)
    world.settle()
    world.create_topic("t", {0: [2, 1, 3, 4]})
    world.settle()
    assert alter(world, [2, 3, 4]).error_code == 0


def test_election_event_contains_previous_leader_and_candidates() -> None:
    world = World()
    led_by_the_second(world)
    world.kill(2)
    world.settle()
    elected = world.events(LeaderElected)[-1]
    assert (elected.leader, elected.previous, elected.cause) == (3, 2, "offline")
    assert elected.candidates == [(2, "not_alive"), (1, "not_in_sync"), (3, "elected"), (4, "available")]


def test_state_write_without_an_election_lists_no_candidates() -> None:
    """The journal lists no candidates for a state change that elects no leader.

    Such a change either keeps the leader, or removes it and leaves the election to a later write.
    """
    world = World()
    led_by_the_second(world)
    context = world.active().controller.term.context
    old = context.leadership[T0]
    standing = [(2, "available"), (1, "not_in_sync"), (3, "elected"), (4, "available")]
    assert candidates(context, T0, old, old._replace(leader=3)) == standing
    assert candidates(context, T0, old, old._replace(isr=(2, 3))) == []
    assert candidates(context, T0, old, old._replace(leader=NO_LEADER)) == []
    assert candidates(context, T0, old._replace(leader=NO_LEADER), old) == [
        (2, "elected"), (1, "not_in_sync"), (3, "available"), (4, "available"),
    ]  # fmt: skip
    assert candidates(context, T0, None, old) == [(2, "elected"), (1, "available"), (3, "available"), (4, "available")]


def test_liveness_event_contains_the_registration_that_ended() -> None:
    world = World()
    led_by_the_second(world)
    registration = world.nodes[2].controller.broker_epoch
    world.kill(2)
    world.settle()
    gone = world.events(BrokerLivenessChanged)[-1]
    assert gone.removed == [2] and gone.ended == [(2, registration_cause(2, registration))]


def test_isr_event_contains_removed_replicas_and_its_proposal() -> None:
    world = World()
    led_by_the_second(world)
    changed = world.events(IsrChanged)[-1]
    assert changed.left == [1]
    assert changed.caused_by == proposal_cause(T0, 0), "the partition epoch that the leader knew"


def test_election_event_names_the_broker_that_caused_it() -> None:
    world = World()
    led_by_the_second(world)
    first, second = (world.nodes[broker_id].controller.broker_epoch for broker_id in (3, 2))
    before = len(world.events(LeaderElected))
    world.kill(3)
    world.kill(2)
    world.settle()
    named = {event.caused_by for event in world.events(LeaderElected)[before:]}
    assert named <= {registration_cause(3, first), registration_cause(2, second)}
    answered = [event for event in world.events(LeaderElected)[before:] if event.previous == 2]
    assert answered and all(event.caused_by == registration_cause(2, second) for event in answered if event.leader != 2)
