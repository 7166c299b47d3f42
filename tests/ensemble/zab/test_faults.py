"""Random faults in the ZAB core. The driver checks the invariants in every turn.

At the end all faults are healed, and the peers must converge.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.ensemble.zab.zab_driver import World

SEEDS = 240
BATCH = 20


def storm(seed: int, steps: int = 60) -> World:
    """Run one world with random faults chosen by the seed."""
    random = Random(f"storm {seed}")
    voters = random.choice((1, 3, 3, 3, 5, 5))
    world = World(
        seed,
        voters,
        observers=random.choice((0, 0, 1)),
        loss=random.choice((0.0, 0.05, 0.3)),
        snap_count=random.choice((6, 40, 1000)),
        committed_log_length=8 if seed % 2 else 500,
    )
    world.cumulative = {i: random.random() < 0.7 for i in world.nodes}
    world.disk_ms = random.choice(((1, 3), (1, 30), (5, 120)))
    world.delay_ms = random.choice(((1, 3), (1, 20), (5, 60)))
    faults = random.sample(("crash", "power", "rot", "cut", "one_way", "reset", "pause"), random.randrange(1, 6))
    world.start()
    ids = tuple(world.nodes)
    for _ in range(steps):
        world.run(random.choice((1, 5, 20, 80, 300, 1500)))
        for _ in range(random.randrange(0, 6)):
            world.write(random.choice(ids))
        if random.random() < 0.3:
            world.sync(random.choice(ids))
        if random.random() < 0.45:
            inject(world, random, random.choice(faults), ids)
        if random.random() < 0.35:
            repair(world, random, ids)
    return world


def inject(world: World, random: Random, fault: str, ids: tuple[int, ...]) -> None:
    victim = random.choice(ids)
    other = random.choice(ids)
    leader = world.leader()
    if leader is not None and random.random() < 0.4:
        victim = leader.id
    if fault in ("crash", "power"):
        victims = ids if random.random() < 0.1 else (victim,)
        for i in victims:
            world.stop(i, power=fault == "power")
    elif fault == "rot" and len(world.voters) > 1 and not any(n.disk.incomplete for n in world.nodes.values()):
        # Damage only one disk at a time: data that two of three servers have lost cannot be restored.
        world.stop(victim)
        world.nodes[victim].disk.rot(random)
    elif fault == "cut":
        world.isolate(victim)
    elif fault == "one_way" and victim != other:
        world.cut_off(victim, other, both=False)
    elif fault == "reset" and victim != other:
        world.break_link(victim, other)
    elif fault == "pause":
        world.pause(victim)


def repair(world: World, random: Random, ids: tuple[int, ...]) -> None:
    kind = random.randrange(0, 3)
    if kind == 0:
        world.start(*(i for i in ids if random.random() < 0.7))
    elif kind == 1:
        world.heal()
    else:
        for i in ids:
            world.resume(i)


def heal_and_converge(world: World) -> None:
    world.heal()
    for i in world.nodes:
        world.resume(i)
    world.loss = 0.0
    world.start()
    world.run_until(world.settled, 30_000)
    world.write(1)
    world.run_until(world.converged, 30_000)
    for node in world.nodes.values():
        have = dict(node.app.entries)
        lost = [zxid for zxid, payload in world.acknowledged.items() if have.get(zxid) != payload]
        assert not lost, f"node {node.id} lost {lost}"


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_invariants_hold_under_faults_and_peers_converge(first: int) -> None:
    for seed in range(first, first + BATCH):
        try:
            heal_and_converge(storm(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
