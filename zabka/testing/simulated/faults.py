"""Faults on the links and disks of a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zabka.simulation.cluster.world import World


class SimFault:
    """A fault in effect."""

    def __init__(self, undo: Sequence[Callable[[], None]]) -> None:
        self._undo = list(undo)

    def heal(self) -> None:
        """End the fault; repeated calls are harmless."""
        for undo in self._undo:
            undo()
        self._undo.clear()


class SimFaults:
    """Faults on the world's links."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[SimFault] = []

    def _pairs(self, source: object, target: object) -> list[tuple[str, str]]:
        first, second = (end if isinstance(end, str) else str(end) for end in (source, target))
        others = [name for name in self._world.node_names() if name != first] if second == "*" else [second]
        return [(first, other) for other in others]

    def _keep(self, undo: Sequence[Callable[[], None]]) -> SimFault:
        fault = SimFault(undo)
        self._made.append(fault)
        return fault

    def cut(self, source: object, target: object = "*", *, both_ways: bool = True) -> SimFault:
        """Drop all traffic."""
        return self._keep([self._world.cut(a, b, both_ways) for a, b in self._pairs(source, target)])

    def delay(self, source: object, target: object, delay_ms: int, *, both_ways: bool = True) -> SimFault:
        """Delay all traffic."""
        pairs = self._pairs(source, target)
        pairs += [(b, a) for a, b in pairs] if both_ways else []
        return self._keep([self._world.delay(a, b, delay_ms) for a, b in pairs])

    def slow_disk(self, peer: object, factor: int) -> SimFault:
        """Make a peer's disk slower by that factor."""
        return self._keep([self._world.slow_disk(str(peer), factor)])

    def heal(self) -> None:
        """End all faults."""
        for fault in self._made:
            fault.heal()
        self._made.clear()
