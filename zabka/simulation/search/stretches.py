"""Sequences of related steps for random runs; single random steps rarely form such sequences.

Bugs of the broadcast phase need a message that arrives at only some peers, and bugs of synchronisation need a peer that
returns at that time. Each of these sequences leads to such a situation. A sequence does not release the links and disks
that are already held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from zabka.simulation.scenarios.core_steps import Elect, Run, Write
from zabka.simulation.scenarios.file_steps import FileSteps
from zabka.simulation.search.explore_steps import breaks, leading, serving
from zabka.simulation.steps.bare_ensemble import BareEnsemble

Stretch = tuple[FileSteps, ...]
"""Steps that are performed one after another."""
Possible = Callable[[BareEnsemble], Iterator[FileSteps | Stretch]]


def way(one: int, other: int) -> str:
    """Return the name that the step `Run` uses for the link direction from one server to another."""
    return f"{one} > {other}"


def blips(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield steps that break the connections between two servers, after which each finds a leader if it has none."""
    up = tuple(peer for peer in cores.voters if cores.is_up(peer))
    for broken in breaks(cores):
        yield (broken, Run(), Elect(up), Run())


def uneven_writes(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield writes during which packets or disk operations of some servers are held back.

    For each other server, nothing is held, or one direction of its link with the leader, or its disk.
    """
    for leader in leading(cores):
        others = [peer for peer in cores.voters if peer != leader and cores.is_up(peer)]
        places = [("", way(leader, other), way(other, leader), f"disk {other}") for other in others]
        for held in product(*places):
            if any(held):
                yield from ((Write(peer), Run(hold=tuple(filter(None, held)))) for peer in serving(cores))
