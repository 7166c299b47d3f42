"""Ctrl-C stops the cluster of `make up` even if only the make process received the SIGINT."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zabka.compose.up import make_was_interrupted

INTERRUPTED = "0000000000010002"
WAITING = "0000000000010000"


def parent(proc: Path, comm: str, blocked: str) -> Path:
    place = proc / str(os.getppid())
    place.mkdir()
    (place / "comm").write_text(comm + "\n")
    (place / "status").write_text(f"Name:\t{comm}\nSigBlk:\t{blocked}\nSigCgt:\t0000000001814205\n")
    return proc


@pytest.mark.parametrize(
    ("comm", "blocked", "interrupted"),
    [("make", INTERRUPTED, True), ("make", WAITING, False), ("bash", INTERRUPTED, False), ("gmake", INTERRUPTED, True)],
)
def test_make_interrupt_is_reported_only_after_a_sigint(
    tmp_path: Path, comm: str, blocked: str, interrupted: bool
) -> None:
    assert make_was_interrupted(parent(tmp_path, comm, blocked)) is interrupted


def test_make_interrupt_is_not_detected_if_proc_is_missing(tmp_path: Path) -> None:
    assert not make_was_interrupted(tmp_path)
