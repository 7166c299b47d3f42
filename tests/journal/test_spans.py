"""Timeline spans, compared with a brute-force computation.

The brute-force computation determines the state after each event of real histories, each time from all events so far.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.journal.golden_files import GOLDEN, HISTORIES, entries_of
from zabka.journal import events as e
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import Entry
from zabka.journal.fold import apply
from zabka.journal.reader import decode_line
from zabka.journal.spans import Span, Spans
from zabka.simulation.run import run_with_journal

Standing = tuple[str, Any]


def numbered(entries: Iterable[Entry]) -> list[Entry]:
    return [msgspec.structs.replace(entry, seq=seq) for seq, entry in enumerate(entries, 1)]


@cache
def seed(number: int, scenario: str) -> list[Entry]:
    return numbered(map(decode_line, run_with_journal(number, scenario)[1]))


@cache
def of_file(path: Path) -> list[Entry]:
    return numbered(entries_of(path))


LIVE = GOLDEN / "live.jsonl"
REAL = {
    "a live cluster": lambda: of_file(LIVE),
    "a script with crashes": lambda: seed(1, "kafka-1211"),
    "a script that freezes": lambda: seed(1, "zombie-controller"),
    "a seed of all faults": lambda: seed(9, "chaos")[:3_000],
    "a seed of peers": lambda: seed(3, "ensemble")[:3_000],
    **{path.stem: (lambda path=path: of_file(path)) for path in HISTORIES},
}


def standing_rows(state: ClusterState) -> dict[tuple[str, str], Standing]:
    """Return the rows of each timeline lane for a cluster state, as defined in the docstring of
    `zabka.journal.spans`.
    """
    s = json.loads(msgspec.json.encode(state))
    found: dict[tuple[str, str], Standing] = {("controller", ""): ("none", None)}
    process = {int(b["id"]): b["process"] for b in s["brokers"].values()}
    if s["controller_id"] != -1 and s["controller_terms"]:
        term = s["controller_terms"][-1]
        who = {"broker_id": term["broker_id"], "controller_epoch": term["controller_epoch"]}
        lost = term["holder_lost_by"]
        found["controller", ""] = ("active", who) if lost is None else ("dead", {**who, "lost_by": lost})
    for b in s["brokers"].values():
        believed = (b["believed_controller_id"], b["believed_controller_epoch"])
        is_so = (s["controller_id"], s["controller_epoch"])
        verdict = "stale"
        if b["process"] != "running" or b["believed_since_us"] == 0:
            verdict = "silent"
        elif believed[1] > is_so[1]:
            verdict = "ahead"
        elif believed == is_so or believed[0] == is_so[0] == -1:
            verdict = "right"
        belief = {"controller_id": believed[0], "controller_epoch": believed[1]}
        found[f"belief:broker-{b['id']}", ""] = (verdict, belief)
        found[f"process:broker-{b['id']}", ""] = (b["process"], None)
    for p in s["peers"].values():
        down = p["process"] == "down"
        stage = {"phase": p["phase"], "accepted_epoch": p["accepted_epoch"], "epoch": p["current_epoch"]}
        found[f"peer:{p['id']}", ""] = ("DOWN", {**stage, "phase": None}) if down else (p["state"], stage)
        found[f"process:peer-{p['id']}", ""] = (p["process"], None)
    for name, p in s["partitions"].items():
        for replica in p["replicas"]:
            role = "leader" if replica == p["leader"] else "in_sync" if replica in p["isr"] else "out"
            value = {"replica": replica, "role": role, "leader_epoch": p["leader_epoch"]}
            found[f"isr:{name}", str(replica)] = ("gone" if process.get(replica) == "down" else role, value)
        if p["replicas"] and (p["leader"] == -1 or process.get(p["leader"]) in ("down", "paused")):
            found[f"isr:{name}", "-1"] = ("leaderless", {"replica": -1, "leader": p["leader"]})
    for g in s["groups"].values():
        state, value = g["state"].lower(), {"coordinator": g["broker_id"]}
        if process.get(g["broker_id"]) in ("down", "paused"):
            found[f"group:{g['group_id']}", ""] = ("silent", value)
        elif state.endswith("rebalance"):
            found[f"group:{g['group_id']}", ""] = ("rebalancing", value)
        else:
            rest = {**value, "generation": g["generation_id"], "members": len(g["members"])}
            found[f"group:{g['group_id']}", ""] = (state, rest)
    for fault in s["faults"].values():
        found["faults", fault["fault_id"]] = (fault["kind"], fault)
    return found


def by_brute_force(history: Sequence[Entry]) -> set[str]:
    """Return all spans as strings, computed by brute force.

    The values of each row are read after each event, and equal consecutive values are merged.
    """
    state = ClusterState()
    moments: dict[tuple[str, str], list[tuple[int, int, Standing | None]]] = {}
    for entry in history:
        apply(state, entry)
        now = standing_rows(state)
        for row in {**moments, **now}:
            moments.setdefault(row, []).append((state.seq, state.at_us, now.get(row)))
    found = set()
    for (lane, of), standings in moments.items():
        runs = [next(run) for _, run in groupby(standings, key=lambda moment: moment[2])]
        for (seq, from_us, standing), after in zip(runs, [*runs[1:], None], strict=True):
            if standing is not None:
                to_us = None if after is None else after[1]
                found.add(repr((lane, of, from_us, to_us, *standing, seq)))
    return found


def as_text(spans: Iterable[Span]) -> list[str]:
    return [repr((s.lane, s.of, s.from_us, s.to_us, s.state, s.value, s.seq)) for s in spans]


@pytest.mark.parametrize("name", REAL)
def test_incremental_spans_equal_those_computed_by_brute_force(name: str) -> None:
    history = REAL[name]()
    spans = Spans()
    for entry in history:
        spans.apply(entry)

    found = as_text([*spans.take_closed(), *spans.lasting()])
    assert len(found) == len(set(found))
    assert set(found) == by_brute_force(history)


@pytest.mark.parametrize("name", ["a live cluster", "a script with crashes"])
def test_spans_from_a_stored_state_equal_spans_from_all_events(name: str) -> None:
    history = REAL[name]()
    whole, found = Spans(), []
    for entry in history:
        whole.apply(entry)
    pieces = Spans()
    for begin in range(0, len(history), 97):
        for entry in history[begin : begin + 97]:
            pieces.apply(entry)
        found += pieces.take_closed()
        kept = msgspec.msgpack.encode(pieces.state)
        pieces = Spans(msgspec.msgpack.decode(kept, type=ClusterState), pieces.begun())

    assert sorted(as_text([*found, *pieces.lasting()])) == sorted(as_text([*whole.take_closed(), *whole.lasting()]))


def test_killed_controller_is_shown_dead_until_its_session_ends() -> None:
    """A killed controller is shown as dead until its session expires.

    Its term lasts until the transaction that expires the session and deletes /controller.
    """
    history = of_file(LIVE)
    spans = Spans()
    for entry in history:
        spans.apply(entry)
    dead = [span for span in spans.take_closed() if span.state == "dead" and span.value["lost_by"] == "kill"]
    kills = [
        entry.wall_us for entry in history
        if isinstance(entry.event, e.ProcessChanged) and entry.event.action == "kill"
        and entry.event.target.startswith("broker")
    ]  # fmt: skip
    ends = [
        entry.wall_us
        for entry in history
        if isinstance(entry.event, e.SessionClosed) and "/controller" in entry.event.ephemerals
    ]

    assert dead
    for span in dead:
        assert span.from_us in kills
        assert span.to_us == min(end for end in ends if end > span.from_us)
        assert span.to_us - span.from_us > 3_000_000
