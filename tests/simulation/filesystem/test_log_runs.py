"""Random runs of a broker's real log directory on a simulated file system, with and without injected bugs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

import pytest

from tests.simulation.filesystem.log_run import KINDS, LogRun, Violation
from zabka.broker_sim.logs.file_log_directory import DiskLogFile, FileLogDirectory
from zabka.ensemble.txnlog.files import write_bytes

SEEDS = range(80)
SEEDS_FOR_A_BUG = range(300)


def test_simulated_log_never_loses_or_invents_a_flushed_batch() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += LogRun(seed).run()
    wanted = (*KINDS, "start", "power lost", "failed", "flush", "segment full", "segment dropped", "truncate")
    assert [what for what in wanted if not reached[what]] == []


@pytest.mark.long
def test_many_log_runs_lose_no_flushed_batch_and_invent_none() -> None:
    for seed in range(1000, 5000):
        LogRun(seed).run()


@contextmanager
def a_flush_syncs_nothing() -> Iterator[None]:
    with patch.object(DiskLogFile, "flush", lambda self: None):
        yield


@contextmanager
def a_flush_leaves_a_new_files_name_to_chance() -> Iterator[None]:
    def flush(self: DiskLogFile) -> None:
        self._files.fdatasync(self._descriptor)

    with patch.object(DiskLogFile, "flush", flush):
        yield


@contextmanager
def small_files_are_not_synced() -> Iterator[None]:
    def write_text(self: FileLogDirectory, name: str, file: str, text: str) -> None:
        path = self._path(name, file)
        write_bytes(path.with_name(path.name + ".tmp"), text.encode(), self._files)
        self._files.rename(path.with_name(path.name + ".tmp"), path)

    with patch.object(FileLogDirectory, "write_text", write_text):
        yield


@contextmanager
def a_write_that_failed_is_not_taken_back() -> Iterator[None]:
    def append(self: DiskLogFile, data: bytes) -> int:
        start = self._size
        self._size += self._files.pwrite(self._descriptor, data, start)
        return start

    with patch.object(DiskLogFile, "append", append):
        yield


INJECTED: dict[Callable[[], AbstractContextManager[None]], str] = {
    a_flush_syncs_nothing: "was flushed, and is gone",
    a_flush_leaves_a_new_files_name_to_chance: "was flushed, and is gone",
    small_files_are_not_synced: "meta.properties|holds|partition.metadata is gone",
    a_write_that_failed_is_not_taken_back: "was written, and is not there|holds what nobody wrote|flushed, and is gone",
}
"""Injected bugs, each with a pattern for the violation that it must cause."""


@pytest.mark.parametrize("mistake", INJECTED, ids=lambda mistake: mistake.__name__)
def test_injected_log_bug_is_detected(mistake: Callable[[], AbstractContextManager[None]]) -> None:
    found = "nothing was found"
    with mistake():
        for seed in SEEDS_FOR_A_BUG:
            try:
                LogRun(seed).run()
            except Violation as shown:
                found = str(shown)
                if re.search(INJECTED[mistake], found):
                    return
    pytest.fail(found)
