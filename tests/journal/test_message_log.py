"""The log of a node's messages.

It has a limited size, continues its numbering after a restart, and never delays the node.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from zabka.ensemble.ids import SessionId
from zabka.ensemble.zab.messages import SyncRequest
from zabka.ensemble.zab.packet_names import packet_contents
from zabka.journal import message_log
from zabka.journal.message_log import MessageLog, message_files, open_message_log
from zabka.journal.messages import Content
from zabka.journal.reader import node_files
from zabka.journal.sightings import Sighting, read_sighting

NODE = "peer-1"
VOTE = Content("election", "Notification", {"vote": 3})


class Connected:
    """Fake transport of a connection from one address to another."""

    def __init__(self, here: tuple[str, int], there: tuple[str, int]) -> None:
        self._names = {"sockname": here, "peername": there}

    def get_extra_info(self, name: str) -> Any:
        return self._names[name]


HERE, THERE = ("127.0.0.1", 3888), ("::ffff:127.0.0.1", 50_000)


def written(directory: Path, node: str = NODE) -> list[Sighting]:
    return [read_sighting(line) for path in message_files(directory, node) for line in path.read_bytes().splitlines()]


def test_both_ends_of_a_connection_log_the_same_message_keys(tmp_path: Path) -> None:
    for node, ends, way in (("peer-1", (HERE, THERE), "sent"), ("peer-2", (THERE, HERE), "received")):
        log = MessageLog(tmp_path, node)
        line = log.line(Connected(*ends))
        for _ in range(2):
            getattr(line, way)(VOTE)
        log.close()
    ours, theirs = written(tmp_path, "peer-1"), written(tmp_path, "peer-2")
    assert [(each.line, each.key) for each in ours] == [(each.line, each.key) for each in theirs]
    assert [each.key for each in ours] == ["Notification#1", "Notification#2"]


def test_path_with_unencodable_characters_does_not_stop_the_log(tmp_path: Path) -> None:
    log = MessageLog(tmp_path, NODE)
    line = log.line(Connected(HERE, THERE))
    sync = packet_contents(SyncRequest(SessionId(1), 7, "/half a \ud800 pair"))
    for content in (*sync, VOTE):
        line.received(content)
    log.close()
    paths = [each.subject.get("path") for each in written(tmp_path)]
    assert paths == ["/half a ? pair", None]


def test_message_numbering_continues_after_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        log = MessageLog(tmp_path, NODE)
        log.line(Connected(HERE, THERE)).sent(VOTE)
        log.close()
    assert [each.n for each in written(tmp_path)] == [1, 2]
    assert node_files(tmp_path) == []


def test_message_log_deletes_its_oldest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_log, "FILE_LINES", 10)
    log = MessageLog(tmp_path, NODE)
    line = log.line(Connected(HERE, THERE))
    for _ in range(107):
        line.sent(VOTE)
    log.close()
    assert [each.n for each in written(tmp_path)] == list(range(61, 108))
    assert len(message_files(tmp_path, NODE)) == message_log.FILES_MAX


def test_message_log_on_a_hanging_disk_drops_messages_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_log, "WAITING_MAX", 5)
    pipe = tmp_path / "peer-1.messages.0000000001.jsonl"
    os.mkfifo(pipe)
    monkeypatch.setattr(message_log, "_last_number", lambda directory, node: 0)
    log = MessageLog(tmp_path, NODE)
    line = log.line(Connected(HERE, THERE))
    # No process reads from the named pipe, so the writing thread blocks when it opens the file.
    for _ in range(1_000):
        line.sent(VOTE)
    assert log.dropped >= 1_000 - 2 * 5
    with pipe.open("rb") as disk:
        log.close()
        first = read_sighting(disk.readline())
    assert first.n == 1


def test_message_log_drops_messages_only_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_log, "BATCH_S", 0.0)
    log = MessageLog(tmp_path, NODE)
    line = log.line(Connected(HERE, THERE))
    line.sent(VOTE)
    eventually(lambda: message_files(tmp_path, NODE) != [] and written(tmp_path) != [])

    class Full(FileIO):
        def write(self, data: Any, /) -> int:
            if len(data) > 10:
                return super().write(bytes(data)[:10])
            raise OSError(errno.ENOSPC, "No space left on device")

    class FullToo:
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    file = log._file
    monkeypatch.setattr(sys, "stderr", FullToo())
    with Full(message_files(tmp_path, NODE)[0], "ab") as log._file:
        for _ in range(3):
            line.sent(VOTE)
        eventually(lambda: log.dropped == 3)
    log._file = file
    line.sent(VOTE)
    log.close()
    assert [(each.n, each.key, each.missed) for each in written(tmp_path)] == [
        (1, "Notification#1", 0),
        (2, "Notification#5", 3),
    ]


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_message_log_line_has_the_number_of_dropped_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_log, "BATCH_S", 0.0)
    log = MessageLog(tmp_path, NODE)
    monkeypatch.setattr(message_log, "WAITING_MAX", 0)
    line = log.line(Connected(HERE, THERE))
    line.sent(VOTE)
    line.sent(VOTE)
    monkeypatch.setattr(message_log, "WAITING_MAX", 100)
    line.sent(VOTE)
    log.close()
    (only,) = written(tmp_path)
    assert (only.missed, only.key) == (2, "Notification#3")


def test_disabled_message_log_writes_nothing(tmp_path: Path) -> None:
    assert open_message_log(tmp_path, NODE, "off") is None
    log = open_message_log(tmp_path, NODE, "all")
    assert log is not None and log.hears_everything
    log.close()
