"""Episodes: scripted situations that random faults produce too rarely.

Each seed gets one episode in addition to random faults.

An episode starts when no fault is active, and no other faults are injected until the episode ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import NoNode, ZooKeeperError
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.simulation.cluster.client_machine import ClientMachine, Work
from zabka.simulation.cluster.peer_machine import PeerMachine
from zabka.simulation.faults.process_faults import QUIET_MS, ServingNemesis, replace, rot

Episode = Callable[[ServingNemesis], None]
FIRST_MS_MIN, FIRST_MS_MAX = 1_500, 6_000
AGAIN_MS = 700
FRIEND_PAUSE_MS = 10
SLOW_FACTOR = 1_000
"""Factor by which an episode slows down a disk: an fsync then takes as long as an election."""
ELECTED_MS_MAX = 8_000
PURGED_MS_MAX = 5_000
CALM_MS_MAX = 6_000
REST_MS = 4_000


FRIENDS = "/zabka-writer/friend"


async def _flood(client: Client, runtime: AsyncioRuntime) -> None:
    """Send writes to one server without waiting for the replies."""
    await client.start()
    number = 0
    while True:
        number += 1
        asked = client.create(FRIENDS, b"") if number == 1 else client.set(FRIENDS, b"%d" % number)
        asyncio.ensure_future(asked).add_done_callback(_whatever)
        await runtime.sleep(FRIEND_PAUSE_MS)


async def _one_by_one(client: Client, runtime: AsyncioRuntime) -> None:
    """Send writes to one server, one at a time."""
    await client.start()
    while True:
        try:
            await client.set(FRIENDS, b"")
        except NoNode:
            with suppress(ZooKeeperError):
                await client.create(FRIENDS, b"")
        except ZooKeeperError:
            await runtime.sleep(FRIEND_PAUSE_MS)


def _whatever(done: asyncio.Future[object]) -> None:
    if not done.cancelled():
        done.exception()


def _friend(nemesis: ServingNemesis, machine: PeerMachine, work: Work) -> ClientMachine:
    return nemesis.world.add_client(f"friend-{len(nemesis.world.clients)}", work, machine)


def diverge(nemesis: ServingNemesis) -> None:
    """Make a leader write transactions that no other peer has, lose power, and return before others are committed.

    When the old leader returns, the new leader must synchronise it with TRUNC.
    """
    world, leader = nemesis.world, nemesis.world.leader()
    if leader is None or world.shape.voters < 3:
        return
    friend = _friend(nemesis, leader, _flood)
    others = [machine for machine in world.peers.values() if machine is not leader]

    def part() -> None:
        heals = [world.cut(leader.name, machine.name, both_ways=True) for machine in others]
        nemesis.after(nemesis.random.randrange(60, 400), lambda: die(heals))

    def die(heals: list[Callable[[], None]]) -> None:
        nemesis.hush(True)
        friend.kill()
        # Use a power loss: after a kill, the kernel would still send what the process has written to its sockets.
        world.announce("power_loss", leader.name)
        leader.lose_power()
        for heal in heals:
            heal()
        come_back(ELECTED_MS_MAX)

    def come_back(patience_ms: int) -> None:
        if world.leader() is None and patience_ms > 0:
            nemesis.after(20, lambda: come_back(patience_ms - 20))
            return
        leader.switch_on()
        nemesis.after(QUIET_MS, over)

    def over() -> None:
        nemesis.hush(False)
        nemesis.holds_still = False

    nemesis.holds_still = True
    nemesis.after(1_000, part)


def return_ahead(nemesis: ServingNemesis) -> None:
    """Make a follower lose power and return when it knows of a commit that its leader does not know of yet.

    The follower knows from the leader's acknowledgement and its own log that a transaction is committed, but its own
    acknowledgement does not reach the leader.  The follower then loses power, and returns before the leader has
    committed the transaction.
    """
    world, leader = nemesis.world, nemesis.world.leader()
    followers = [machine for machine in world.peers.values() if machine is not leader]
    if leader is None or len(world.peers) != 3:
        return
    nemesis.random.shuffle(followers)
    ahead, slow = followers
    friend = _friend(nemesis, ahead, _one_by_one)

    def stall() -> None:
        world.announce("slow_disk", slow.name)
        slow.volume.slow_factor = SLOW_FACTOR
        nemesis.hush(True)
        nemesis.after(100, part)

    def part() -> None:
        heal = world.cut(ahead.name, leader.name, both_ways=False)
        nemesis.after(nemesis.random.randrange(10, 60), lambda: die(heal))

    def die(heal: Callable[[], None]) -> None:
        friend.kill()
        world.announce("power_loss", ahead.name)
        ahead.lose_power()
        heal()
        nemesis.after(nemesis.random.randrange(10, 100), ahead.switch_on)
        nemesis.after(800, over)

    def over() -> None:
        slow.volume.slow_factor = 1
        nemesis.hush(False)
        nemesis.holds_still = False

    nemesis.holds_still = True
    nemesis.after(1_000, stall)


def replace_one(nemesis: ServingNemesis) -> None:
    """Replace one server by an empty server while all others are running in an established ensemble."""
    replace(nemesis)


def damage(nemesis: ServingNemesis) -> None:
    """Flip one bit on a server's disk, and restart the server."""
    rot(nemesis, at_once=True)


def replace_after_purge(nemesis: ServingNemesis) -> None:
    """Replace a server by an empty one after the oldest transaction logs of the ensemble have been purged.

    A new ensemble is restarted and writes transactions until the first log is purged.  The remaining logs then do not
    reach back to the first transaction, which the empty server needs.
    """
    world = nemesis.world

    def grow() -> None:
        leader = world.leader()
        if leader is None or not world.every_peer_serves():
            nemesis.after(50, grow)
            return
        friend = _friend(nemesis, leader, _flood)
        wait(leader, friend, PURGED_MS_MAX)

    def wait(leader: PeerMachine, friend: ClientMachine, patience_ms: int) -> None:
        if not world.reached.has_purged(leader.name) and patience_ms > 0:
            nemesis.after(5, lambda: wait(leader, friend, patience_ms - 5))
            return
        friend.kill()
        nemesis.hush(True)
        nemesis.holds_still = False
        replace(nemesis)
        nemesis.after(2 * QUIET_MS, lambda: nemesis.hush(False))

    nemesis.holds_still = True
    for machine in world.peers.values():
        world.announce("crash", machine.name)
        machine.kill()
        machine.switch_on()
    nemesis.after(200, grow)


EPISODES: dict[str, Episode] = {
    "diverge": diverge,
    "return_ahead": return_ahead,
    "replace_one": replace_one,
    "replace_after_purge": replace_after_purge,
    "damage": damage,
}
_NEEDS_ALL_VOTERS = ("replace_one", "replace_after_purge", "damage")


def draw_episode(nemesis: ServingNemesis, name: str | None = None) -> None:
    """Schedule the named episode, or a random one, repeatedly.

    All faults are undone before the episode, and no fault is injected until all peers follow an established leader
    again.
    """
    changes = nemesis.world.shape.changes_members
    names = [name for name in EPISODES if not (changes and name in _NEEDS_ALL_VOTERS)]
    if len(nemesis.world.peers) == 3:
        # This episode is possible only with three servers, and it does not always succeed.
        names.append("return_ahead")
    if "autopurge.purgeInterval" not in nemesis.world.shape.keys:
        names = [name for name in names if name != "replace_after_purge"]
    drawn = names[nemesis.random.randrange(0, len(names))]
    episode = EPISODES[name or drawn]

    def come() -> None:
        if not nemesis.active:
            return
        if nemesis.holds_still:
            nemesis.after(AGAIN_MS, come)
            return
        nemesis.holds_still = True
        nemesis.finish_all()
        nemesis.world.start()
        go_on(CALM_MS_MAX)

    def go_on(patience_ms: int) -> None:
        if nemesis.world.every_peer_serves():
            nemesis.holds_still = False
            episode(nemesis)
        elif patience_ms > 0:
            nemesis.after(50, lambda: go_on(patience_ms - 50))
            return
        else:
            nemesis.holds_still = False
        nemesis.after(nemesis.random.randrange(FIRST_MS_MIN, FIRST_MS_MAX) + REST_MS, come)

    # This episode needs a new, empty ensemble, so it begins at once.
    is_early = episode is replace_after_purge
    nemesis.after(1 if is_early else nemesis.random.randrange(FIRST_MS_MIN, FIRST_MS_MAX), come)
