"""A frozen server's connections stay open but silent. Only `syncLimit` detects it, and does so in time."""

from __future__ import annotations

import pytest

from tests.ensemble.zab.zab_driver import World
from tests.ensemble.zab.zab_solo import Solo
from zabka.ensemble.ids import PeerId
from zabka.ensemble.zab.election import FINALIZE_TIMER, FINALIZE_WAIT_MS
from zabka.ensemble.zab.messages import PeerState

ON_TOP_MS = 250
"""Time allowed after `syncLimit` until writes continue."""
TIMES = [(500, 2), (500, 5), (2000, 2), (2000, 5)]
"""tickTime in milliseconds, and syncLimit in ticks."""
L, F, LEAD = PeerState.LOOKING, PeerState.FOLLOWING, PeerState.LEADING


def settled_world(seed: int, voters: int, tick_ms: int, sync_limit: int) -> World:
    """Return a serving ensemble at a random time between two ticks of its leader."""
    world = World(seed, voters=voters, loss=0.0, tick_time_ms=tick_ms, sync_limit=sync_limit)
    world.delay_ms = (3, 3)  # Election messages keep their order, as on a connection.
    world.start()
    world.run_until(world.settled)
    world.run(world.random.randrange(2 * tick_ms))
    return world


def replaced(world: World, old: int) -> bool:
    leader = world.leader()
    return leader is not None and leader.id != old


@pytest.mark.parametrize(("tick_ms", "sync_limit"), TIMES)
@pytest.mark.parametrize("voters", [3, 5, 7])
def test_frozen_leader_is_replaced_within_sync_limit(voters: int, tick_ms: int, sync_limit: int) -> None:
    for seed in range(10):
        world = settled_world(seed, voters, tick_ms, sync_limit)
        leader = world.leader()
        assert leader is not None
        began = world.now_ms
        world.pause(leader.id)
        world.run_until(lambda world=world, old=leader.id: replaced(world, old))  # type: ignore[misc]
        assert world.now_ms - began <= tick_ms * sync_limit + 120


def test_second_frozen_voter_delays_an_election_by_one_vote_wait() -> None:
    for seed in range(20):
        world = settled_world(seed, 5, 500, 2)
        leader = world.leader()
        assert leader is not None
        began = world.now_ms
        world.pause(leader.id)
        world.pause(leader.id % 5 + 1)
        world.run_until(lambda world=world, old=leader.id: replaced(world, old))  # type: ignore[misc]
        assert world.now_ms - began <= 1000 + ON_TOP_MS


@pytest.mark.parametrize(("tick_ms", "sync_limit"), TIMES)
def test_leader_of_frozen_followers_resigns_after_sync_limit(tick_ms: int, sync_limit: int) -> None:
    for seed in range(20):
        world = settled_world(seed, 3, tick_ms, sync_limit)
        leader = world.leader()
        assert leader is not None
        began = world.now_ms
        for node in world.nodes.values():
            if node is not leader:
                world.pause(node.id)
        world.run_until(lambda leader=leader: not leader.app.serving)  # type: ignore[misc]
        assert world.now_ms - began <= tick_ms * sync_limit + 20


def test_thawed_leader_follows_the_new_one_and_gets_its_writes() -> None:
    world = settled_world(1, 3, 500, 2)
    leader = world.leader()
    assert leader is not None
    world.pause(leader.id)
    world.run_until(lambda: replaced(world, leader.id))
    successor = world.leader()
    assert successor is not None
    world.write(successor.id)
    world.run_until(lambda: len(world.acknowledged) == 1)
    world.resume(leader.id)
    world.run_until(lambda: world.converged() and leader.peer.state is F, 10_000)


def test_election_waits_for_the_same_silent_voter_only_once() -> None:
    solo = Solo(id=3)
    solo.start()
    solo.receive_vote(1, L, (3, 0, 0))
    assert solo.peer.state is L, "2 may still send a better vote"
    solo.timer(FINALIZE_TIMER, FINALIZE_WAIT_MS)
    assert solo.peer.state is LEAD
    solo.timer("leader.init", 1000)
    solo.receive_vote(1, L, (3, 0, 0), round=solo.peer.round)
    assert solo.peer.state is LEAD, "2 is known to be silent"

    solo.receive_vote(2, L, (2, 0, 0))
    solo.timer("leader.init", 1000)
    solo.receive_vote(1, L, (3, 0, 0), round=solo.peer.round)
    assert solo.peer.state is L, "2 is there again"
    solo.receive_vote(2, L, (PeerId(3), 0, 0), round=solo.peer.round)
    assert solo.peer.state is LEAD
