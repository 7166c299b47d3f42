"""Faults of the servers of an ensemble: failures of machines, links and disks, and administrator actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from zabka.simulation.choices import STRIKE, WORD_BITS
from zabka.simulation.cluster.bit_rot import flip_bit_of_history
from zabka.simulation.cluster.ensemble_world import ServingWorld
from zabka.simulation.cluster.peer_machine import PeerMachine
from zabka.simulation.cluster.server_machine import ServerMachine
from zabka.simulation.draws import derive_random
from zabka.simulation.forked_seed import ForkedSeed

Undo = Callable[[], None]
Action = Callable[["ServingNemesis"], None]
LASTS_MS_MIN, LASTS_MS_MAX = 100, 7_000
SOON_MS_MAX = 3_000
NEVER = 1 << 60
QUIET_MS = 1_500
"""Time in ms without faults before a server is replaced, so that every other disk has the committed transactions."""


class ServingNemesis:
    """Injects one fault after another and undoes each after a while.  At the end, it undoes the remaining faults."""

    def __init__(self, world: ServingWorld, random: Random, kinds: Sequence[Action], gap_ms: int) -> None:
        self.world = world
        self.random = random
        self.active = False
        self.holds_still = False
        """Whether no faults are injected for now, because a server is being replaced or an episode is running."""
        self.hush: Callable[[bool], None] = _nobody_writes
        """Called with True to stop the clients' writes, and with False to resume them."""
        self._kinds = kinds
        self._gap_ms = gap_ms
        self._undo: dict[int, Undo] = {}
        self._number = 0
        self._injections = 0

    def start(self) -> None:
        """Start injecting faults."""
        self.active = True
        self._schedule()

    def _schedule(self) -> None:
        """Schedule the next fault.

        Each fault has a separate random stream, so that omitting one fault does not change the others.
        """
        self._injections += 1
        random = derive_random(self.world.ground.seed, f"{STRIKE}{self._injections}")
        self.after(random.randrange(1, 2 * self._gap_ms), lambda: self._inject(random))

    def after(self, delay_ms: int, callback: Undo) -> None:
        """Call `callback` after `delay_ms`."""
        self.world.scheduler.after(delay_ms * 1000, callback)

    def _inject(self, random: Random) -> None:
        if not self.active:
            return
        if isinstance(seed := self.world.seed, ForkedSeed):
            # In a fork, number the faults as the run did, even if a fault that was left out had several parts.
            self.world.fault_number = seed.align(random, self.world.fault_number)
        # Zero means no fault. A random draw is practically never zero, but a choice sequence can contain a zero to omit
        # this fault.
        if random.getrandbits(WORD_BITS) and not self.holds_still:
            usual, self.random = self.random, random
            self._kinds[random.randrange(0, len(self._kinds))](self)
            self.random = usual
        self._schedule()

    def heal_all(self) -> None:
        """Stop injecting faults, and undo all of them."""
        self.active = False
        self.finish_all()
        self.hush(False)
        for machine in self.world.servers():
            machine.volume.repair()

    def finish_all(self) -> None:
        """Undo every active fault."""
        undo, self._undo = self._undo, {}
        for each in undo.values():
            each()

    def until_healed(self, undo: Undo, lasts_ms: int = 0) -> None:
        """Call `undo` after `lasts_ms` (0: a random time), or when all faults are undone if that happens earlier."""
        self._number += 1
        number = self._number
        self._undo[number] = undo

        def end_fault() -> None:
            if self._undo.pop(number, None) is not None:
                undo()

        self.after(lasts_ms or self.random.randrange(LASTS_MS_MIN, LASTS_MS_MAX), end_fault)

    @property
    def is_calm(self) -> bool:
        """Whether no fault is active."""
        return not self._undo

    def injected(self) -> list[ServerMachine]:
        """Return the machines that faults can affect."""
        return list(self.world.peers.values())

    def pick(self) -> ServerMachine:
        """Return the machine of a randomly chosen server."""
        return self.pick_peer()

    def pick_peer(self) -> PeerMachine:
        """Draw a peer's machine; the leader has a higher probability."""
        leader = self.world.leader()
        if leader is not None and self.random.random() < 0.3:
            return leader
        machines = list(self.world.peers.values())
        return machines[self.random.randrange(0, len(machines))]

    def again(self, machine: ServerMachine) -> None:
        """Cut the power of a machine that already has a fault, unless faults have stopped."""
        if self.active and not self.holds_still:
            self.down(machine, power=True)

    def down(self, machine: ServerMachine, *, power: bool, lasts_ms: int = 0) -> None:
        """Kill a server, or with `power` cut its power, and start it again later."""
        kind = "power_loss" if power else "crash"
        if not self.world.leaves_out(kind, machine.name):
            self.world.announce(kind, machine.name)
            if power:
                machine.lose_power()
            else:
                machine.kill()
        self.until_healed(machine.switch_on, lasts_ms)


def _nobody_writes(_: bool) -> None:
    return


def kill(nemesis: ServingNemesis) -> None:
    """Kill a server (SIGKILL)."""
    nemesis.down(nemesis.pick(), power=False)


def power_loss(nemesis: ServingNemesis) -> None:
    """Cut a server's power without notifying other machines."""
    nemesis.down(nemesis.pick(), power=True)


def power_loss_of_all(nemesis: ServingNemesis) -> None:
    """Cut the power of all servers at the same time."""
    for machine in nemesis.injected():
        nemesis.down(machine, power=True)


def restart_of_all(nemesis: ServingNemesis) -> None:
    """Stop every server in a controlled way; supervisors restart them."""
    for machine in nemesis.injected():
        _terminate(nemesis, machine)


def terminate(nemesis: ServingNemesis) -> None:
    """Send SIGTERM to a server; a supervisor restarts it."""
    _terminate(nemesis, nemesis.pick())


def _terminate(nemesis: ServingNemesis, machine: ServerMachine) -> None:
    if not nemesis.world.leaves_out("stop", machine.name):
        nemesis.world.announce("stop", machine.name)
        machine.terminate()


def pause(nemesis: ServingNemesis) -> None:
    """Pause a server (SIGSTOP), and resume it later (SIGCONT)."""
    machine = nemesis.pick()
    can_pause = not machine.is_paused and machine.process is not None
    if can_pause and not nemesis.world.leaves_out("pause", machine.name):
        nemesis.world.announce("pause", machine.name)
        machine.pause()
        nemesis.until_healed(machine.resume)


def slow_disk(nemesis: ServingNemesis) -> None:
    """Slow down all operations of a disk."""
    machine = nemesis.pick()
    if nemesis.world.leaves_out("slow_disk", machine.name):
        return
    fault_id = nemesis.world.announce("slow_disk", machine.name)
    machine.volume.slow_factor = nemesis.random.randrange(5, 300)

    def end_fault() -> None:
        machine.volume.slow_factor = 1
        nemesis.world.over(fault_id)

    nemesis.until_healed(end_fault)


def cut(nemesis: ServingNemesis) -> None:
    """Cut a link between two servers, in one or both directions."""
    names = [machine.name for machine in nemesis.injected()]
    source, target = nemesis.random.sample(names, 2)
    nemesis.until_healed(nemesis.world.cut(source, target, both_ways=nemesis.random.random() < 0.5))


def isolate(nemesis: ServingNemesis) -> None:
    """Cut a server off from all others, but not from its clients."""
    victim = nemesis.pick()
    lasts_ms = nemesis.random.randrange(LASTS_MS_MIN, LASTS_MS_MAX)
    for machine in nemesis.injected():
        if machine is not victim:
            nemesis.until_healed(nemesis.world.cut(victim.name, machine.name, both_ways=True), lasts_ms)


def split(nemesis: ServingNemesis) -> None:
    """Partition the servers into two groups."""
    names = [machine.name for machine in nemesis.injected()]
    nemesis.random.shuffle(names)
    size = nemesis.random.randrange(1, len(names))
    lasts_ms = nemesis.random.randrange(LASTS_MS_MIN, LASTS_MS_MAX)
    for left in names[:size]:
        for right in names[size:]:
            nemesis.until_healed(nemesis.world.cut(left, right, both_ways=True), lasts_ms)


def delay(nemesis: ServingNemesis) -> None:
    """Slow down one direction of a link."""
    names = [machine.name for machine in nemesis.injected()]
    source, target = nemesis.random.sample(names, 2)
    nemesis.until_healed(nemesis.world.delay(source, target, nemesis.random.randrange(5, 600)))


def cut_client(nemesis: ServingNemesis) -> None:
    """Cut a client off from a server."""
    clients = list(nemesis.world.clients)
    client = clients[nemesis.random.randrange(0, len(clients))]
    nemesis.until_healed(nemesis.world.cut(client, nemesis.pick().name, both_ways=nemesis.random.random() < 0.5))


def lagging_peer(nemesis: ServingNemesis) -> None:
    """Stop a peer until the leader's memory no longer contains all transactions that the peer misses."""
    nemesis.down(nemesis.pick(), power=False, lasts_ms=nemesis.random.randrange(4_000, 12_000))


def replace(nemesis: ServingNemesis) -> None:
    """Replace a server by an empty server, as the manual describes.

    Do this only while no fault is active and all other servers follow an established leader: committed transactions are
    then on all other disks.
    """
    world, machine = nemesis.world, nemesis.pick_peer()
    others = [each for each in world.peers.values() if each is not machine]
    if not nemesis.is_calm or not world.every_peer_serves():
        return
    nemesis.holds_still = True
    world.announce("replace", machine.name)
    machine.kill()

    def fill() -> None:
        nemesis.after(nemesis.random.randrange(100, 3_000), let_go)
        if all(each.serves for each in others):
            machine.format()
        machine.switch_on()

    def let_go() -> None:
        if machine.serves or not nemesis.active:
            nemesis.holds_still = False
        else:
            nemesis.after(200, let_go)

    nemesis.after(QUIET_MS, fill)


def power_loss_in_mid_operation(nemesis: ServingNemesis) -> None:
    """Cut a server's power during a series of its file operations."""
    machine = nemesis.pick()
    if nemesis.world.leaves_out("power_loss", machine.name):
        return
    nemesis.world.announce("power_loss", machine.name)
    volume = machine.volume
    volume.lose_power_after(nemesis.random.randrange(1, 40))

    def back() -> None:
        # Cancel the power loss, in case it has not happened yet.
        volume.lose_power_after(NEVER)
        machine.switch_on()

    nemesis.until_healed(back)


def fail_sync(nemesis: ServingNemesis) -> None:
    """Make an fsync fail.  As on Linux, the pages that were not written count as clean afterwards.

    In half of the cases, cut the power soon afterwards, so that the content of these pages is lost.
    """
    machine = nemesis.pick()
    nemesis.world.announce("fsync_fails", machine.name)
    machine.volume.fail_next("sync")
    if nemesis.random.random() < 0.5:
        nemesis.after(nemesis.random.randrange(1, SOON_MS_MAX), lambda: nemesis.again(machine))


def fail_file(nemesis: ServingNemesis) -> None:
    """Make a write, read, rename, unlink or open fail."""
    machine = nemesis.pick()
    if nemesis.world.leaves_out("disk_error", machine.name):
        return
    nemesis.world.announce("disk_error", machine.name)
    operation = ("write", "read", "rename", "unlink", "open")[nemesis.random.randrange(0, 5)]
    machine.volume.fail_next(operation)


def fill_disk(nemesis: ServingNemesis) -> None:
    """Fill the disk, leaving at most 40,000 free bytes."""
    machine = nemesis.pick()
    if nemesis.world.leaves_out("disk_full", machine.name):
        return
    volume, fault_id = machine.volume, nemesis.world.announce("disk_full", machine.name)
    volume.room_bytes = nemesis.random.randrange(0, 40_000)

    def make_room() -> None:
        volume.repair()
        nemesis.world.over(fault_id)

    nemesis.until_healed(make_room)


def stall_disk(nemesis: ServingNemesis) -> None:
    """Make an fsync take up to 6 seconds."""
    machine = nemesis.pick()
    if nemesis.world.leaves_out("disk_stalls", machine.name):
        return
    nemesis.world.announce("disk_stalls", machine.name)
    machine.volume.stall_next_sync(nemesis.random.randrange(200, 6_000) * 1000)


def depose(nemesis: ServingNemesis) -> None:
    """Cut the leader off from other peers but not from its clients, so that only its own disk has its proposals.

    In some cases, also cut the leader's power.
    """
    leader = nemesis.world.leader()
    if leader is None:
        return
    lasts_ms = nemesis.random.randrange(1_000, LASTS_MS_MAX)
    for machine in nemesis.world.peers.values():
        if machine is not leader:
            nemesis.until_healed(nemesis.world.cut(leader.name, machine.name, both_ways=True), lasts_ms)
    if nemesis.random.random() < 0.5:
        nemesis.after(nemesis.random.randrange(100, 1_000), lambda: nemesis.again(leader))


def return_to_a_slow_leader(nemesis: ServingNemesis) -> None:
    """Stall the leader's disk, and restart a follower, whose log is then ahead of the leader's log."""
    leader = nemesis.world.leader()
    if leader is None:
        return
    nemesis.world.announce("disk_stalls", leader.name)
    leader.volume.stall_next_sync(nemesis.random.randrange(500, 3_000) * 1000)
    others = [machine for machine in nemesis.world.peers.values() if machine is not leader]
    other = others[nemesis.random.randrange(0, len(others))]
    lasts_ms = nemesis.random.randrange(50, 300)
    nemesis.after(nemesis.random.randrange(100, 400), lambda: nemesis.down(other, power=False, lasts_ms=lasts_ms))


def rot(nemesis: ServingNemesis, *, at_once: bool = False) -> None:
    """Flip a bit in a transaction log or a snapshot.

    Only disks of a minority of the voters are damaged, so that a quorum still has the data.  The server detects the
    damage when it reads the file.
    """
    world, random = nemesis.world, nemesis.random
    fragile = [world.peers[peer] for peer in range(1, (world.shape.voters - 1) // 2 + 1)]
    machine = fragile[random.randrange(0, len(fragile))] if fragile else None
    if machine is None:
        return
    if flip_bit_of_history(
        machine.volume, lambda stop: random.randrange(0, stop), lambda stop: random.randrange(0, stop)
    ):
        world.announce("bit_rot", machine.name)
        if at_once:
            nemesis.down(machine, power=False, lasts_ms=100)
        elif random.random() < 0.7:
            nemesis.after(random.randrange(1, SOON_MS_MAX), lambda: nemesis.again(machine))


FAULTS: dict[str, Action] = {
    "kill": kill,
    "power_loss": power_loss,
    "power_loss_of_all": power_loss_of_all,
    "restart_of_all": restart_of_all,
    "terminate": terminate,
    "pause": pause,
    "slow_disk": slow_disk,
    "cut": cut,
    "isolate": isolate,
    "split": split,
    "delay": delay,
    "cut_client": cut_client,
    "lagging_peer": lagging_peer,
    "power_loss_in_mid_operation": power_loss_in_mid_operation,
    "fail_sync": fail_sync,
    "fail_file": fail_file,
    "fill_disk": fill_disk,
    "stall_disk": stall_disk,
    "depose": depose,
    "return_to_a_slow_leader": return_to_a_slow_leader,
    "rot": rot,
    "replace": replace,
}
"""Faults of an ensemble, by name.  The order matters: it determines what a seed draws."""


_NEEDS_ALL_VOTERS = ("replace", "rot")
"""Faults that require fixed voters: a server that loses its history can recover it only from a quorum of the others."""


def draw_nemesis(world: ServingWorld, random: Random) -> ServingNemesis:
    """Return a nemesis with a random selection of FAULTS; each seed omits different ones (swarm testing)."""
    left_out = _NEEDS_ALL_VOTERS if world.shape.changes_members else ()
    chosen = [action for name, action in FAULTS.items() if random.random() < 0.4 and name not in left_out]
    return ServingNemesis(world, random, chosen or [kill], random.randrange(500, 4_000))
