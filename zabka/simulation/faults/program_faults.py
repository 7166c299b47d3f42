"""Faults of a test's own programs, and the mixes of faults that a test names.

Faults can pause any program, cut it off from nodes, slow down its links, and step its wall clock. They can also kill
programs, or cut their power, but only programs that are configured to restart after a failure.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from zabka.simulation.cluster.service_machine import ServiceMachine
from zabka.simulation.cluster.world import World
from zabka.simulation.draws import derive_random
from zabka.simulation.faults import link_faults, node_faults
from zabka.simulation.faults.broker_faults import bounce_broker, cut_brokers, expire_session, stop_broker
from zabka.simulation.faults.chosen import NumberedNemesis
from zabka.simulation.faults.nemesis import Action, Nemesis, all_of

CLOCK_STEP_MS_MAX = 60_000
GAP_MS_MIN, GAP_MS_MAX = 300, 3_000


class UnknownFaults(ValueError):
    """A test names a mix of faults, or a kind of fault, that does not exist."""


def kill_program(nemesis: Nemesis) -> None:
    """Kill a program (SIGKILL)."""
    _end(nemesis, power_loss=False)


def power_loss_program(nemesis: Nemesis) -> None:
    """Cut the power of a program's machine."""
    _end(nemesis, power_loss=True)


def _end(nemesis: Nemesis, *, power_loss: bool) -> None:
    names = [machine.name for machine in _programs(nemesis) if machine.restarts]
    if names:
        nemesis.crash(names, power_loss)


def pause_program(nemesis: Nemesis) -> None:
    """Pause a program (SIGSTOP), and resume it later (SIGCONT)."""
    running = [each.name for each in _programs(nemesis) if each.process is not None and not each.is_paused]
    if running:
        name = nemesis.pick(running)
        nemesis.world.pause(name)
        nemesis.until_healed(lambda: nemesis.world.resume(name))


def cut_program(nemesis: Nemesis) -> None:
    """Cut a program off from one node or program, or from all of them."""
    names = [machine.name for machine in _programs(nemesis)]
    if not names:
        return
    name = nemesis.pick(names)
    others = [other for other in [*nemesis.world.node_names(), *names] if other != name]
    if nemesis.random.random() < 0.5:
        others = [nemesis.pick(others)]
    both_ways = nemesis.random.random() < 0.7
    nemesis.until_healed(all_of([nemesis.world.cut(name, other, both_ways=both_ways) for other in others]))


def delay_program(nemesis: Nemesis) -> None:
    """Delay one direction of the link between a program and a node."""
    names = [machine.name for machine in _programs(nemesis)]
    if names:
        ends = [nemesis.pick(names), nemesis.pick(nemesis.world.node_names())]
        if nemesis.random.random() < 0.5:
            ends.reverse()
        nemesis.until_healed(nemesis.world.delay(ends[0], ends[1], nemesis.random.randrange(5, 1_000)))


def step_clock(nemesis: Nemesis) -> None:
    """Set a program's wall clock forward or back by up to a minute, and correct it later."""
    machines = _programs(nemesis)
    if not machines:
        return
    machine = machines[nemesis.random.randrange(0, len(machines))]
    by_ms = nemesis.random.randrange(1, CLOCK_STEP_MS_MAX) * (1 if nemesis.random.random() < 0.5 else -1)
    fault_id = nemesis.world.announce("step_clock", machine.name, delay_ms=by_ms)
    machine.step_clock(by_ms * 1000)

    def correct() -> None:
        machine.step_clock(-by_ms * 1000)
        nemesis.world.over(fault_id)

    nemesis.until_healed(correct)


def _programs(nemesis: Nemesis) -> list[ServiceMachine]:
    return [machine for machine in nemesis.world.services if machine.takes_faults]


PROGRAM_FAULTS: dict[str, Action] = {
    "kill_program": kill_program,
    "power_loss_program": power_loss_program,
    "pause_program": pause_program,
    "cut_program": cut_program,
    "delay_program": delay_program,
    "step_clock": step_clock,
}
BROKER_FAULTS: dict[str, Action] = {
    "crash_broker": node_faults.crash_broker,
    "power_loss_broker": node_faults.power_loss_broker,
    "bounce_broker": bounce_broker,
    "stop_broker": stop_broker,
    "expire_session": expire_session,
    "cut_brokers": cut_brokers,
}
"""Faults that need a broker."""
_OF_CLUSTER: dict[str, Action] = {
    **BROKER_FAULTS,
    "crash_peer": node_faults.crash_peer,
    "power_loss_peer": node_faults.power_loss_peer,
    "pause": node_faults.pause,
    "cut_one_way": link_faults.cut_one_way,
    "cut_both_ways": link_faults.cut_both_ways,
    "isolate": link_faults.isolate,
    "delay": link_faults.delay,
    "slow_disk": node_faults.slow_disk,
}
KINDS: dict[str, Action] = {**PROGRAM_FAULTS, **_OF_CLUSTER}
"""All kinds of faults, keyed by name."""
_LOSE_RECORDS = ("power_loss_broker", "bounce_broker")
"""Faults with which even a correct program can lose records: Kafka acknowledges records that are not on disk yet."""
MIXES: dict[str, tuple[str, ...]] = {
    "chaos": tuple(kind for kind in KINDS if kind not in _LOSE_RECORDS),
    "programs": tuple(PROGRAM_FAULTS),
    "kills": ("kill_program", "crash_broker", "stop_broker", "crash_peer"),
    "network": ("cut_program", "delay_program", "cut_brokers", "cut_one_way", "cut_both_ways", "isolate", "delay"),
    "pauses": ("pause_program", "pause"),
    "clocks": ("step_clock",),
    "power": ("power_loss_program", "power_loss_peer", *_LOSE_RECORDS),
}
"""Mixes of faults that a test can name.  With "chaos", each seed uses about half of the kinds."""


def kinds_of(faults: str | Collection[str], brokers: int) -> tuple[str, ...]:
    """Return the kinds of faults that `faults` selects for a world with that many brokers.

    `faults` contains names of mixes or of kinds; in a string, the names are separated by commas. Without brokers, the
    faults of brokers are omitted. Raises UnknownFaults.
    """
    names = faults.split(",") if isinstance(faults, str) else faults
    kinds = dict.fromkeys(kind for name in names for kind in MIXES.get(name.strip(), (name.strip(),)))
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise UnknownFaults(
            f"there are no faults {', '.join(unknown)!r}: name a mix ({', '.join(MIXES)}) or kinds ({', '.join(KINDS)})"
        )
    possible = tuple(kind for kind in kinds if brokers or kind not in BROKER_FAULTS)
    if not possible:
        raise UnknownFaults(f"the faults {', '.join(kinds)} need a broker: set brokers=1 or more")
    return possible


def program_nemesis(world: World, seed: int, kinds: tuple[str, ...], only: Collection[int] | None) -> NumberedNemesis:
    """Return the nemesis of these kinds of faults; with `only`, it injects only the faults with these numbers."""
    drawn = derive_random(seed, "program faults")
    chosen = _half(drawn, kinds) if len(kinds) > len(MIXES["network"]) else kinds
    actions = [KINDS[kind] for kind in chosen]
    return NumberedNemesis(world, seed, actions, drawn.randrange(GAP_MS_MIN, GAP_MS_MAX), only)


def _half(random: Random, kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(kind for kind in kinds if random.random() < 0.5) or kinds
