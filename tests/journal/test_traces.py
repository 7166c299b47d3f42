"""Histories exported as traces for other viewers: Perfetto and ShiViz."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import msgspec
import pytest

from zabka.journal.event import snake
from zabka.journal.events import Entry
from zabka.journal.messages import Message, read_message
from zabka.journal.perfetto import perfetto_trace
from zabka.journal.reader import decode_line
from zabka.journal.sentence_file import read_sentences
from zabka.journal.shiviz import LEFT_OUT, PARSER, shiviz_log
from zabka.journal.spans import Spans
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.run import run_with_journal

PROGRESS = ("replica_progressed", "zxid_checkpoint", "consumer_progressed")


@cache
def history() -> tuple[list[Entry], list[Message]]:
    tap = MessageTap()
    _, lines = run_with_journal(1, "controller-killed", tap=tap)
    entries = [msgspec.structs.replace(decode_line(line), seq=seq) for seq, line in enumerate(lines, 1)]
    start_us = entries[0].wall_us - entries[0].mono_us
    messages = [read_message(line) for line in tap.lines()]
    for message in messages:
        message.sent_us += start_us
        message.arrived_us = None if message.arrived_us is None else message.arrived_us + start_us
    return entries, messages


def is_progress(entry: Entry) -> bool:
    return snake(type(entry.event).__name__) in PROGRESS


@cache
def trace() -> list[dict[str, Any]]:
    entries, messages = history()
    found: list[dict[str, Any]] = json.loads(perfetto_trace(entries, messages, read_sentences(), is_progress))[
        "traceEvents"
    ]
    return found


def test_trace_has_a_slice_for_each_span() -> None:
    spans = Spans()
    for entry in history()[0]:
        spans.apply(entry)
    expected = [(span.state, span.seq) for span in [*spans.take_closed(), *spans.lasting()]]
    slices = [(each["name"], each["args"]["seq"]) for each in trace() if each["ph"] == "X" and "seq" in each["args"]]
    assert sorted(slices) == sorted(expected)


def test_trace_has_an_arrow_for_each_message_that_arrived() -> None:
    begins = {each["id"]: each for each in trace() if each["ph"] == "s"}
    ends = {each["id"]: each for each in trace() if each["ph"] == "f"}
    arrived = {each.id: each for each in history()[1] if each.arrived_us is not None}
    assert begins.keys() == ends.keys() == arrived.keys()
    for number, message in arrived.items():
        assert message.arrived_us is not None
        assert ends[number]["ts"] - begins[number]["ts"] == message.arrived_us - message.sent_us


def test_trace_contains_a_name_for_each_process_and_thread() -> None:
    named = {(each["pid"], each.get("tid")) for each in trace() if each["ph"] == "M"}
    used = {(each["pid"], each["tid"]) for each in trace() if each["ph"] != "M"}
    assert used <= named
    assert {pid for pid, _ in used} == {pid for pid, tid in named if tid is None}


@pytest.fixture(scope="module")
def parsed() -> list[tuple[str, dict[str, int], str]]:
    """Return the exported log, parsed with the regular expression in its first line."""
    entries, messages = history()
    log = shiviz_log(entries, messages, read_sentences(), is_progress)
    parser, delimiter, rest = log.split("\n", 2)
    assert (parser, delimiter) == (PARSER, "")
    found = re.findall(parser.replace("(?<", "(?P<"), rest)
    assert len(found) * 2 == rest.count("\n")
    return [(host, json.loads(clock), text) for host, clock, text in found]


def test_vector_clock_of_a_host_counts_the_hosts_own_events(parsed: list[tuple[str, dict[str, int], str]]) -> None:
    counts: dict[str, int] = {}
    for host, clock, _ in parsed:
        counts[host] = counts.get(host, 0) + 1
        assert clock[host] == counts[host]


def test_vector_clock_of_an_arrival_includes_the_senders_clock(parsed: list[tuple[str, dict[str, int], str]]) -> None:
    last: dict[str, dict[str, int]] = {}
    for host, clock, _ in parsed:
        before = last.get(host, {})
        assert all(clock.get(other, 0) >= ticks for other, ticks in before.items())
        news = {other for other in clock if other != host and clock[other] > before.get(other, 0)}
        if news:
            # The event must have received all its new clock values in one message. Therefore the sender must have had
            # all of them at one of its own events.
            assert any(all(seen.get(other, 0) >= clock[other] for other in news) for seen in last.values())
        last[host] = clock
    written = [each for each in history()[1] if each.group not in LEFT_OUT]
    assert sum(text.startswith("send ") for _, _, text in parsed) == len(written)
