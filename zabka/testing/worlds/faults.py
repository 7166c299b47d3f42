"""Faults of the links, requests, disks and clocks of a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Unpack

from zabka.ensemble.request_fault import RequestFault
from zabka.ensemble.runtime.client_end import client_end
from zabka.ensemble.runtime.link_fault import LinkFault
from zabka.kafka.request_faults.ready_sets import narrowed
from zabka.simulation.cluster.service_machine import ServiceMachine
from zabka.simulation.cluster.world import World
from zabka.testing.live.faults import end_of
from zabka.testing.request_faults import RequestMatch, RequestSelection


class SimFault:
    """An active fault."""

    def __init__(self, undo: Sequence[Callable[[], None]]) -> None:
        self._undo = list(undo)

    def heal(self) -> None:
        """End the fault; further calls have no effect."""
        for undo in self._undo:
            undo()
        self._undo.clear()


class SimRequestFaults(SimFault):
    """The active request faults of one rule, or of a ready-made set of rules."""

    def __init__(self, world: World, ids: Sequence[str]) -> None:
        super().__init__([partial(world.remove_fault, fault_id) for fault_id in ids])
        self._world = world
        self._ids = ids

    @property
    def used(self) -> int:
        """Number of requests that the faults have been applied to, on all nodes."""
        return sum(map(self._world.request_fault_uses, self._ids))


def _names_client(*ends: object) -> bool:
    return any(client_end(end_of(end)) is not None for end in ends)


class SimFaults:
    """Methods to inject faults of links, of requests, of disks and of clocks.

    An end of a link is a node, the name of a client's machine, or a client in a format that
    `zabka.testing.live.faults.Faults` accepts.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[SimFault] = []

    def _pairs(self, source: object, target: object) -> list[tuple[str, str]]:
        first, second = end_of(source), end_of(target)
        every = [*self._world.node_names(), *(machine.name for machine in self._world.services)]
        others = [name for name in every if name != first] if second == "*" else [second]
        return [(first, other) for other in others]

    def _keep(self, undo: Sequence[Callable[[], None]]) -> SimFault:
        fault = SimFault(undo)
        self._made.append(fault)
        return fault

    def cut(self, source: object, target: object = "*", *, both_ways: bool = True) -> SimFault:
        """Drop all traffic between source and target, or only from source to target if not `both_ways`."""
        if _names_client(source, target):
            return self._add(LinkFault(end_of(source), end_of(target), "cut", both_ways=both_ways))
        return self._keep([self._world.cut(a, b, both_ways) for a, b in self._pairs(source, target)])

    def delay(self, source: object, target: object, delay_ms: int, *, both_ways: bool = True) -> SimFault:
        """Delay all traffic between source and target, or only from source to target if not `both_ways`."""
        if _names_client(source, target):
            return self._add(LinkFault(end_of(source), end_of(target), "delay", delay_ms, both_ways))
        pairs = self._pairs(source, target)
        pairs += [(b, a) for a, b in pairs] if both_ways else []
        return self._keep([self._world.delay(a, b, delay_ms) for a, b in pairs])

    def limit(self, source: object, target: object, bytes_per_s: int, *, both_ways: bool = True) -> SimFault:
        """Limit the bandwidth of each connection between source and target, in one or both directions."""
        ends = end_of(source), end_of(target)
        return self._add(LinkFault(*ends, "bandwidth", both_ways=both_ways, bytes_per_s=bytes_per_s))

    def _add(self, fault: LinkFault) -> SimFault:
        return self._keep([partial(self._world.remove_fault, self._world.link_fault(fault))])

    def on_request(self, name: str, **match: Unpack[RequestMatch]) -> RequestSelection[SimRequestFaults]:
        """Select requests of a Kafka API or a ZooKeeper operation.  Methods of the returned object define the fault."""
        return RequestSelection(self.add_rule, name, match)

    def add_rule(self, rule: RequestFault) -> SimRequestFaults:
        """Add a rule that injects faults into requests."""
        return self._hold([rule])

    def add_set(self, name: str, **narrowing: str | float) -> SimRequestFaults:
        """Add a ready-made set of request faults, restricted by `narrowing`, for example to a topic.

        Raises ValueError with the reason if the set or a restriction is not valid.
        """
        return self._hold(narrowed(name, narrowing))

    def _hold(self, rules: Sequence[RequestFault]) -> SimRequestFaults:
        made = SimRequestFaults(self._world, [self._world.request_fault(rule) for rule in rules])
        self._made.append(made)
        return made

    def slow_disk(self, machine: object, factor: int) -> SimFault:
        """Slow down the disk of a peer, a broker or a program by that factor."""
        return self._keep([self._world.slow_disk(str(machine), factor)])

    def step_clock(self, program: object, seconds: float) -> SimFault:
        """Set the wall clock of a program's machine forward, or back if `seconds` is negative, until it is healed."""
        machine = self._world.machine(str(program))
        if not isinstance(machine, ServiceMachine):
            raise ValueError(f"{program} is not a program of the test; only the clocks of programs can be set")
        by_us = round(seconds * 1e6)
        fault_id = self._world.announce("step_clock", machine.name, delay_ms=by_us // 1000)
        machine.step_clock(by_us)
        return self._keep([partial(machine.step_clock, -by_us), partial(self._world.over, fault_id)])

    def heal(self) -> None:
        """End all active faults."""
        for fault in self._made:
            fault.heal()
        self._made.clear()
