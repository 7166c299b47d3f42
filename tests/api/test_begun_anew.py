"""A node whose disk was emptied numbers its journal entries from 1 again. The API still collects each entry once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.api.test_collector import Clock
from zabka.agent.protocol import JournalChunk, Position
from zabka.api.collector.collector import RESTART_REPORTED_S, Collector
from zabka.compose.journal_files import JournalTail
from zabka.journal.events import ControllerElected, EpochAccepted
from zabka.journal.reader import decode_line
from zabka.journal.writer import JournalWriter, encode_line

NODE = "broker-1"


class Host:
    """A node's journal, the host agent that sends it, and the API's collector. Each can be restarted."""

    def __init__(self, directory: Path) -> None:
        self.journal = directory / "journal"
        self._collected = directory / "collected"
        self.clock = Clock()
        self.collectors: list[Collector] = []
        self._us = 0
        self.begin_api()
        self.begin_agent()
        self.start_node()

    def _clocks(self) -> tuple[int, int]:
        self._us += 10
        return self._us, self._us

    def start_node(self, **bounds: int) -> None:
        self.writer = JournalWriter(self.journal, NODE, **bounds, clocks=self._clocks)

    def empty_disk(self, **bounds: int) -> None:
        self.writer.close()
        shutil.rmtree(self.journal)
        self.start_node(**bounds)

    def begin_agent(self) -> None:
        self._tail = JournalTail(self.journal, NODE)

    def begin_api(self) -> None:
        # Do not close the previous collector: the API process was killed.
        clock = self.clock
        self.collector = Collector(self._collected, wall_us=lambda: clock.wall_us, mono_s=lambda: clock.mono_s)
        self.collectors.append(self.collector)
        self._position = self.collector.position(NODE)

    def write_epochs(self, *epochs: int) -> None:
        for epoch in epochs:
            self.writer.write(EpochAccepted(epoch))
        self.writer.flush()

    def collect(self) -> None:
        while (found := self._tail.read_on(self._position)) is not None:
            self.collector.accept_chunk(found)
            self._position = msgspec.structs.replace(found.next, first=self.collector.position(NODE).first)
        self.collector.number_due(everything=True)

    def collected(self) -> list[tuple[int, int, int]]:
        """Return (number in the collected history, number in the node's journal, accepted epoch) for each collected
        event.
        """
        entries = [decode_line(event.json) for event in self.collector.after(0, 10_000)]
        return [(e.seq, e.node_seq, e.event.accepted_epoch) for e in entries if isinstance(e.event, EpochAccepted)]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.writer.close()
    for each in made.collectors:
        each.close()


def once(*epochs: int) -> list[tuple[int, int, int]]:
    return [(number, number, epoch) for number, epoch in enumerate(epochs, 1)]


@pytest.mark.parametrize("new", [[7], [7, 8, 9], [6, 7, 8, 9, 10]], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize("again", ["nobody", "api", "agent", "both"])
def test_events_after_data_loss_follow_the_earlier_events(host: Host, new: list[int], again: str) -> None:
    host.write_epochs(1, 2, 3)
    host.collect()
    host.empty_disk()
    host.write_epochs(*new)
    if again in ("api", "both"):
        host.begin_api()
    if again in ("agent", "both"):
        host.begin_agent()
    host.collect()
    assert host.collected() == once(1, 2, 3, *new)

    host.write_epochs(20)
    host.begin_api()
    host.collect()
    assert host.collected() == once(1, 2, 3, *new, 20)


def test_repeatedly_emptied_disk_loses_no_event(host: Host) -> None:
    host.write_epochs(1, 2)
    host.collect()
    for epoch in (3, 4, 5):
        host.empty_disk()
        host.write_epochs(epoch)
        host.collect()
        host.begin_api()

    assert host.collected() == once(1, 2, 3, 4, 5)


def test_all_files_of_the_new_journal_are_read_after_api_restart(host: Host) -> None:
    host.write_epochs(*range(1, 31))
    host.collect()
    host.empty_disk(file_bytes_max=300, files_max=50)
    host.write_epochs(*range(31, 51))
    for epoch in range(51, 61):
        host.write_epochs(epoch)
    assert len(list(host.journal.iterdir())) == 5
    host.begin_api()
    host.collect()

    assert host.collected() == once(*range(1, 61))


def test_file_rotation_or_restart_is_not_detected_as_new_journal(host: Host) -> None:
    host.writer.close()
    host.start_node(file_bytes_max=300, files_max=3)
    for epoch in range(1, 31):
        host.write_epochs(epoch)
        host.collect()
        if epoch % 7 == 0:
            host.begin_api()
        if epoch % 5 == 0:
            host.begin_agent()
            host.writer.close()
            host.start_node(file_bytes_max=300, files_max=3)

    assert host.collected() == once(*range(1, 31))
    assert host.collector.restarted_journals == ""


def test_cause_in_a_restarted_journal_is_renumbered(host: Host) -> None:
    """When a node's journal restarts, its entries get new numbers, and so do the causes that refer to them.

    References to causes in another node's journal do not change.
    """
    host.write_epochs(1, 2)
    host.collect()
    host.empty_disk()
    cause = host.writer.write(EpochAccepted(3))
    host.writer.write(ControllerElected(1, 5, 5, caused_by=cause))
    host.writer.write(ControllerElected(1, 6, 6, caused_by="broker-2#1"))
    host.writer.flush()
    host.collect()

    events = [decode_line(event.json).event for event in host.collector.after(3, 9)]
    assert [e.caused_by for e in events if isinstance(e, ControllerElected)] == ["broker-1#3", "broker-2#1"]


def test_state_is_computed_from_the_restarted_journal(host: Host) -> None:
    host.writer.write(ControllerElected(1, 5, 5))
    host.writer.flush()
    host.collect()
    host.empty_disk()
    host.writer.write(ControllerElected(1, 6, 6))
    host.writer.flush()
    host.collect()

    assert host.collector.state.controller_epoch == 6


def test_journal_restart_is_detected_even_if_not_marked(host: Host) -> None:
    host.write_epochs(1, 2, 3)
    host.collect()
    host.empty_disk()
    host.write_epochs(4)
    found = JournalTail(host.journal, NODE).read_on(Position(after=3))
    assert found is not None
    assert not found.anew
    host.collector.accept_chunk(found)
    host.collector.number_due(everything=True)

    assert host.collected() == once(1, 2, 3, 4)


def test_events_before_a_journal_restart_are_numbered_first(host: Host) -> None:
    host.write_epochs(1)
    host.collect()
    host.write_epochs(2)
    waiting = JournalTail(host.journal, NODE).read_on(host.collector.position(NODE))
    assert waiting is not None
    host.collector.accept_chunk(waiting)
    host.empty_disk()
    host.write_epochs(3)
    host.collect()

    assert host.collected() == once(1, 2, 3)


def test_restarted_journal_is_reported_for_ten_minutes(host: Host) -> None:
    host.write_epochs(1)
    host.collect()
    assert host.collector.restarted_journals == ""
    host.empty_disk()
    host.write_epochs(2)
    host.collect()
    assert "the journal of broker-1 started again" in host.collector.restarted_journals
    host.clock.mono_s += RESTART_REPORTED_S + 1

    assert host.collector.restarted_journals == ""


def test_first_journal_is_not_reported_as_restarted(host: Host) -> None:
    line = encode_line("peer-1", 1, 1, 1, EpochAccepted(1))
    host.collector.accept_chunk(JournalChunk("peer-1", line, Position("f", len(line)), anew=True))
    host.collector.number_due(everything=True)

    assert host.collector.restarted_journals == ""
    assert host.collected() == [(1, 1, 1)]
