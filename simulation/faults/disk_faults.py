"""The scenario `disks`: chaos on disks that fail.

Peers keep their logs on `faulty_disk`, brokers theirs on `faulty_log_directory`, some on two of them.  Beside all that
`chaos` draws, disks return errors, are full for a while, or stall; what a power loss leaves of unsynced bytes is torn;
and what was synced is damaged.

Only a minority of the peers has disks that may lose what they synced, for a transaction that is damaged on a quorum may
be lost by definition.  To the same minority belongs what no reader can tell from that: later sectors of an unsynced
write that survive without earlier ones, and garbage in the place of a sector.  (Where a power cut leaves such on every
peer, all of them take themselves for incomplete and none may lead, until an operator says so.)  Epoch files have no
checksum in ZooKeeper's format either; they are not damaged here.

A broker gives a log directory up at its first error.  It is mended with the machine off, which is a power loss; or
replaced by an empty one, and `journal.record_invariants` says what that may cost.  When all is healed, one directory of
a broker that has two fails once more: others must lead what lay there, without the replicas that are out of reach.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from journal.events import TopicPartition
from simulation.disks.faulty_disk import FaultyDisk
from simulation.disks.faulty_log_directory import OPERATIONS, FaultyLogDirectory
from simulation.faults.nemesis import Action, Nemesis
from simulation.judges.settled import unsettled
from simulation.kernel.draws import derive_random

if TYPE_CHECKING:
    from random import Random

    from simulation.run import Run
    from simulation.world import World, WorldSettings

STALL_MS_MIN, STALL_MS_MAX = 200, 8_000
FOLLOWS_MS_MAX = 4_000
MENDED_MS = 400
"""So long a machine is off whose disk is seen to."""
REPLACED_CHANCE = 0.3
ONCE_CHANCE = 0.3
GOES_ON_MS_MAX = 120_000
PEERS_ALONE_CHANCE = 0.5


def disks_shape(settings: WorldSettings, random: Random) -> WorldSettings:
    """A world for this scenario: brokers or not, three peers or five."""
    alone = random.random() < PEERS_ALONE_CHANCE
    return msgspec.structs.replace(
        settings,
        faulty_disks=True,
        brokers=0 if alone else settings.brokers,
        peers=(3, 5)[random.randrange(0, 2)] if alone else settings.peers,
        snap_count=(20, 100, 400)[random.randrange(0, 3)],
    )


def disks(run: Run) -> None:
    """Chaos on disks that fail, then recovery."""
    world = run.world
    draw = derive_random(run.seed, "fragile")
    peers = list(world.peers)
    for _ in range((len(peers) - 1) // 2):
        disk_of(world, f"peer-{peers.pop(draw.randrange(0, len(peers)))}").is_fragile = True
    run.boot()
    kinds = PEER_KINDS | BROKER_KINDS if world.brokers else PEER_KINDS
    run.harm(Nemesis(world, derive_random(run.seed, "nemesis"), kinds))
    _go_on_without_a_directory(world)
    run.recover()


def _go_on_without_a_directory(world: World) -> None:
    """A broker of two directories loses one: nobody counts on what lies there any more.  Then it is mended."""
    draw = derive_random(world.seed, "last directory")
    nodes = [node for node in world.brokers.values() if len(node.directories) > 1]
    if not nodes:
        return
    world.until(lambda: unsettled(world) is None, GOES_ON_MS_MAX, "brokers that agree before another directory fails")
    node = nodes[draw.randrange(0, len(nodes))]
    assert node.disks is not None, "disks fail in this scenario alone"
    directory = node.disks.directories[draw.randrange(0, len(node.disks.directories))]
    lying = [name for name in world.replication.znodes.states if str(name) in directory.disk.partitions()]
    ends = world.announce("log_dir_fails", node.name)
    directory.fail(OPERATIONS)
    world.until(
        lambda: not any(_is_counted_on(world, node.broker_id, name) for name in lying),
        GOES_ON_MS_MAX,
        f"partitions that do not count on what lies in a failed directory of {node.name}",
    )
    world.kill(node.name, power_loss=True)
    directory.mend()
    ends()
    world.run(MENDED_MS)
    world.start(node.name)


def _is_counted_on(world: World, broker: int, name: TopicPartition) -> bool:
    """Does the quorum take that broker to lead, or to be in sync where others are?"""
    state = world.replication.znodes.states.get(name)
    return state is not None and (state.leader == broker or (broker in state.isr and len(state.isr) > 1))


def disk_of(world: World, name: str) -> FaultyDisk:
    """A peer's disk."""
    node = next(node for node in world.peers.values() if node.name == name)
    assert isinstance(node.disk, FaultyDisk), "disks fail in this scenario alone"
    return node.disk


# -- peers -------------------------------------------------------------------------------------------------------------


def _in_trouble(nemesis: Nemesis, name: str) -> None:
    """More befalls a peer whose disk failed, soon: it is when it has just restarted that it may have forgotten."""
    if nemesis.random.random() < 0.5:
        after_ms = nemesis.random.randrange(1, FOLLOWS_MS_MAX)

        def strike() -> None:
            if nemesis.world.is_running(name):
                nemesis.world.kill(name, power_loss=True)
                nemesis.until_healed(lambda: nemesis.world.start(name))

        nemesis.later(after_ms, strike)


def fail_sync(nemesis: Nemesis) -> None:
    """The next sync of a peer's log fails."""
    name = nemesis.pick(nemesis.world.peer_names())
    nemesis.world.announce("fsync_fails", name)()
    disk_of(nemesis.world, name).fail_next_sync()
    _in_trouble(nemesis, name)


def fill_disk(nemesis: Nemesis) -> None:
    """A peer's disk takes hardly anything more."""
    name = nemesis.pick(nemesis.world.peer_names())
    disk, ends = disk_of(nemesis.world, name), nemesis.world.announce("disk_full", name)
    disk.fill()
    nemesis.until_healed(_both(disk.make_room, ends))
    _in_trouble(nemesis, name)


def stall_disk(nemesis: Nemesis) -> None:
    """The next sync of a peer's log takes seconds (fsync.warningthresholdms)."""
    name = nemesis.pick(nemesis.world.peer_names())
    nemesis.world.announce("fsync_stalls", name)()
    disk_of(nemesis.world, name).stall_next_sync(nemesis.random.randrange(STALL_MS_MIN, STALL_MS_MAX) * 1000)


def damage_disk(nemesis: Nemesis) -> None:
    """A bit of what a peer has synced is another; it may start soon, or read it as it is."""
    fragile = [name for name in nemesis.world.peer_names() if disk_of(nemesis.world, name).is_fragile]
    if fragile:
        name = nemesis.pick(fragile)
        nemesis.world.announce("bit_flipped", name)()
        disk_of(nemesis.world, name).flip_a_bit()
        _in_trouble(nemesis, name)


# -- brokers -----------------------------------------------------------------------------------------------------------


def _some_directory(nemesis: Nemesis) -> tuple[str, FaultyLogDirectory]:
    draw, brokers = nemesis.random, list(nemesis.world.brokers.values())
    node = brokers[draw.randrange(0, len(brokers))]
    assert node.disks is not None, "disks fail in this scenario alone"
    return node.name, node.disks.directories[draw.randrange(0, len(node.disks.directories))]


def break_log_dir(nemesis: Nemesis) -> None:
    """A broker's log directory fails, wholly or in one thing, or just once; it is mended with the machine off, or
    replaced."""
    draw, world = nemesis.random, nemesis.world
    name, directory = _some_directory(nemesis)
    only = draw.randrange(0, 2 * len(OPERATIONS))
    is_replaced = draw.random() < REPLACED_CHANCE
    ends = world.announce("log_dir_fails", name)
    directory.fail(OPERATIONS[only : only + 1] or OPERATIONS, once=draw.random() < ONCE_CHANCE)

    def mend() -> None:
        world.kill(name, power_loss=True)
        if is_replaced:
            world.announce("disk_replaced", name)()
            directory.disk.wipe()
        directory.mend()
        ends()
        world.scheduler.after(MENDED_MS * 1000, lambda: world.start(name))

    nemesis.until_healed(mend)


def fill_log_dir(nemesis: Nemesis) -> None:
    """A broker's log directory is full; when there is room again, the broker is restarted if it has noticed."""
    world = nemesis.world
    name, directory = _some_directory(nemesis)
    ends = world.announce("log_dir_full", name)
    directory.fill()

    def make_room() -> None:
        ends()
        if directory.mend():
            world.kill(name)
            world.scheduler.after(MENDED_MS * 1000, lambda: world.start(name))

    nemesis.until_healed(make_room)


def _both(one: Callable[[], object], other: Callable[[], object]) -> Callable[[], None]:
    def do() -> None:
        one()
        other()

    return do


PEER_KINDS: dict[str, Action] = {
    "fail_sync": fail_sync,
    "fill_disk": fill_disk,
    "stall_disk": stall_disk,
    "damage_disk": damage_disk,
}
BROKER_KINDS: dict[str, Action] = {
    "break_log_dir": break_log_dir,
    "fill_log_dir": fill_log_dir,
}
