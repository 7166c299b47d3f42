"""Actions on disks: failures, stalls, a full disk, damage."""

from __future__ import annotations

from zabka.simulation.disks.faulty_log_directory import OPERATIONS
from zabka.simulation.faults.acts import LASTS, LASTS_MS, MEASURE, OTHERS, WHICH, Deed, Stage, Words
from zabka.simulation.faults.disk_faults import MENDED_MS, disk_of
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.network.addresses import peer_name
from zabka.simulation.world import World

STALLS_MS = (200, 1_000, 4_000, 8_000)


def choose_fragile(world: World) -> None:
    """Make the disks of a minority of the peers fragile: they may lose synced data (`zabka.simulation.seeds.disks`)."""
    draw, peers = derive_random(world.seed, "fragile"), list(world.peers)
    for _ in range((len(peers) - 1) // 2):
        disk_of(world, peer_name(peers.pop(draw.randrange(0, len(peers))))).is_fragile = True


def _peer(stage: Stage, words: Words) -> str:
    name = stage.subject(words)
    peers = stage.world.peer_names()
    name = name if name in peers else peers[words.below(WHICH, len(peers))]
    stage.cast.last = name
    return name


def fail_sync(stage: Stage, words: Words) -> str:
    """Let the next sync of a peer's log fail."""
    name = _peer(stage, words)
    stage.world.announce("fsync_fails", name)()
    disk_of(stage.world, name).fail_next_sync()
    return f"the next sync of {name} fails"


def stall_sync(stage: Stage, words: Words) -> str:
    """Let the next sync of a peer's log take long."""
    name, for_ms = _peer(stage, words), words.time_ms(LASTS, STALLS_MS)
    stage.world.announce("fsync_stalls", name)()
    disk_of(stage.world, name).stall_next_sync(for_ms * 1000)
    return f"the next sync of {name} takes {for_ms} ms"


def fill_disk(stage: Stage, words: Words) -> str:
    """Fill a peer's disk for a while."""
    name, for_ms = _peer(stage, words), words.time_ms(LASTS, LASTS_MS)
    disk, ends = disk_of(stage.world, name), stage.world.announce("disk_full", name)
    disk.fill()

    def make_room() -> None:
        disk.make_room()
        ends()

    stage.until_mended(make_room, for_ms)
    return f"the disk of {name} is full for {for_ms} ms"


def damage_disk(stage: Stage, words: Words) -> str:
    """Flip a bit on a fragile disk."""
    fragile = [name for name in stage.world.peer_names() if disk_of(stage.world, name).is_fragile]
    if not fragile:
        return ""
    name = fragile[words.below(WHICH, len(fragile))]
    stage.world.announce("bit_flipped", name)()
    disk_of(stage.world, name).flip_a_bit()
    stage.cast.last = name
    return f"a bit flips on the disk of {name}"


def break_log_dir(stage: Stage, words: Words) -> str:
    """Let a log directory of a broker fail, in all operations or in one, or be full.  It is repaired or replaced later,
    with the machine off."""
    world, name = stage.world, stage.subject(words)
    node = next((node for node in world.brokers.values() if node.name == name), None)
    if node is None or node.disks is None:
        return ""
    directory = node.disks.directories[words.below(OTHERS, len(node.disks.directories))]
    kind, for_ms = words.below(MEASURE, 2 * len(OPERATIONS) + 2), words.time_ms(LASTS, LASTS_MS)
    ends = world.announce("log_dir_fails" if kind else "log_dir_full", name)
    if kind == 0:
        directory.fill()
    else:
        directory.fail(OPERATIONS[kind - 1 : kind] or OPERATIONS)
    stage.cast.last = name

    def mend() -> None:
        ends()
        has_refused = directory.mend()
        if kind == 0 and not has_refused:
            return
        world.kill(name, power_loss=kind > 0)
        if kind > 2 * len(OPERATIONS):
            world.announce("disk_replaced", name)()
            directory.disk.wipe()
        stage.after(MENDED_MS, lambda: world.start(name))

    stage.until_mended(mend, for_ms)
    return f"a log directory of {name} {'fails' if kind else 'is full'} for {for_ms} ms"


DISKS_OF_PEERS: dict[str, Deed] = {
    "fail_sync": fail_sync,
    "stall_sync": stall_sync,
    "fill_disk": fill_disk,
    "damage_disk": damage_disk,
}
DISKS_OF_BROKERS: dict[str, Deed] = {"break_log_dir": break_log_dir}
