"""Several controllers under random faults: the journal's invariants hold, and afterwards everything heals."""

from __future__ import annotations

from random import Random

import pytest
from controller_world import World

from controller import znodes
from journal.events import ControllerElected, ControllerEventFailed, Entry
from journal.invariants import ControllerEpochsRise, IsrWithinAssignment, OneLeaderPerLeaderEpoch, Watchdog

CONTROLLERS, BROKERS = (1, 2, 3), (11, 12, 13)


def disturb(world: World, random: Random, down: set[int]) -> None:
    """One fault, or one thing that an administrator does."""
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


def history(world: World) -> list[Entry]:
    return [Entry(f"broker-{who}", n, n, n, event) for n, (who, event) in enumerate(world.journal, 1)]


@pytest.mark.parametrize("seed", range(60))
def test_under_random_faults_the_invariants_hold_and_the_cluster_heals(seed: int) -> None:
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


def test_the_same_seed_gives_the_same_journal() -> None:
    def run() -> list[tuple[int, str]]:
        world = World()
        world.start(*CONTROLLERS)
        world.join(*BROKERS)
        random, down = Random(5), set[int]()
        for _ in range(30):
            disturb(world, random, down)
            world.run(5)
        return [(who, repr(event)) for who, event in world.journal]

    assert run() == run()
