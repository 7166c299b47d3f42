"""Faults of disks: errors, a disk that is full for a while, stalls, and damage to synced data.

Peers keep their logs on `zabka.simulation.disks.faulty_disk`, brokers on
`zabka.simulation.disks.faulty_log_directory`, some of them on two.  A broker takes a log directory offline at its
first error.  The directory is repaired with the machine off, which is a power loss, or replaced by an empty one;
`zabka.journal.judges.record_invariants` defines which records that may lose.
"""

from __future__ import annotations

from zabka.simulation.disks.faulty_disk import FaultyDisk
from zabka.simulation.disks.faulty_log_directory import OPERATIONS, FaultyLogDirectory
from zabka.simulation.faults.nemesis import Action, Nemesis, all_of
from zabka.simulation.world import World

STALL_MS_MIN, STALL_MS_MAX = 200, 8_000
FOLLOWS_MS_MAX = 4_000
MENDED_MS = 400
"""How long a machine is off while its disk is repaired."""
REPLACED_CHANCE = 0.3
ONCE_CHANCE = 0.3


def disk_of(world: World, name: str) -> FaultyDisk:
    """Return a peer's disk."""
    node = next(node for node in world.peers.values() if node.name == name)
    assert isinstance(node.disk, FaultyDisk), "disks fail in this scenario alone"
    return node.disk


# -- peers -------------------------------------------------------------------------------------------------------------


def _in_trouble(nemesis: Nemesis, name: str) -> None:
    """Perhaps cut the power of a peer soon after its disk failed: a peer that has just restarted may have lost data."""
    if nemesis.random.random() < 0.5:
        after_ms = nemesis.random.randrange(1, FOLLOWS_MS_MAX)

        def strike() -> None:
            if nemesis.world.is_running(name):
                nemesis.world.kill(name, power_loss=True)
                nemesis.until_healed(lambda: nemesis.world.start(name))

        nemesis.later(after_ms, strike)


def fail_sync(nemesis: Nemesis) -> None:
    """Let the next sync of a peer's log fail."""
    name = nemesis.pick(nemesis.world.peer_names())
    nemesis.world.announce("fsync_fails", name)()
    disk_of(nemesis.world, name).fail_next_sync()
    _in_trouble(nemesis, name)


def fill_disk(nemesis: Nemesis) -> None:
    """Fill a peer's disk."""
    name = nemesis.pick(nemesis.world.peer_names())
    disk, ends = disk_of(nemesis.world, name), nemesis.world.announce("disk_full", name)
    disk.fill()
    nemesis.until_healed(all_of((disk.make_room, ends)))
    _in_trouble(nemesis, name)


def stall_disk(nemesis: Nemesis) -> None:
    """Let the next sync of a peer's log take up to 8 seconds (fsync.warningthresholdms)."""
    name = nemesis.pick(nemesis.world.peer_names())
    nemesis.world.announce("fsync_stalls", name)()
    disk_of(nemesis.world, name).stall_next_sync(nemesis.random.randrange(STALL_MS_MIN, STALL_MS_MAX) * 1000)


def damage_disk(nemesis: Nemesis) -> None:
    """Flip a bit of what a peer has synced; the peer may restart soon after that, and read the damage."""
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
    """Let a broker's log directory fail, in all operations or in one, or just once.

    It is repaired or replaced later, with the machine off.
    """
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
    """Fill a broker's log directory.  If the broker has noticed, restart it when there is space again."""
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


PEER_DISK_FAULTS: dict[str, Action] = {
    "fail_sync": fail_sync,
    "fill_disk": fill_disk,
    "stall_disk": stall_disk,
    "damage_disk": damage_disk,
}
LOG_DIR_FAULTS: dict[str, Action] = {
    "break_log_dir": break_log_dir,
    "fill_log_dir": fill_log_dir,
}
