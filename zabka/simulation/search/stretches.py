"""Steps that go together, for any world in which every step is drawn: drawn one by one they hardly ever meet.

Broadcast is hurt by what reaches some and not others, and synchronisation by who comes back in the midst of that.  Each
of these stretches leads there, with what is held back held back on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from zabka.simulation.cores.cores import Cores
from zabka.simulation.scenarios.core_steps import Elect, Run, Write
from zabka.simulation.scenarios.file_steps import FileSteps
from zabka.simulation.search.explore_steps import breaks, leading, serving

Stretch = tuple[FileSteps, ...]
"""Steps that are taken one after the other."""
Possible = Callable[[Cores], Iterator[FileSteps | Stretch]]


def way(one: int, other: int) -> str:
    """What one sends to the other, as `Run` names it."""
    return f"{one} > {other}"


def blips(cores: Cores) -> Iterator[Stretch]:
    """Two servers lose each other, and whoever has to look for a leader then finds one."""
    up = tuple(peer for peer in cores.voters if cores.is_up(peer))
    for broken in breaks(cores):
        yield (broken, Run(), Elect(up), Run())


def uneven_writes(cores: Cores) -> Iterator[Stretch]:
    """Somebody's write is held back on the way to some followers, on the disks of others, and the word of others that
    they have it."""
    for leader in leading(cores):
        others = [peer for peer in cores.voters if peer != leader and cores.is_up(peer)]
        places = [("", way(leader, other), way(other, leader), f"disk {other}") for other in others]
        for held in product(*places):
            if any(held):
                yield from ((Write(peer), Run(hold=tuple(filter(None, held)))) for peer in serving(cores))
