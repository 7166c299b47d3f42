"""Faults of disks: errors, a disk that is full for a while, stalls, and damage to synced data.

A broker takes a log directory offline at its first error.  Then the machine is switched off, and its disk is repaired
or replaced by an empty one.  `zabka.journal.checkers.record_invariants` defines which records are allowed to be lost.
"""

from __future__ import annotations

from zabka.simulation.cluster.bit_rot import flip_bit_of_history
from zabka.simulation.cluster.broker_machine import BrokerMachine
from zabka.simulation.faults.disk_actions import OPERATIONS, REPAIRED_MS, fragile_peers, repair
from zabka.simulation.faults.nemesis import Action, Nemesis

STALL_MS_MIN, STALL_MS_MAX = 200, 8_000
FOLLOWS_MS_MAX = 4_000
REPLACED_CHANCE = 0.3


# -- disks of peers ----------------------------------------------------------------------------------------------------


def _perhaps_lose_power(nemesis: Nemesis, name: str) -> None:
    """In half of the cases, cut a peer's power soon after its disk fault, so that it can lose data."""
    if nemesis.random.random() < 0.5:
        after_ms = nemesis.random.randrange(1, FOLLOWS_MS_MAX)

        def lose_power() -> None:
            if nemesis.world.is_running(name):
                nemesis.world.kill(name, power_loss=True)
                nemesis.until_healed(lambda: nemesis.world.start(name))

        nemesis.later(after_ms, lose_power)


def fail_sync(nemesis: Nemesis) -> None:
    """Make the next fsync of a peer fail."""
    name = nemesis.pick(nemesis.world.peer_names())
    if not nemesis.world.leaves_out("fsync_fails", name):
        nemesis.world.over(nemesis.world.announce("fsync_fails", name))
        nemesis.world.node(name).volume.fail_next("sync")
    _perhaps_lose_power(nemesis, name)


def fill_disk(nemesis: Nemesis) -> None:
    """Fill a peer's disk."""
    world, name = nemesis.world, nemesis.pick(nemesis.world.peer_names())
    volume, fault_id = world.node(name).volume, world.announce("disk_full", name)
    volume.room_bytes = 0

    def make_room() -> None:
        volume.repair()
        world.over(fault_id)

    nemesis.until_healed(make_room)
    _perhaps_lose_power(nemesis, name)


def stall_disk(nemesis: Nemesis) -> None:
    """Make the next fsync of a peer take up to 8 seconds (fsync.warningthresholdms)."""
    name = nemesis.pick(nemesis.world.peer_names())
    if nemesis.world.leaves_out("fsync_stalls", name):
        return
    nemesis.world.over(nemesis.world.announce("fsync_stalls", name))
    nemesis.world.node(name).volume.stall_next_sync(nemesis.random.randrange(STALL_MS_MIN, STALL_MS_MAX) * 1000)


def damage_disk(nemesis: Nemesis) -> None:
    """Flip a bit in a peer's synced logs or snapshots.

    The peer may restart soon afterwards and read the damaged data.
    """
    fragile = fragile_peers(nemesis.world)
    if fragile:
        name, draw = nemesis.pick(fragile), nemesis.random

        def below(stop: int) -> int:
            return draw.randrange(0, stop)

        if flip_bit_of_history(nemesis.world.node(name).volume, below, below):
            nemesis.world.over(nemesis.world.announce("bit_rot", name))
            _perhaps_lose_power(nemesis, name)


# -- disks of brokers --------------------------------------------------------------------------------------------------


def _some_broker(nemesis: Nemesis) -> BrokerMachine:
    brokers = list(nemesis.world.brokers.values())
    return brokers[nemesis.random.randrange(0, len(brokers))]


def break_log_dir(nemesis: Nemesis) -> None:
    """Make operations of one kind, or of all kinds, in a broker's log directory fail.

    Later, while the machine is off, its disk is repaired or replaced by an empty one.
    """
    draw, world, machine = nemesis.random, nemesis.world, _some_broker(nemesis)
    log_dir = machine.log_dirs[draw.randrange(0, len(machine.log_dirs))]
    is_replaced = draw.random() < REPLACED_CHANCE
    if world.leaves_out("log_dir_fails", machine.name):
        return
    fault_id = world.announce("log_dir_fails", machine.name)
    only = draw.randrange(0, 2 * len(OPERATIONS))
    if only < len(OPERATIONS):
        machine.volume.fail_next(OPERATIONS[only], within=f"{log_dir}/")
    else:
        machine.volume.break_path(f"{log_dir}/")

    def replace_or_repair() -> None:
        if is_replaced:
            world.kill(machine.name, power_loss=True)
            world.over(world.announce("disk_replaced", machine.name))
            machine.format()
        repair(world, machine, fault_id)

    nemesis.until_healed(replace_or_repair)


def fill_log_dir(nemesis: Nemesis) -> None:
    """Fill a broker's disk.  Restart the broker when there is free space again."""
    world, machine = nemesis.world, _some_broker(nemesis)
    if world.leaves_out("log_dir_full", machine.name):
        return
    fault_id = world.announce("log_dir_full", machine.name)
    machine.volume.room_bytes = 0

    def make_room() -> None:
        machine.volume.repair()
        world.over(fault_id)
        world.kill(machine.name)
        world.scheduler.after(REPAIRED_MS * 1000, machine.switch_on)

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
