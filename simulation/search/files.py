"""The same over real files, under the storage that serves: the scenario `swarm-files`.

Beside all that may happen to the bare protocol, machines lose their power without a word, autopurge runs, a bit flips,
the newest log is gone, a snapshot is spoiled, and a server is replaced by an empty one.  One server's disk alone may be
damaged: what a majority holds is never lost.  A run takes a few tenths of a second, nearly all of it for files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ensemble.txnlog.log import list_logs
from ensemble.zab.messages import PeerState
from simulation.cores.cores import Cores
from simulation.cores.file_cores import FileCores
from simulation.kernel.draws import derive_random
from simulation.scenarios.core_steps import Break, Crash, Elect, Run, Start, Write, elect
from simulation.scenarios.file_steps import FileSteps, LoseNewestLog, Purge, Replace, Rot, SpoilSnapshot, Vanish
from simulation.scenarios.step import StepFailed
from simulation.search.explore_steps import crashes, serving
from simulation.search.protocol import SOMETIMES, Played, Possible, Stretch, play_drawn

SNAP_COUNTS = (3, 8, 1_000)
COMMIT_LOG_COUNTS = (1, 2, 500)
RETAINED = 3
ELECTIONS_MAX = 5
LOADS = (3, 9)
"""Writes in a row: so many fill a log or two."""
IN_MEMORY = Path("/dev/shm")


def play_files(seed: int) -> Played:
    """Draw the steps of a seed, or of a tape, and take them, on files that are gone afterwards."""
    shape = derive_random(seed, "shape")
    peers, snap_count = (3, 3, 5)[shape.randrange(0, 3)], SNAP_COUNTS[shape.randrange(0, 3)]
    commit_log_count, fragile = COMMIT_LOG_COUNTS[shape.randrange(0, 3)], 1 + shape.randrange(0, peers)
    # Where there is a file system in memory, nobody waits for a disk.
    with TemporaryDirectory(prefix="zabka-search-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as place:
        cores = FileCores(Path(place), peers, snap_count, commit_log_count=commit_log_count, keeps_journal=True)
        damages = partial(_damages, fragile=fragile)
        ordinary = [_crashes if each is crashes else each for each in SOMETIMES]
        replaced = partial(_replacements, fragile=fragile)
        sometimes: list[Possible] = [
            *ordinary, _vanishing, _vanishing, _purges, _spoilt, damages, damages, _loads, _loads, _restarts_of_all,
            _returns, _returns, replaced,
        ]  # fmt: skip
        try:
            return play_drawn(seed, cores, sometimes, partial(_find_out, cores, fragile))
        finally:
            cores.close()


def _crashes(cores: Cores) -> Iterator[FileSteps]:
    """Every process, and every part of its disk's work: to see what each would leave behind is to do it, here."""
    for peer in cores.voters:
        if cores.is_up(peer):
            for written in range(len(cores.nodes[peer].queue) + 1):
                yield Crash((peer,), written)


# What fills logs and begins others takes many steps in a row, which chance alone hardly ever takes.


def _loads(cores: Cores) -> Iterator[Stretch]:
    """Whoever serves takes writes, each when the one before it is everywhere."""
    for peer in serving(cores):
        for count in LOADS:
            yield (Write(peer), Run()) * count


def _restarts_of_all(cores: Cores) -> Iterator[Stretch]:
    """The whole ensemble ends, and begins again."""
    up = tuple(peer for peer in cores.voters if cores.is_up(peer))
    yield (*((Crash(up),) if up else ()), Start(), Elect(cores.voters), Run())


def _returns(cores: Cores) -> Iterator[Stretch]:
    """Whoever is down comes back, and whoever looks for a leader finds one."""
    for peer in cores.voters:
        if cores.nodes[peer].peer is None:
            up = tuple(other for other in cores.voters if other == peer or cores.is_up(other))
            yield (Start((peer,)), Elect(up), Run())


def _replacements(cores: Cores, fragile: int) -> Iterator[Stretch]:
    """That server ends; an empty one takes its place, where `_damages` allows it, and joins."""
    assert isinstance(cores, FileCores)
    others = tuple(peer for peer in cores.voters if peer != fragile)
    if cores.is_up(fragile) and _hold_the_same(cores, others):
        yield (Crash((fragile,)), Run(), Replace(fragile), Start((fragile,)), Elect(cores.voters), Run())


def _hold_the_same(cores: FileCores, peers: Sequence[int]) -> bool:
    """Do all of these serve, one of them leading, and have the same history?"""
    states = [status.state for peer in peers if (status := cores.nodes[peer].status) is not None]
    same = len({tuple(cores.files(peer).history()) for peer in peers}) == 1
    return PeerState.LEADING in states and set(peers) <= set(serving(cores)) and same


def _vanishing(cores: Cores) -> Iterator[FileSteps]:
    for peer in cores.voters:
        if cores.is_up(peer):
            yield Vanish(peer)


def _purges(cores: Cores) -> Iterator[FileSteps]:
    for peer in cores.voters:
        if cores.is_up(peer):
            yield Purge(peer, RETAINED)


def _spoilt(cores: Cores) -> Iterator[FileSteps]:
    for peer in cores.voters:
        if cores.is_up(peer):
            yield SpoilSnapshot(peer)


def _damages(cores: Cores, fragile: int) -> Iterator[FileSteps]:
    """What may befall that server's disk.  An empty server takes the place of one that is down while all others serve
    and hold the same: it knows nothing of what its disk had promised."""
    assert isinstance(cores, FileCores)
    disk, is_down = cores.files(fragile), cores.nodes[fragile].peer is None
    for zxid in disk.history()[-4:]:
        yield Rot(fragile, f"{zxid >> 32}.{zxid & 0xFFFFFFFF}")
    if not is_down:
        return
    if list_logs(disk.directories.log):
        yield LoseNewestLog(fragile)
    if _hold_the_same(cores, [peer for peer in cores.voters if peer != fragile]):
        yield Replace(fragile)


def _find_out(cores: FileCores, fragile: int) -> None:
    """Whoever waits for a machine that is gone hears of its end; who runs on what it remembers finds the damage at its
    next start, when the others have a leader: in a step of an election nobody connects, however long it takes."""
    for link in cores.links:
        if not (link.opener_open and link.acceptor_open):
            Break(link.opener, link.acceptor).play(cores)
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
