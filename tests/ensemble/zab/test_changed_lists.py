"""Rolling restarts with a changed server list and reconfigEnabled=false.

As with ZooKeeper 3.9.5, the ensemble has a leader again after each step.
"""

from __future__ import annotations

import pytest

from tests.ensemble.zab.zab_driver import World
from tests.ensemble.zab.zab_solo import E1, Solo, established_leader, request
from zabka.ensemble.ids import Epoch, LinkId, PeerId, Zxid, make_zxid
from zabka.ensemble.zab.effects import CloseLink
from zabka.ensemble.zab.messages import Ack, AckEpoch, FollowerInfo, LeaderInfo, Proposal, UpToDate
from zabka.ensemble.zab.role import Phase

UNLISTED = LinkId(20)


def introduce(solo: Solo, peer_id: int, accepted_epoch: int = 0) -> None:
    solo.do(solo.peer.on_link_accepted(solo.now, UNLISTED))
    solo.packet(FollowerInfo(Epoch(accepted_epoch), PeerId(peer_id)), UNLISTED)


def test_unlisted_learner_follows_without_a_vote() -> None:
    solo = established_leader()
    introduce(solo, 4)
    assert solo.packets(link=UNLISTED) == [LeaderInfo(Epoch(1))]
    solo.packet(AckEpoch(Zxid(0), 0), UNLISTED)
    solo.packet(Ack(E1), UNLISTED)
    assert isinstance(solo.packets(link=UNLISTED)[-1], UpToDate)
    solo.packet(request())
    assert any(isinstance(packet, Proposal) for packet in solo.packets(link=UNLISTED))
    # Only the leader and server 4 have logged the request. They are not a quorum of servers 1, 2 and 3.
    solo.packet(Ack(make_zxid(1, 1)), UNLISTED)
    solo.flush()
    assert solo.app.last_applied == 0
    solo.packet(Ack(make_zxid(1, 1)))
    assert solo.app.last_applied == make_zxid(1, 1)


def test_unlisted_learner_does_not_count_for_a_quorum() -> None:
    solo = Solo(id=3)
    solo.lead(follower=4)
    solo.packet(AckEpoch(Zxid(0), 0))
    solo.flush()
    assert solo.peer.phase is Phase.DISCOVERY and not solo.packets()


def test_unlisted_learner_with_a_later_epoch_is_disconnected() -> None:
    solo = established_leader()
    introduce(solo, 4, accepted_epoch=7)
    assert solo.peer.phase is Phase.BROADCAST
    (closed,) = solo.of(CloseLink)
    assert closed.link == UNLISTED and "restart each server with the new list" in closed.reason


def lists(world: World, members: range) -> None:
    """Set the server list that these servers use from their next start on."""
    lines = [f"server.{i}=h{i}:2888:3888:participant;2181" for i in members]
    for i in members:
        world.own_membership[i] = "\n".join([*lines, "version=0"])


def serves(world: World, *ids: int) -> bool:
    return all(world.nodes[i].alive and world.nodes[i].peer.status().serving for i in ids)


def ensemble(seed: int, servers: int, spares: int = 0) -> World:
    world = World(seed, servers, 0, spares, tick_time_ms=2_000)
    lists(world, range(1, servers + 1))
    world.start()
    world.run_until(lambda: serves(world, *range(1, servers + 1)))
    return world


def restart(world: World, i: int, within_ms: int) -> None:
    world.stop(i)
    world.run(200)
    world.start(i)
    world.run_until(lambda: serves(world, i), within_ms)


def write(world: World) -> None:
    known = len(world.acknowledged)
    leader = world.leader()
    assert leader is not None
    world.write(leader.id)
    world.run_until(lambda: len(world.acknowledged) > known)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("servers", [4, 5])
def test_ensemble_grown_by_a_rolling_restart_serves_at_each_step(servers: int, seed: int) -> None:
    """An ensemble that grows by a rolling restart accepts requests again after each step.

    ZooKeeper's servers take 1.2 to 3.1 s per step, half of it for starting Java.
    """
    world = ensemble(seed, 3, servers - 3)
    write(world)
    lists(world, range(1, servers + 1))
    for i in range(4, servers + 1):
        world.start(i)
        world.run_until(lambda i=i: serves(world, i), 2_000)  # type: ignore[misc]
        write(world)
    for i in (1, 2, 3):
        restart(world, i, 2_000)
        write(world)
    world.run_until(lambda: serves(world, *range(1, servers + 1)), 2_000)
    leader = world.leader()
    assert leader is not None and leader.peer.quorum.voters == tuple(range(1, servers + 1))
    write(world)


@pytest.mark.parametrize("seed", range(5))
def test_ensemble_shrunk_by_rolling_restart_serves_at_each_step(seed: int) -> None:
    world = ensemble(seed, 5)
    write(world)
    world.stop(5)
    world.run_until(lambda: serves(world, 1, 2, 3, 4), 5_000)
    lists(world, range(1, 5))
    for i in (1, 2, 3, 4):
        restart(world, i, 3_000)
        write(world)
    world.run_until(lambda: serves(world, 1, 2, 3, 4), 3_000)
