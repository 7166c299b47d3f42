"""Actions on disks: failures, stalls, a full disk, damage."""

from __future__ import annotations

from zabka.simulation.cluster.bit_rot import flip_bit_of_history
from zabka.simulation.cluster.broker_machine import BrokerMachine
from zabka.simulation.cluster.node_names import peer_name
from zabka.simulation.cluster.world import World
from zabka.simulation.draws import derive_random
from zabka.simulation.faults.actions import LASTS, LASTS_MS, MEASURE, OTHERS, WHICH, ActionNumbers, SearchAction, Stage

STALLS_MS = (200, 1_000, 4_000, 8_000)
REPAIRED_MS = 400
"""Time in ms that a machine is switched off while its disk is repaired."""
OPERATIONS = ("write", "sync", "read", "open")


def fragile_peers(world: World) -> list[str]:
    """Return the peers whose disks can lose synced data: a minority, so that the ensemble can recover the data."""
    draw, peers = derive_random(world.seed, "fragile"), list(world.peers)
    return [peer_name(peers.pop(draw.randrange(0, len(peers)))) for _ in range((len(peers) - 1) // 2)]


def _peer(stage: Stage, words: ActionNumbers) -> str:
    name = stage.subject(words)
    peers = stage.world.peer_names()
    name = name if name in peers else peers[words.below(WHICH, len(peers))]
    stage.cast.last = name
    return name


def fail_sync(stage: Stage, words: ActionNumbers) -> str:
    """Make the next fsync of a peer fail."""
    name = _peer(stage, words)
    stage.world.over(stage.world.announce("fsync_fails", name))
    stage.world.node(name).volume.fail_next("sync")
    return f"the next sync of {name} fails"


def stall_sync(stage: Stage, words: ActionNumbers) -> str:
    """Make the next fsync of a peer slow."""
    name, for_ms = _peer(stage, words), words.time_ms(LASTS, STALLS_MS)
    stage.world.over(stage.world.announce("fsync_stalls", name))
    stage.world.node(name).volume.stall_next_sync(for_ms * 1000)
    return f"the next sync of {name} takes {for_ms} ms"


def fill_disk(stage: Stage, words: ActionNumbers) -> str:
    """Fill a peer's disk for a while."""
    name, for_ms = _peer(stage, words), words.time_ms(LASTS, LASTS_MS)
    world = stage.world
    volume, fault_id = world.node(name).volume, world.announce("disk_full", name)
    volume.room_bytes = 0

    def make_room() -> None:
        volume.repair()
        world.over(fault_id)

    stage.until_repaired(make_room, for_ms)
    return f"the disk of {name} is full for {for_ms} ms"


def damage_disk(stage: Stage, words: ActionNumbers) -> str:
    """Flip a bit in a log or a snapshot of one of the `fragile_peers`."""
    fragile = fragile_peers(stage.world)
    if not fragile:
        return ""
    name = fragile[words.below(WHICH, len(fragile))]
    if not flip_bit_of_history(stage.world.node(name).volume, words.at(OTHERS), words.at(MEASURE)):
        return ""
    stage.world.over(stage.world.announce("bit_rot", name))
    stage.cast.last = name
    return f"a bit flips on the disk of {name}"


def break_log_dir(stage: Stage, words: ActionNumbers) -> str:
    """Make one kind of operation, or all kinds, fail in a broker's log directory, or fill the broker's disk.

    Later, the disk is repaired and the machine restarted.
    """
    world, name = stage.world, stage.subject(words)
    machine = next((machine for machine in world.brokers.values() if machine.name == name), None)
    if machine is None:
        return ""
    log_dir = machine.log_dirs[words.below(OTHERS, len(machine.log_dirs))]
    kind, for_ms = words.below(MEASURE, len(OPERATIONS) + 3), words.time_ms(LASTS, LASTS_MS)
    fault_id = world.announce("log_dir_fails" if kind else "log_dir_full", name)
    if kind == 0:
        machine.volume.room_bytes = 0
    elif kind <= len(OPERATIONS):
        machine.volume.fail_next(OPERATIONS[kind - 1], within=f"{log_dir}/")
    else:
        machine.volume.break_path(f"{log_dir}/")
    stage.cast.last = name
    stage.until_repaired(lambda: repair(world, machine, fault_id), for_ms)
    return f"a log directory of {name} {'fails' if kind else 'is full'} for {for_ms} ms"


def repair(world: World, machine: BrokerMachine, fault_id: str) -> None:
    """Switch a broker's machine off, repair its disk, and start it again."""
    world.over(fault_id)
    world.kill(machine.name, power_loss=True)
    machine.volume.repair()
    world.scheduler.after(REPAIRED_MS * 1000, machine.switch_on)


DISKS_OF_PEERS: dict[str, SearchAction] = {
    "fail_sync": fail_sync,
    "stall_sync": stall_sync,
    "fill_disk": fill_disk,
    "damage_disk": damage_disk,
}
DISKS_OF_BROKERS: dict[str, SearchAction] = {"break_log_dir": break_log_dir}
