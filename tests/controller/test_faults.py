"""Several controllers with random faults: the invariants hold for the journal, and the cluster recovers afterwards."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.controlled_shutdown.v3.request import ControlledShutdownRequest

from tests.controller.controller_requests import isr_request, reassignment_request
from tests.controller.controller_world import World
from zabka.controller.controller import KafkaController
from zabka.journal.checkers.invariants import (
    ControllerEpochsRise,
    IsrWithinAssignment,
    OneLeaderPerLeaderEpoch,
    Watchdog,
)
from zabka.journal.events import AssignmentChanged, ControllerElected, ControllerEventFailed, Entry, TopicPartition
from zabka.kafka.zk import znodes

CONTROLLERS, BROKERS = (1, 2, 3), (11, 12, 13)


def disturb(world: World, random: Random, down: set[int]) -> None:
    """Inject one random fault, or run one random administrative action."""
    nodes = sorted(world.nodes)
    node = world.nodes[random.choice(nodes)]
    match random.randrange(9):
        case 0:
            world.ensemble.end_session(node.session.session_id)
        case 1:
            if node.runtime.paused:
                node.runtime.resume()
            else:
                node.runtime.pause()
        case 2:
            node.session.lose_replies = random.randrange(4)
        case 3:
            node.session.lose_requests = random.randrange(4)
        case 4:
            up = [b for b in BROKERS if b not in down]
            if len(up) > 1:
                down.add(broker_id := random.choice(up))
                world.leave(broker_id)
        case 5:
            if down:
                down.discard(broker_id := random.choice(sorted(down)))
                world.join(broker_id)
        case 6:
            name = f"t{len(world.ensemble.nodes['/brokers/topics'].children)}"
            world.create_topic(name, {n: random.sample(BROKERS, 3) for n in range(2)})
        case 7:
            if znodes.CONTROLLER in world.ensemble.nodes:
                world.ensemble.delete(znodes.CONTROLLER)
        case 8:
            node.session.hold_watches = not node.session.hold_watches
            if not node.session.hold_watches:
                node.session.release_watches()


def operate(world: World, random: Random) -> None:
    """Run one random action that moves replicas or leaders.

    It is an operator's reassignment, a leader's ISR change, or a controlled shutdown.
    """
    topic = random.choice(sorted(world.ensemble.nodes["/brokers/topics"].children))
    partition = TopicPartition(topic, random.randrange(2))
    target = random.sample(BROKERS, random.randrange(1, 4))
    acting = [node.controller for _, node in sorted(world.nodes.items()) if node.controller.term is not None]
    match random.randrange(5):
        case 0 if acting:
            acting[0].alter_partition_reassignments(reassignment_request(partition, target))
        case 1 if acting:
            acting[0].alter_partition_reassignments(reassignment_request(partition, None))
        case 2:
            if znodes.REASSIGN_PARTITIONS not in world.ensemble.nodes:
                moves = {partition: tuple(target), TopicPartition("nowhere", 0): (11,)}
                world.ensemble.put(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments(moves))
        case 3 if acting:
            catch_up(acting[0], partition)
        case 4 if acting:
            shutdown = ControlledShutdownRequest(broker_id=random.choice(BROKERS), broker_epoch=-1)
            acting[0].controlled_shutdown(shutdown)


def catch_up(controller: KafkaController, partition: TopicPartition) -> None:
    """Propose an ISR of all live replicas, as the partition's leader does."""
    assert controller.term is not None
    context = controller.term.context
    state = context.leadership.get(partition)
    if state is not None and context.is_live(state.leader):
        isr = [b for b in context.replicas(partition) if context.is_live(b)]
        members = isr if state.leader in isr else [*isr, state.leader]
        controller.alter_partition(isr_request(context, partition, members))


def history(world: World) -> list[Entry]:
    return [Entry(f"broker-{broker_id}", n, n, n, event) for n, (broker_id, event) in enumerate(world.journal, 1)]


@pytest.mark.parametrize("seed", range(25))
def test_reassignments_complete_under_random_faults(seed: int) -> None:
    random = Random(seed)
    world = World()
    world.start(*CONTROLLERS)
    world.join(*BROKERS)
    world.create_topic("t0", {0: BROKERS, 1: BROKERS[::-1]})
    world.settle()
    down: set[int] = set()
    for _ in range(40):
        (operate if random.random() < 0.6 else lambda w, r: disturb(w, r, down))(world, random)
        world.run(random.choice((0, 1, 3, 10, 200)))
    for node in world.nodes.values():
        node.session.lose_replies = node.session.lose_requests = 0
        node.session.release_watches()
        node.runtime.resume()
    # Brokers that have begun a controlled shutdown also need a restart.
    world.leave(*(broker_id for broker_id in BROKERS if broker_id not in down))
    world.run(2_000)
    world.join(*BROKERS)
    world.run(5_000)
    for _ in range(3):
        for topic in sorted(world.ensemble.nodes["/brokers/topics"].children):
            for number in (0, 1):
                catch_up(world.active().controller, TopicPartition(topic, number))
        world.run(2_000)
    assert world.events(AssignmentChanged)
    assert znodes.REASSIGN_PARTITIONS not in world.ensemble.nodes
    for topic in sorted(world.ensemble.nodes["/brokers/topics"].children):
        written = znodes.decode_topic(world.ensemble.data(znodes.topic_path(topic)))
        assert written is not None
        for number, assignment in written.partitions.items():
            state = world.state(topic, number)
            assert not assignment.is_being_reassigned, f"{topic}-{number}: {assignment}"
            assert sorted(state.isr) == sorted(assignment.replicas), f"{topic}-{number}"
            assert state.leader in state.isr


@pytest.mark.parametrize("seed", range(60))
def test_invariants_hold_and_the_cluster_heals_after_faults(seed: int) -> None:
    random = Random(seed)
    world = World()
    world.start(*CONTROLLERS)
    world.join(*BROKERS)
    world.create_topic("t0", {0: BROKERS, 1: BROKERS[::-1]})
    world.settle()
    down: set[int] = set()
    for _ in range(40):
        disturb(world, random, down)
        world.run(random.choice((0, 1, 3, 10, 200)))
    for node in world.nodes.values():
        node.session.lose_replies = node.session.lose_requests = 0
        node.session.release_watches()
        node.runtime.resume()
    for broker_id in sorted(down):
        world.join(broker_id)
    world.run(5_000)
    watchdog = Watchdog([ControllerEpochsRise(), OneLeaderPerLeaderEpoch(), IsrWithinAssignment()])
    for entry in sorted(history(world), key=lambda entry: getattr(entry.event, "zxid", 0) or 0):
        watchdog.see(entry)
    assert watchdog.violations == []
    assert not world.events(ControllerEventFailed)
    active = [node for node in world.nodes.values() if node.controller.is_active]
    assert active == [world.active()]
    epochs = [event.controller_epoch for event in world.events(ControllerElected)]
    assert len(set(epochs)) == len(epochs)
    for topic in sorted(world.ensemble.nodes["/brokers/topics"].children):
        for partition in (0, 1):
            assert world.state(topic, partition).leader in BROKERS, f"{topic}-{partition} has no leader"


def test_same_seed_gives_the_same_journal() -> None:
    def run() -> list[tuple[int, str]]:
        world = World()
        world.start(*CONTROLLERS)
        world.join(*BROKERS)
        random, down = Random(5), set[int]()
        for _ in range(30):
            disturb(world, random, down)
            world.run(5)
        return [(broker_id, repr(event)) for broker_id, event in world.journal]

    assert run() == run()
