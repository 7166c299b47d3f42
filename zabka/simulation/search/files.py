"""The scenario `swarm-files`: a random run on real files, with the production storage.

In addition to the faults of `swarm-protocol`, machines lose power without closing connections, autopurge runs, a bit
flips, the newest log is lost, a snapshot is damaged, and an empty server replaces another. Only the disk of one server
(`fragile`) can be damaged, so data that a majority has stored is never lost.

Two in five runs consist of random single steps and random actions (`file_actions`). The others consist only of actions,
about half of them without faults. Half of the ensembles were restarted before the run. A run takes a seventh of a
second, half of which is spent on files.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from zabka.simulation.draws import derive_random
from zabka.simulation.scenarios.core_steps import Crash, Run, Start, elect
from zabka.simulation.scenarios.file_steps import FileSteps
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.search import file_actions
from zabka.simulation.search.explore_steps import crashes, serving
from zabka.simulation.search.protocol import ALWAYS, SOMETIMES, Played, let_go, play_drawn
from zabka.simulation.search.stretches import Possible, uneven_writes
from zabka.simulation.steps.bare_ensemble import BareEnsemble
from zabka.simulation.steps.bare_file_ensemble import BareFileEnsemble

SNAP_COUNTS = (3, 8, 8, 24)
COMMIT_LOG_COUNTS = (1, 2, 500)
ELECTIONS_MAX = 5
UNHURRIED = 0.6
"""Share of runs that consist only of actions, without single steps."""
OLD = 0.5
"""Share of runs whose ensemble has accepted a few writes and been restarted before the search begins."""
PURGING = 0.5
"""Share of the action-only runs in which autopurge follows each series of writes."""
IN_MEMORY = Path("/dev/shm")


def play_files(seed: int) -> Played:
    """Run steps that a seed or a choice sequence selects, on temporary files."""
    shape = derive_random(seed, "shape")
    peers, snap_count = (3, 3, 5)[shape.randrange(0, 3)], SNAP_COUNTS[shape.randrange(0, len(SNAP_COUNTS))]
    commit_log_count, fragile = COMMIT_LOG_COUNTS[shape.randrange(0, 3)], 1 + shape.randrange(0, peers)
    always, sometimes = _unhurried(shape, fragile) if shape.random() < UNHURRIED else _step_by_step(fragile)
    before = file_actions.earlier_life(peers, shape) if shape.random() < OLD else ()
    # Use a file system in memory, to avoid waiting for a disk.
    with TemporaryDirectory(prefix="zabka-search-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as place:
        cores = BareFileEnsemble(Path(place), peers, snap_count, commit_log_count=commit_log_count, keeps_journal=True)
        try:
            return play_drawn(seed, cores, sometimes, partial(_find_out, cores, fragile), always, before)
        finally:
            cores.close()
            # Taking a snapshot freezes all objects (gc.freeze). Unfreeze them, so that Python can free the ended world.
            gc.unfreeze()


def _step_by_step(fragile: int) -> tuple[Sequence[Possible], Sequence[Possible]]:
    """Return the kinds of steps for runs that consist of single steps.

    The first list has the kinds that every such run uses, the second list the kinds that only some runs use.
    """
    ordinary = [_crashes if each is crashes else each for each in SOMETIMES]
    damages, replaced = (
        partial(file_actions.damages, fragile=fragile),
        partial(file_actions.replacements, fragile=fragile),
    )
    return ALWAYS, [
        *ordinary, file_actions.vanishing, file_actions.vanishing, file_actions.purges, file_actions.spoilt, damages,
        damages, file_actions.loads, file_actions.loads, file_actions.restarts_of_all, file_actions.returns,
        file_actions.returns, replaced,
    ]  # fmt: skip


def _unhurried(shape: Random, fragile: int) -> tuple[Sequence[Possible], Sequence[Possible]]:
    """Return two lists of kinds of actions, for runs without single steps.

    Every such run has the kinds in the first list. Only some of these runs have those in the second list.
    """
    loads = file_actions.loads_and_purges if shape.random() < PURGING else file_actions.loads
    damages, replaced = (
        partial(file_actions.damages, fragile=fragile),
        partial(file_actions.replacements, fragile=fragile),
    )
    blinks, blackouts = partial(file_actions.blinks, fragile=fragile), partial(file_actions.blackouts, fragile=fragile)
    in_a_row = partial(file_actions.blinks_in_a_row, fragile=fragile)
    to_damage = partial(file_actions.returns_to_damage, fragile=fragile)
    absences = partial(file_actions.absences, fragile=fragile)
    talks = partial(file_actions.or_else, file_actions.talks, uneven_writes)
    returns = partial(file_actions.or_else, file_actions.returns, file_actions.bounces)
    settling = partial(file_actions.or_else, file_actions.settling, loads)
    always = (loads, loads, loads, settling, settling, settling, let_go, let_go, talks, returns, returns)
    return always, [
        file_actions.restarts_of_all, file_actions.stops, file_actions.bounces, blinks, blackouts, in_a_row, in_a_row,
        file_actions.depositions, file_actions.last_writes, file_actions.last_writes, file_actions.second_terms,
        file_actions.returns_in_vain, file_actions.returns_in_vain, file_actions.interrupted_returns,
        file_actions.interrupted_returns, to_damage, absences, file_actions.impatience, file_actions.purges,
        file_actions.spoilt, damages, replaced, replaced, uneven_writes,
    ]  # fmt: skip


def _crashes(cores: BareEnsemble) -> Iterator[FileSteps]:
    """Yield a crash of every process at every point of its disk's pending operations.

    With real files, it is not known in advance which crashes have the same result.
    """
    for peer in cores.voters:
        if cores.is_up(peer):
            for written in range(len(cores.nodes[peer].queue) + 1):
                yield Crash((peer,), written)


def _find_out(cores: BareFileEnsemble, fragile: int) -> None:
    """Report closed connections to peers that wait for a lost machine, and restart `fragile` once a leader is elected.

    The restart is needed because a process with cached data finds damage on its disk only at its next start. The
    report is needed because election steps open no connections, so the peers would never detect the loss.
    """
    for end in file_actions.half_open(cores):
        end.play(cores)
    Crash((fragile,)).play(cores)
    others = tuple(peer for peer in cores.voters if peer != fragile)
    Start(others).play(cores)
    for _ in range(ELECTIONS_MAX):
        elect(cores, others)
        with suppress(StepFailed):
            Run().play(cores)
        if list(serving(cores)) == list(others):
            break
    Start((fragile,)).play(cores)
