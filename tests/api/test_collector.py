"""The collector's numbered history: its order, its unique event numbers, and how many events it stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.journal.full_disk import no_file_grows_beyond
from zabka.agent.protocol import JournalAnswer, JournalChunk, Position
from zabka.api.collector import collector as collector_module
from zabka.api.collector import event_models as events
from zabka.api.collector import numbered
from zabka.api.collector.agents import Agent
from zabka.api.collector.collector import Collector, TooOld
from zabka.api.collector.numbered import NumberedJournal
from zabka.api.settings import AgentAddress
from zabka.compose.journal_files import read_on
from zabka.journal.events import (
    ControllerElected,
    Entry,
    EpochAccepted,
    Event,
    ProcessChanged,
    SessionClosed,
    SessionExpired,
)
from zabka.journal.reader import split_lines
from zabka.journal.writer import JournalWriter, encode_line


class Clock:
    """Clocks of the collector, set by the test."""

    def __init__(self) -> None:
        self.wall_us = 10_000_000
        self.mono_s = 100.0

    def pass_s(self, seconds: float) -> None:
        self.wall_us += int(seconds * 1_000_000)
        self.mono_s += seconds


MakeCollector = Callable[..., Collector]


@pytest.fixture(autouse=True)
def log_entries() -> Iterator[list[MutableMapping[str, Any]]]:
    """Return the captured log entries. They bypass pytest's log file, because these tests limit file sizes."""
    with capture_logs() as entries:
        yield entries


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[MakeCollector]:
    """Return a function that creates collectors in one directory. The fixture closes them after the test."""
    made: list[Collector] = []

    def make(clock: Clock, **bounds: int) -> Collector:
        made.append(Collector(tmp_path, **bounds, wall_us=lambda: clock.wall_us, mono_s=lambda: clock.mono_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


def chunk(node: str, *lines: tuple[int, int, Event]) -> JournalChunk:
    text = b"".join(encode_line(node, node_seq, wall_us, 0, event) for node_seq, wall_us, event in lines)
    return JournalChunk(node, text, Position("f", len(text)))


def served(found: Collector, after: int = 0) -> list[tuple[int, str, int]]:
    return [(r["seq"], r["node"], r["node_seq"]) for r in (msgspec.json.decode(n.json) for n in found.after(after, 99))]


A = EpochAccepted(1)


def test_events_of_several_nodes_are_ordered_by_wall_clock(collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock)
    found.accept_chunk(chunk("peer-2", (1, 1_000, A), (2, 3_000, A)))
    found.accept_chunk(chunk("peer-1", (1, 2_000, A), (2, 4_000, A)))
    found.number_due()

    assert served(found) == [(1, "peer-2", 1), (2, "peer-1", 1), (3, "peer-2", 2), (4, "peer-1", 2)]


@pytest.mark.parametrize(
    ("agents", "since_s", "passed_s"),
    [
        (["host-1"], 1.0, 0.06),  # The agent looks every 25 ms.
        (["host-1"], 3.0, 0.13),  # The agent found no events for long and looks every 100 ms.
        (["host-1", "host-2"], 1.0, 0.13),  # The lines of several agents arrive over a network.
    ],
)
def test_event_waits_for_the_maximum_delay_of_other_nodes(
    collector: MakeCollector, agents: list[str], since_s: float, passed_s: float
) -> None:
    clock = Clock()
    found = collector(clock)
    found._brought_s = dict.fromkeys(agents, clock.mono_s - since_s)
    found.accept_chunk(chunk("peer-1", (1, clock.wall_us, A)))
    clock.pass_s(passed_s - 0.02)
    assert found.number_due() == 0
    clock.pass_s(0.02)
    assert found.number_due() == 1


def test_event_waits_briefly_for_concurrent_events(collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock)
    found.accept_chunk(chunk("peer-1", (1, clock.wall_us, A)))
    assert found.number_due() == 0
    found.accept_chunk(chunk("peer-2", (1, clock.wall_us - 5, A)))
    clock.pass_s(0.2)
    found.number_due()

    assert [row[1] for row in served(found)] == ["peer-2", "peer-1"]


@pytest.mark.parametrize(("agents", "numbered_then"), [(["host-1"], 1), (["host-1", "host-2"], 0)])
def test_collector_numbers_events_sooner_if_all_agents_send(
    collector: MakeCollector, agents: list[str], numbered_then: int
) -> None:
    clock = Clock()
    found = collector(clock)
    line = chunk("peer-1", (1, clock.wall_us - 80_000, A))

    async def scenario() -> None:
        asked_again = asyncio.Event()

        class Telling(Agent):
            """Agent that sends a single journal entry if it is `host-1`, and none otherwise."""

            async def read_journal(self, positions: dict[str, Position], wait_ms: int) -> JournalAnswer:
                if self.name == "host-1" and positions["peer-1"].after == 0:
                    return JournalAnswer([msgspec.structs.replace(line, next=Position(after=1))])
                if self.name == "host-1":
                    asked_again.set()
                return await asyncio.Future()

        made = [Telling(AgentAddress(name=name, url="http://127.0.0.1:1", nodes=["peer-1"]), "t") for name in agents]
        running = asyncio.create_task(found.run(list(made)))
        await asked_again.wait()
        found.number_due()
        assert found.last_seq == numbered_then
        clock.pass_s(0.05)
        found.number_due()
        assert found.last_seq == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for agent in made:
            agent.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_event_with_a_future_timestamp_waits_only_briefly(collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock)
    found.accept_chunk(chunk("peer-1", (1, clock.wall_us + 3_600_000_000, A)))
    assert found.number_due() == 0
    clock.pass_s(0.6)

    assert found.number_due() == 1


def test_events_of_a_node_stay_in_order_if_its_clock_steps_back(collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock)
    found.accept_chunk(chunk("peer-1", (1, clock.wall_us + 10_000_000, A), (2, 5, A)))
    assert found.number_due() == 0
    clock.pass_s(0.6)
    found.number_due()

    assert [row[2] for row in served(found)] == [1, 2]


def test_restarted_collector_continues_numbering_without_repeats(collector: MakeCollector) -> None:
    clock = Clock()
    first = collector(clock)
    first.accept_chunk(chunk("peer-1", (1, 10, A), (2, 20, A)))
    first.number_due()
    # Start a second collector without closing the first, as after a kill.
    second = collector(clock)
    second.accept_chunk(chunk("peer-1", (1, 10, A), (2, 20, A), (3, 30, A)))
    second.number_due()

    assert served(second) == [(1, "peer-1", 1), (2, "peer-1", 2), (3, "peer-1", 3)]


def test_history_line_torn_by_a_collector_crash_is_replaced(tmp_path: Path, collector: MakeCollector) -> None:
    clock = Clock()
    first = collector(clock)
    first.accept_chunk(chunk("peer-1", (1, 10, A), (2, 20, A)))
    first.number_due()
    path = next(tmp_path.glob("*.collected"))
    path.write_bytes(path.read_bytes()[:-7])
    second = collector(clock)
    second.accept_chunk(chunk("peer-1", (1, 10, A), (2, 20, A)))
    second.number_due()

    assert served(second) == [(1, "peer-1", 1), (2, "peer-1", 2)]


def test_entries_of_a_quiet_node_survive_history_file_deletion(tmp_path: Path, collector: MakeCollector) -> None:
    clock = Clock()
    first = collector(clock)
    first.accept_chunk(chunk("peer-1", (1, 10, A)))
    first.number_due()
    second = collector(clock)
    second.accept_chunk(chunk("peer-2", (1, 20, A)))
    second.number_due()
    min(tmp_path.glob("*.collected")).unlink()
    third = collector(clock)
    third.accept_chunk(chunk("peer-1", (1, 10, A)))
    third.number_due()

    assert served(third) == [(2, "peer-2", 1)]


def test_restarted_collector_computes_its_state_from_the_history(collector: MakeCollector) -> None:
    clock = Clock()
    first = collector(clock)
    first.accept_chunk(chunk("broker-2", (1, 10, ControllerElected(2, 5, 5))))
    first.accept_chunk(chunk("peer-1", (1, 20, SessionExpired(7, 6000))))
    first.number_due()

    for found in (first, collector(clock)):
        assert (found.state.controller_id, found.state.controller_epoch) == (2, 5)
        assert found.counts.sessions_expired == 1


def test_invalid_journal_lines_are_set_aside_and_counted(collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock)
    good = chunk("peer-1", (1, 10, A)).lines
    found.accept_chunk(JournalChunk("peer-1", b'garbage\n{"type":"unheard_of"}\n' + good, Position("f", 1)))
    found.number_due()

    assert found.bad_lines == 2
    assert served(found) == [(1, "peer-1", 1)]


LINE_ENDS_OF_TEXT = "/a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\rj\nk"
"""Every character that ends a line, according to chapter 5.8 of the Unicode Standard or `str.splitlines`."""


def test_unicode_line_end_in_a_path_does_not_split_the_event(tmp_path: Path, collector: MakeCollector) -> None:
    clock = Clock()
    writer = JournalWriter(tmp_path / "journal", "peer-1", clocks=lambda: (10, 0))
    writer.write(SessionClosed(9, 5, [LINE_ENDS_OF_TEXT]))
    writer.close()
    found = read_on(tmp_path / "journal", "peer-1", Position())
    assert found is not None
    sent = msgspec.json.decode(msgspec.json.encode(found), type=JournalChunk)
    first = collector(clock)
    first.accept_chunk(sent)
    first.number_due()

    for one in (first, collector(clock)):
        assert one.bad_lines == 0
        (event,) = one.after(0, 9)
        assert msgspec.json.decode(event.json)["ephemerals"] == [LINE_ENDS_OF_TEXT]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"type":"epoch_accepted","a":' + b"[" * 200_000, id="deep"),
        pytest.param(encode_line("peer-1", 1, 1, 0, A).replace(b'"node_seq":1', b'"node_seq":"x"'), id="no number"),
        pytest.param(encode_line("peer-1", 1, 1, 0, A).replace(b'"wall_us":1', b'"wall_us":null'), id="no time"),
        pytest.param(encode_line("peer-1", 1, 1, 0, A).replace(b'"node":"peer-1"', b'"node":[]'), id="no name"),
        pytest.param(encode_line("peer-1", 1, 1, 0, A).replace(b'"epoch_accepted"', b"[1]"), id="no type"),
    ],
)
def test_malformed_journal_line_does_not_stop_the_collector(collector: MakeCollector, line: bytes) -> None:
    found = collector(Clock())
    found.accept_chunk(JournalChunk("peer-1", line.rstrip() + b"\n", Position("f", 1)))
    found.accept_chunk(chunk("peer-1", (1, 10, A)))
    found.number_due()

    assert found.bad_lines == 1
    assert served(found) == [(1, "peer-1", 1)]


def test_full_disk_pauses_the_history_without_losing_events(
    tmp_path: Path, collector: MakeCollector, log_entries: list[MutableMapping[str, Any]]
) -> None:
    clock = Clock()
    found = collector(clock)
    found.accept_chunk(chunk("peer-1", (1, 10, A)))
    found.number_due()
    size = next(tmp_path.glob("*.collected")).stat().st_size
    # Two entries follow; let the file system fail in the middle of the second one.
    with no_file_grows_beyond(size + 150):
        found.accept_chunk(chunk("peer-1", (2, 20, A), (3, 30, A)))
        for _ in range(3):
            assert found.number_due() == 0
        assert found.trouble == "the history does not advance, because it cannot be stored: File too large"
        assert served(found) == [(1, "peer-1", 1)]
        # A restarted collector returns the events that it returned before, and accepts the remaining events again.
        again = collector(clock)
        assert served(again) == [(1, "peer-1", 1)]
        found.accept_chunk(chunk("peer-2", (1, 25, A)))
    found.number_due()

    assert found.trouble == ""
    assert [entry["event"] for entry in log_entries] == [
        "the history does not advance: it cannot be stored",
        "the history advances again",
    ]
    expected = [(1, "peer-1", 1), (2, "peer-1", 2), (3, "peer-2", 1), (4, "peer-1", 3)]
    assert served(found) == expected
    assert served(collector(clock)) == expected


def test_full_disk_at_a_new_history_file_pauses_numbering(tmp_path: Path, collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock)
    found.accept_chunk(chunk("peer-1", (1, 10, A)))
    with no_file_grows_beyond(10):
        assert found.number_due() == 0 and found.trouble
    assert found.number_due() == 1 and not found.trouble
    assert served(collector(clock)) == [(1, "peer-1", 1)]


def test_fetching_pauses_at_the_limit_of_pending_events(
    collector: MakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_module, "WAITING_MAX", 2)
    monkeypatch.setattr(collector_module, "RETRY_S", 0.001)
    clock = Clock()
    found = collector(clock)
    asked: list[int] = []

    class Telling(Agent):
        async def read_journal(self, positions: dict[str, Position], wait_ms: int) -> JournalAnswer:
            asked.append(positions["peer-1"].after)
            seq = positions["peer-1"].after + 1
            line = chunk("peer-1", (seq, seq, A))
            return JournalAnswer([msgspec.structs.replace(line, next=Position(after=seq))])

    async def scenario() -> None:
        agent = Telling(AgentAddress(name="host-1", url="http://127.0.0.1:1", nodes=["peer-1"]), "t")
        with no_file_grows_beyond(10):
            running = asyncio.create_task(found.run([agent]))
            await asyncio.sleep(0.3)
            assert asked == [0, 1, 2]
        while len(asked) < 10:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        agent.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))
    assert [row[2] for row in served(found)] == list(range(1, len(asked) + 1))


def test_request_for_deleted_events_returns_oldest_seq(collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock, served_max=10)
    found.accept_chunk(chunk("peer-1", *[(i, i, A) for i in range(1, 31)]))
    found.number_due()

    assert [n.seq for n in found.after(0, 3)] == [21, 22, 23]
    assert [n.seq for n in found.after(20, 2)] == [21, 22]
    assert [n.seq for n in found.after(28, 99)] == [29, 30]
    assert found.after(30, 99) == []
    with pytest.raises(TooOld) as reason:
        found.after(19, 1)
    assert events.too_old(reason.value).extra == {"oldest": 21}


def test_events_evicted_from_memory_are_served_from_files(collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock, recent_max=10)
    for begin in range(1, 1201, 100):
        found.accept_chunk(chunk("peer-1", *[(i, i, A) for i in range(begin, begin + 100)]))
        found.number_due()

    numbers = list(range(1, 1201))
    assert [n.seq for n in found.after(0, 2000)] == numbers
    for after in (1, 254, 255, 256, 257, 511, 512, 1100, 1189, 1190, 1191, 1199):
        assert [n.seq for n in found.after(after, 50)] == numbers[after : after + 50]
    assert [msgspec.json.decode(n.json)["node_seq"] for n in found.after(700, 3)] == [701, 702, 703]


def test_events_of_earlier_runs_are_served_from_their_files(collector: MakeCollector) -> None:
    clock = Clock()
    for run in range(3):
        found = collector(clock, recent_max=5)
        found.accept_chunk(chunk("peer-1", *[(i, i, A) for i in range(run * 300 + 1, run * 300 + 301)]))
        found.number_due()
        found.close()

    again = collector(clock, recent_max=5)
    assert [n.seq for n in again.after(0, 2000)] == list(range(1, 901))
    assert [n.seq for n in again.after(298, 4)] == [299, 300, 301, 302]


def test_unreadable_line_of_an_older_history_file_is_skipped(collector: MakeCollector, tmp_path: Path) -> None:
    clock = Clock()
    before = collector(clock)
    before.accept_chunk(chunk("peer-1", *[(i, i, A) for i in range(1, 21)]))
    before.number_due()
    before.close()
    path = next(tmp_path.glob("*.collected"))
    lines = path.read_bytes().split(b"\n")
    lines[12] = b"x" * len(lines[12])
    path.write_bytes(b"\n".join(lines))

    kept = [n for n in range(1, 21) if n != 12]
    for recent_max in (3, 10, 100):
        again = collector(clock, recent_max=recent_max)
        for after in range(21):
            assert [n.seq for n in again.after(after, 99)] == [n for n in kept if n > after], (recent_max, after)


@pytest.mark.parametrize("spoiled", [b'{"seq":%d,"type":"of_a_newer_version"}', b'{"seq":%d,"x":' + b"[" * 20_000])
def test_invalid_event_line_does_not_use_a_sequence_number(
    collector: MakeCollector, tmp_path: Path, spoiled: bytes
) -> None:
    clock = Clock()
    before = collector(clock)
    before.accept_chunk(chunk("peer-1", *[(i, i, A) for i in range(1, 6)]))
    before.number_due()
    before.close()
    path = next(tmp_path.glob("*.collected"))
    lines = path.read_bytes().split(b"\n")
    for number in (2, 3, 5):
        lines[number] = spoiled % number
    path.write_bytes(b"\n".join(lines))

    again = collector(clock, recent_max=2)
    again.accept_chunk(chunk("peer-2", *[(i, 10 + i, A) for i in range(1, 6)]))
    again.number_due()
    of_2 = [(4 + i, "peer-2", i) for i in range(1, 6)]
    assert served(again) == [(1, "peer-1", 1), (4, "peer-1", 4), *of_2], "the number 5 was not used"
    assert served(again, 4) == of_2


def test_older_history_file_is_indexed_up_to_the_requested_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = NumberedJournal(tmp_path)
    written.append([Entry("peer-1", number, number, 0, A) for number in range(1, 5_001)])
    written.close()
    written.append([Entry("peer-1", 5_001, 5_001, 0, A)])
    written.close()
    # A new NumberedJournal reads only the newest file when it starts, and the older file on demand.
    again = NumberedJournal(tmp_path)
    assert [entry.seq for entry, _ in again.recover(lambda _: True)] == [5_001]
    looked: list[bytes] = []
    true_entry = numbered._entry
    monkeypatch.setattr(numbered, "_entry", lambda line: looked.append(line) or true_entry(line))
    assert again.oldest_seq == 1
    assert [n.seq for n in again.read(1_000, 20)] == list(range(1_000, 1_020))
    assert len(looked) <= 1_025
    assert [n.seq for n in again.read(10, 20)] == list(range(10, 30))
    assert len(looked) <= 1_025
    assert [n.seq for n in again.read(4_990, 99)] == list(range(4_990, 5_002))
    assert len(looked) <= 5_005, "no line is parsed twice"


def test_sequence_gap_in_a_history_file_hides_no_later_events(tmp_path: Path) -> None:
    written = NumberedJournal(tmp_path)
    written.append([Entry("peer-1", number, number, 0, A) for number in range(1, 101)])
    written.close()
    written.append([Entry("peer-1", 101, 101, 0, A)])
    written.close()
    path = next(tmp_path.glob("000000000001.collected"))
    lines = path.read_bytes().split(b"\n")
    for number in range(20, 60):
        lines[number] = b'{"seq":%d,"type":"of_a_newer_version"}' % number
    path.write_bytes(b"\n".join(lines))
    kept = [*range(1, 20), *range(60, 102)]
    for limit in (1, 5, 50, 200):
        for seq in (1, 18, 30, 61, 100):
            again = NumberedJournal(tmp_path)
            assert len(list(again.recover(lambda _: True))) == 1
            assert [n.seq for n in again.read(seq, limit)] == [n for n in kept if n >= seq][:limit], (seq, limit)


def test_history_over_its_size_limit_loses_its_oldest_events(collector: MakeCollector, tmp_path: Path) -> None:
    files = NumberedJournal(tmp_path / "small", file_bytes_max=2000, bytes_max=4000)
    for number in range(1, 101):
        files.append([Entry("peer-1", number, number, 0, A)])

    oldest = files.oldest_seq
    assert 1 < oldest < 100
    assert [n.seq for n in files.read(1, 1000)] == list(range(oldest, 101))
    files.close()


def test_long_response_is_read_in_batches_and_is_complete(collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock, recent_max=100)
    found.accept_chunk(chunk("peer-1", *[(i, i, A) for i in range(1, 5001)]))
    found.number_due()

    answer = asyncio.run(events.some(found, 10, 4500))
    assert [n.seq for n in answer] == list(range(11, 4511))
    assert asyncio.run(events.some(found, 5000, 10)) == []


def test_streamed_event_has_its_sequence_number_as_id(collector: MakeCollector) -> None:
    clock = Clock()
    found = collector(clock)
    found.accept_chunk(chunk("peer-1", (1, 10, A)))
    found.number_due()

    text = events.encode(found.after(0, 9)).decode()
    assert text.startswith('id: 1\ndata: {"seq":1,"schema":1,"node":"peer-1","node_seq":1,"wall_us":10,')
    assert text.endswith("\n\n")


# ---- how the agent reads journals --------------------------------------------------------------------------------


def _read_all(directory: Path, node: str, position: Position) -> tuple[bytes, Position]:
    text = b""
    while (found := read_on(directory, node, position)) is not None:
        text, position = text + found.lines, found.next
    return text, position


def test_journal_is_read_across_rotations(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "peer-1", file_bytes_max=300, files_max=50)
    position = Position()
    text = b""
    for epoch in range(20):
        writer.write(EpochAccepted(epoch))
        writer.flush()
        if epoch % 3 == 0:
            more, position = _read_all(tmp_path, "peer-1", position)
            text += more
    text += _read_all(tmp_path, "peer-1", position)[0]
    writer.close()

    assert [line.count(b'"accepted_epoch":') for line in split_lines(text)] == [1] * 20


def test_incomplete_journal_line_is_not_returned(tmp_path: Path) -> None:
    path = tmp_path / "peer-1.000000000001.jsonl"
    path.write_bytes(b'{"a":1}\n{"b"')
    text, position = _read_all(tmp_path, "peer-1", Position())

    assert text == b'{"a":1}\n'
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    assert _read_all(tmp_path, "peer-1", position)[0] == b'{"b":2}\n'


def test_journal_reading_starts_at_the_file_with_the_next_event(tmp_path: Path) -> None:
    for first in (1, 11, 21):
        (tmp_path / f"peer-1.{first:012d}.jsonl").write_bytes(b'{"first":%d}\n' % first)

    assert _read_all(tmp_path, "peer-1", Position(after=10))[0] == b'{"first":11}\n{"first":21}\n'
    assert _read_all(tmp_path, "peer-1", Position(after=9))[0].startswith(b'{"first":1}\n')


def test_journal_file_deleted_by_rotation_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "peer-1.000000000011.jsonl").write_bytes(b'{"first":11}\n')

    found = read_on(tmp_path, "peer-1", Position("peer-1.000000000001.jsonl", 4000))
    assert found is not None
    assert found.lines == b'{"first":11}\n'


@pytest.mark.parametrize(
    "bad",
    [
        encode_line("host-1", 2, 20, 0, ProcessChanged("broker-²", "down", None, "kill")),
        encode_line("host-1", 2, 20, 0, ProcessChanged(f"broker-{'9' * 5_000}", "down", None, "kill")),
        encode_line("host-1", 2, 20, 0, ProcessChanged("broker-1", "down", 2**64, "kill")),
        encode_line("host-1", 2, 2**70, 0, A),
    ],
    ids=["a number that is none", "a number without end", "a pid beyond 64 bits", "a moment beyond 64 bits"],
)
def test_invalid_line_is_counted_once_and_the_history_continues(collector: MakeCollector, bad: bytes) -> None:
    """The collector counts an invalid journal line once and skips it.

    Before the fix, it renumbered that line and all later ones fifty times a second, and the API crashed at its next
    start.
    """
    clock = Clock()
    found = collector(clock)
    others = [encode_line("host-1", n, 20 + n, 0, A) for n in range(3, 300)]
    found.accept_chunk(JournalChunk("host-1", bad + b"".join(others), Position("f", 1)))
    for _ in range(3):
        found.number_due(everything=True)

    node_seqs = [msgspec.json.decode(each.json)["node_seq"] for each in found.after(0, 1_000)]
    assert [node_seq for node_seq in node_seqs if node_seq > 2] == [*range(3, 300)]
    assert len(node_seqs) == len(set(node_seqs))
    assert collector(clock).last_seq == found.last_seq


def test_error_after_numbering_does_not_number_events_twice(
    collector: MakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error after the numbered events were written to the files does not cause a second numbering."""
    found = collector(Clock())
    found.accept_chunk(
        JournalChunk("host-1", b"".join(encode_line("host-1", n, 20 + n, 0, A) for n in range(1, 4)), None)
    )
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(found.counts, "count_event", lambda _entry: 1 // 0)
        found.number_due(everything=True)

    assert found.number_due(everything=True) == 0
    assert found.last_seq == 3
