"""Random runs of a peer's real storage on a simulated file system, with and without injected bugs."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tests.ensemble.txnlog.test_formats import a_txn, some_snapshot
from tests.simulation.filesystem.storage_run import KINDS, StorageRun, Violation
from zabka.ensemble.runtime.files import Files
from zabka.ensemble.txnlog import files as small_files
from zabka.ensemble.txnlog import log, log_reading, recovery, snapshot_writer, snapshots, storage, sync_pace
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.directory import open_directories
from zabka.ensemble.txnlog.log import LogWriter
from zabka.ensemble.txnlog.log_reading import LogReader
from zabka.ensemble.txnlog.records import HEADER
from zabka.ensemble.txnlog.snapshots import write_snapshot
from zabka.ensemble.zab.effects import SaveCurrentEpoch
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import PowerLost, Volume

SEEDS = range(60)
SEEDS_FOR_A_BUG = range(400)


@pytest.fixture(autouse=True)
def disks_are_soon_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce from 64 to 4 the number of syncs after which a disk can count as fast.

    The processes of a run end before they have made 64 syncs.
    """
    monkeypatch.setattr(sync_pace, "WINDOW", 4)


def test_storage_runs_neither_lose_nor_invent_writes() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += StorageRun(seed).run()
    wanted = (
        *KINDS, "start", "acknowledged", "snapshot written", "truncation", "replacement", "epoch", "log read",
        "waited in the loop", "power lost at a start", "incomplete", "stopped", "found: bad checksum",
    )  # fmt: skip
    assert [what for what in wanted if not reached[what]] == []


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_many_storage_runs_lose_no_acknowledged_write() -> None:
    for seed in range(1000, 4000):
        StorageRun(seed).run()


def test_storage_run_without_faults_never_stops() -> None:
    for seed in range(10):
        StorageRun(seed, kinds=()).run()


def test_storage_run_is_deterministic() -> None:
    assert [StorageRun(seed).run() for seed in range(5)] == [StorageRun(seed).run() for seed in range(5)]


def test_new_data_directory_survives_a_power_loss() -> None:
    for seed in range(20):
        volume = Volume(Random(seed))
        open_directories(Path("/new/data"), Path("/new/log"), ProcessFiles(volume))
        volume.lose_power()
        files = ProcessFiles(volume)
        assert files.listdir(Path("/new/data")) == files.listdir(Path("/new/log")) == ["version-2"]


def test_interrupted_purge_keeps_the_log_after_every_snapshot() -> None:
    for seed, stop in itertools.product(range(15), range(25)):
        volume = Volume(Random(seed))
        files = ProcessFiles(volume)
        directories, _ = open_directories(Path("/data"), Path("/log"), files)
        for first in (1, 4, 7):
            write_snapshot(directories.data, some_snapshot(first - 1), files)
            writer = LogWriter(directories.log, preallocate_bytes=8192, files=files)
            writer.append([a_txn(first + n) for n in range(3)])
            writer.roll()
        volume.lose_power_after(stop)
        with suppress(PowerLost):
            recovery.purge(directories, 1)
        volume.lose_power()
        left = directories._replace(files=ProcessFiles(volume))
        logs = {first for first, _ in left.logs()}
        assert {zxid for zxid, _ in left.snapshots()} >= {6}
        assert logs >= {first for zxid, _ in left.snapshots() for first in (1, 4, 7) if first > zxid}


# ---- injected bugs ---------------------------------------------------------------------------------------------------


@contextmanager
def durable_is_said_before_the_sync() -> Iterator[None]:
    with patch.object(LogWriter, "sync", lambda self: None):
        yield


@contextmanager
def names_are_not_synced() -> Iterator[None]:
    """Injected bug: small files, including the epochs, are renamed, but their directory is not synced."""
    with patch.object(small_files, "sync_directory", lambda directory, files: None):
        yield


@contextmanager
def a_new_logs_name_is_not_synced() -> Iterator[None]:
    with patch.object(log, "sync_directory", lambda directory, files: None):
        yield


@contextmanager
def snapshots_are_named_before_they_are_synced() -> Iterator[None]:
    take = snapshots.staging

    def staging(staged: Path, snapshot: Any, encoded: Any, suffix: str, files: Files) -> Iterator[int]:
        return take(staged, snapshot, encoded, suffix, _WithoutSync(files))

    with patch.object(snapshot_writer, "staging", staging):
        yield


class _WithoutSync:
    def __init__(self, files: Files) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return (lambda descriptor: None) if name in ("fsync", "fdatasync") else getattr(self._files, name)


@contextmanager
def the_log_right_behind_the_snapshot_is_purged() -> Iterator[None]:
    def purge(directories: Directories, retain: int) -> None:
        logs, kept = directories.logs(), directories.snapshots()[-retain:]
        needed = max((i for i, (zxid, _) in enumerate(logs) if zxid <= kept[0][0]), default=-1) + 1
        small_files.remove_all([path for _, path in logs[:needed]], directories.files)

    with patch.object(storage, "purge", purge):
        yield


@contextmanager
def recovery_trusts_the_kernel() -> Iterator[None]:
    """Injected bug: after a failed sync, the next process only syncs the data that it reads; it does not write it
    again.
    """
    with patch.object(recovery, "write_again", small_files.sync_file):
        yield


@contextmanager
def failed_syncs_are_tried_again() -> Iterator[None]:
    sync = LogWriter.sync

    def stubborn(self: LogWriter) -> None:
        try:
            sync(self)
        except OSError:
            sync(self)

    with patch.object(LogWriter, "sync", stubborn):
        yield


@contextmanager
def an_epoch_begins_before_its_history_is_durable() -> Iterator[None]:
    carry_out = storage.Storage._carry_out_other

    def hasty(self: storage.Storage, effect: Any) -> None:
        if isinstance(effect, SaveCurrentEpoch):
            with patch.object(LogWriter, "sync", lambda log: None):
                carry_out(self, effect)
        else:
            carry_out(self, effect)

    with patch.object(storage.Storage, "_carry_out_other", hasty):
        yield


@contextmanager
def a_damaged_log_is_cut_by_a_truncation() -> Iterator[None]:
    """Injected bug, fixed earlier: if there is damage before the position of a truncation, the log ends at the
    damage.
    """

    def truncate_logs(directory: Path, zxid: int, files: Files) -> None:
        for first, path in reversed(log.list_logs(directory, files)):
            scanned = log.read_log(path, files)[1]
            kept = [end for txn, end in zip(scanned.txns, scanned.ends, strict=True) if txn.zxid <= zxid]
            if first > zxid or not kept:
                small_files.remove_all([path], files)
            else:
                log.cut_file(path, kept[-1], files)
            if first <= zxid:
                return

    with patch.object(recovery, "truncate_logs", truncate_logs):
        yield


@contextmanager
def a_read_position_survives_a_truncation() -> Iterator[None]:
    """Injected bug, fixed earlier: a learner's read position remains valid after a truncation.

    As a result, the first transaction of a later epoch can follow any transaction.
    """
    with patch.object(LogReader, "forget_positions", lambda self: None), _any_epoch_follows():
        yield


@contextmanager
def reading_goes_on_behind_a_bad_record() -> Iterator[None]:
    """Injected bug, fixed earlier: after damage in a file, reading continues in the next file.

    As a result, the first transaction of a later epoch can follow any transaction.
    """

    def records_from(paths: Sequence[Path], offset: int, files: Files) -> Iterator[tuple[Path, int, bytes]]:
        for path in paths:
            yield from whole([path], offset, files)
            offset = HEADER.size

    whole = log_reading._records_from
    with patch.object(log_reading, "_records_from", records_from), _any_epoch_follows():
        yield


@contextmanager
def a_diff_may_have_a_hole() -> Iterator[None]:
    with _any_epoch_follows():
        yield


@contextmanager
def _any_epoch_follows() -> Iterator[None]:
    read = LogReader.read

    def lax(self: LogReader, wanted: Any) -> Any:
        return read(self, _Lax(wanted))  # type: ignore[arg-type]

    with patch.object(LogReader, "read", lax):
        yield


class _Lax:
    """ReadLog effect that accepts the first transaction of any later epoch as the next one."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted
        self.borders = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wanted, name)

    def get(self, last: int, default: int) -> _Follows:
        return _Follows(last, default)


class _Follows:
    def __init__(self, last: int, following: int) -> None:
        self._last = last
        self._following = following

    def __eq__(self, zxid: object) -> bool:
        return isinstance(zxid, int) and (zxid == self._following or recovery.follows(self._last, zxid))

    __hash__ = None  # type: ignore[assignment]


INJECTED: dict[Callable[[], AbstractContextManager[None]], str] = {
    durable_is_said_before_the_sync: "was acknowledged|begun behind",
    names_are_not_synced: "went back|was acknowledged|begun behind|is refused",
    a_new_logs_name_is_not_synced: "was acknowledged|begun behind|not complete",
    snapshots_are_named_before_they_are_synced: "was acknowledged|not complete",
    the_log_right_behind_the_snapshot_is_purged: "was acknowledged|begun behind",
    recovery_trusts_the_kernel: "was acknowledged|begun behind|comes behind|not complete",
    failed_syncs_are_tried_again: "was acknowledged|begun behind|not complete",
    an_epoch_begins_before_its_history_is_durable: "begun behind",
    a_damaged_log_is_cut_by_a_truncation: "was acknowledged|begun behind",
    a_read_position_survives_a_truncation: "which was cut",
    reading_goes_on_behind_a_bad_record: "comes behind",
    a_diff_may_have_a_hole: "comes behind",
}
"""Injected bugs, each with a pattern for the violation that it must cause."""
SLOW = (snapshots_are_named_before_they_are_synced, failed_syncs_are_tried_again)
"""Injected bugs that are found only after many seeds."""


def first_violation(seeds: range, wanted: str = "") -> tuple[int, str]:
    """Return the first seed whose violation matches `wanted`, and the violation.

    If there is none, return -1 and the last violation.
    """
    found = "nothing was found"
    for seed in seeds:
        try:
            StorageRun(seed).run()
        except Violation as shown:
            found = str(shown)
            if re.search(wanted, found):
                return seed, found
    return -1, found


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(each, marks=[pytest.mark.long] if each in SLOW else [], id=each.__name__) for each in INJECTED],
)
def test_injected_storage_bug_is_detected(mistake: Callable[[], AbstractContextManager[None]]) -> None:
    with mistake():
        seed, shown = first_violation(SEEDS_FOR_A_BUG, INJECTED[mistake])
    assert seed >= 0, shown
