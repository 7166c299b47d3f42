"""Waiting for new data in journals: by notifications of the kernel, or else by polling the files."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from zabka.compose import journal_growth
from zabka.compose.journal_growth import IDLE_POLL_S, JournalGrowth

FIRST, SECOND, MESSAGES = "peer-1.000000000001.jsonl", "peer-1.000000000009.jsonl", "peer-1.messages.0000000001.jsonl"
LONG_S = 30.0
T = TypeVar("T")
needs_inotify = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")


def play(work: Coroutine[None, None, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, LONG_S))


def add(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"{}\n")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    (tmp_path / FIRST).touch()
    (tmp_path / MESSAGES).touch()
    return tmp_path


@pytest.fixture
def growth(journal: Path) -> Iterator[JournalGrowth]:
    watched = JournalGrowth({"peer-1": journal})
    yield watched
    watched.close()


@needs_inotify
def test_closing_the_watcher_wakes_all_waiting_journal_readers(growth: JournalGrowth) -> None:
    async def scene() -> None:
        waiting = asyncio.create_task(growth.grown(growth.next_growth(), 2 * LONG_S))
        await asyncio.sleep(0)
        growth.close()
        await waiting

    play(scene())


@needs_inotify
def test_new_journal_line_wakes_the_waiting_readers(journal: Path, growth: JournalGrowth) -> None:
    async def scene() -> None:
        notice = growth.next_growth()
        waiting = asyncio.create_task(growth.grown(notice, 2 * LONG_S))
        await asyncio.sleep(0)
        add(journal / FIRST)
        await waiting
        assert notice.is_set()

    play(scene())


@needs_inotify
def test_line_written_between_read_and_wait_is_not_overlooked(journal: Path, growth: JournalGrowth) -> None:
    async def scene() -> None:
        notice = growth.next_growth()
        add(journal / FIRST)
        await growth.grown(notice, 2 * LONG_S)
        assert notice.is_set()

    play(scene())


@needs_inotify
def test_every_waiting_journal_reader_is_notified(journal: Path, growth: JournalGrowth) -> None:
    async def scene() -> None:
        waiting = [asyncio.create_task(growth.grown(growth.next_growth(), 2 * LONG_S)) for _ in range(3)]
        await asyncio.sleep(0)
        add(journal / FIRST)
        # A new waiter replaces the object that the kernel's notification sets. The earlier waiters must be notified
        # too.
        growth.next_growth()
        await asyncio.gather(*waiting)

    play(scene())


@needs_inotify
def test_growth_of_the_message_log_does_not_wake_journal_readers(journal: Path, growth: JournalGrowth) -> None:
    async def scene() -> None:
        notice = growth.next_growth()
        add(journal / MESSAGES)
        await growth.grown(notice, 0.05)
        assert not notice.is_set()

    play(scene())


@needs_inotify
def test_new_journal_file_is_watched_from_its_creation(journal: Path, growth: JournalGrowth) -> None:
    async def scene() -> None:
        notice = growth.next_growth()
        add(journal / SECOND)
        await growth.grown(notice, 2 * LONG_S)
        notice = growth.next_growth()
        add(journal / SECOND)
        await growth.grown(notice, 2 * LONG_S)

    play(scene())


@needs_inotify
def test_recreated_journal_directory_is_watched_again(
    journal: Path, growth: JournalGrowth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_growth, "RETRY_S", -1.0)

    async def scene() -> None:
        notice = growth.next_growth()
        shutil.rmtree(journal)
        await growth.grown(notice, 2 * LONG_S)
        growth.next_growth()
        os.mkdir(journal)  # noqa: PTH102
        notice = growth.next_growth()
        add(journal / FIRST)
        await growth.grown(notice, 2 * LONG_S)
        assert notice.is_set()

    play(scene())


@needs_inotify
def test_replaced_journal_directory_is_watched_after_a_timeout(journal: Path, growth: JournalGrowth) -> None:
    async def scene() -> None:
        growth.next_growth()
        os.rename(journal, journal.with_name("old"))  # noqa: PTH104
        os.mkdir(journal)  # noqa: PTH102
        add(journal / FIRST)
        await growth.grown(growth.next_growth(), 0.01)
        notice = growth.next_growth()
        waiting = asyncio.create_task(growth.grown(notice, 2 * LONG_S))
        await asyncio.sleep(0)
        add(journal / FIRST)
        await waiting
        assert notice.is_set()

    play(scene())


def looked_soon(growth: JournalGrowth) -> bool:
    """Return whether a wait for growth ends without a notification, which means that the files are polled."""

    async def scene() -> bool:
        notice = growth.next_growth()
        await growth.grown(notice, 2 * LONG_S)
        return not notice.is_set()

    return play(scene())


def test_missing_journal_is_polled_until_it_exists(journal: Path) -> None:
    growth = JournalGrowth({"peer-1": journal, "peer-2": journal / "none"})
    assert looked_soon(growth)
    growth.close()


def test_journals_are_polled_if_inotify_is_unavailable(growth: JournalGrowth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_growth._Inotify, "open", staticmethod(lambda: None))
    assert looked_soon(growth)
    assert IDLE_POLL_S < 0.12, "the collector holds lines back for 120 ms"
