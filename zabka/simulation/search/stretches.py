"""Sequences of related steps for random runs: single random steps rarely combine to them.

Broadcast fails when a message reaches only some peers, and synchronisation when a peer returns during that. Each of
these sequences leads there, and held links and disks stay held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from zabka.simulation.scenarios.core_steps import Elect, Run, Write
from zabka.simulation.scenarios.file_steps import FileSteps
from zabka.simulation.search.explore_steps import breaks, leading, serving
from zabka.simulation.steps.bare_ensemble import BareEnsemble

Stretch = tuple[FileSteps, ...]
"""Steps that are played one after the other."""
Possible = Callable[[BareEnsemble], Iterator[FileSteps | Stretch]]


def way(one: int, other: int) -> str:
    """Return the name in `Run` of the direction from one server to another."""
    return f"{one} > {other}"


def blips(cores: BareEnsemble) -> Iterator[Stretch]:
    """Two servers lose their connections; each finds a leader again if it has to."""
    up = tuple(peer for peer in cores.voters if cores.is_up(peer))
    for broken in breaks(cores):
        yield (broken, Run(), Elect(up), Run())


def uneven_writes(cores: BareEnsemble) -> Iterator[Stretch]:
    """A write is held back on its way to some followers, on the disks of others, and in the acknowledgements of
    others."""
    for leader in leading(cores):
        others = [peer for peer in cores.voters if peer != leader and cores.is_up(peer)]
        places = [("", way(leader, other), way(other, leader), f"disk {other}") for other in others]
        for held in product(*places):
            if any(held):
                yield from ((Write(peer), Run(hold=tuple(filter(None, held)))) for peer in serving(cores))
