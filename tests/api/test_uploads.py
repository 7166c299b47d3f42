"""Uploaded journals are merged into one history, or rejected with a list of the invalid lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.api.api_server import Server
from tests.api.histories import played
from zabka.api.runs import intake
from zabka.api.runs.intake import SIMULATION_BEGINS_US, NoHistory, read_history
from zabka.journal.events import Entry, EpochAccepted, FaultInjected, LeaderElected
from zabka.journal.fold import fold
from zabka.journal.writer import encode_line

V1 = "/api/v1"


def line(node: str, node_seq: int, wall_us: int, mono_us: int = 0) -> bytes:
    return encode_line(node, node_seq, wall_us, mono_us, EpochAccepted(node_seq))


def lines(history: Iterable[Entry]) -> bytes:
    return b"".join(encode_line(e.node, e.node_seq, e.wall_us, e.mono_us, e.event) for e in history)


def order(data: bytes) -> list[tuple[str, int]]:
    return [(entry.node, entry.node_seq) for entry in read_history(data).entries]


# ---- merging uploaded entries into one history -------------------------------------------------------------------


def test_concatenated_journals_are_merged_by_wall_clock() -> None:
    data = line("peer-1", 1, 10) + line("peer-1", 2, 30) + line("peer-2", 1, 20) + line("peer-2", 2, 30)

    assert order(data) == [("peer-1", 1), ("peer-2", 1), ("peer-1", 2), ("peer-2", 2)]


def test_events_of_a_node_keep_their_order_if_clock_steps_back() -> None:
    data = line("peer-1", 1, 50) + line("peer-1", 2, 10) + line("peer-2", 1, 20)

    assert order(data) == [("peer-2", 1), ("peer-1", 1), ("peer-1", 2)]


def test_collected_history_is_ordered_by_its_event_numbers() -> None:
    entries = [Entry("peer-2", 1, 90, 0, EpochAccepted(1), 41), Entry("peer-1", 1, 10, 0, EpochAccepted(1), 44)]
    data = b"".join(msgspec.json.encode(entry.to_dict()) + b"\n" for entry in entries)

    assert order(data) == [("peer-2", 1), ("peer-1", 1)]


def test_uploaded_simulation_keeps_event_order_and_virtual_time() -> None:
    """Upload restores the simulation's event order and true time, although the nodes' journals have wrong clocks."""
    taken = read_history(lines(played()))

    assert [(e.node, e.node_seq) for e in taken.entries] == [(e.node, e.node_seq) for e in played()]
    assert all(entry.wall_us == SIMULATION_BEGINS_US + entry.mono_us for entry in taken.entries)
    assert any(entry.wall_us != SIMULATION_BEGINS_US + entry.mono_us for entry in played())
    begin_us = SIMULATION_BEGINS_US + min(entry.mono_us for entry in played())
    assert (taken.first_us, taken.last_us) == (begin_us, taken.entries[-1].wall_us)


def test_complete_last_line_without_newline_is_read() -> None:
    assert order((line("peer-1", 1, 10) + line("peer-1", 2, 20))[:-1]) == [("peer-1", 1), ("peer-1", 2)]
    with pytest.raises(NoHistory) as refused:
        read_history((line("peer-1", 1, 10) + line("peer-1", 2, 20))[:-9])
    assert [bad.line for bad in refused.value.bad] == [2]


GOOD = line("peer-1", 1, 10)
STRANGE = {
    "no JSON": (b"hello\n", "malformed"),
    "no object": (b"[1]\n", "Expected `object`"),
    "no event": (b'{"schema":1,"node":"a","node_seq":9,"wall_us":1,"mono_us":1,"type":"x"}\n', "'x'"),
    "a newer schema": (
        line("peer-1", 2, 20).replace(b'"schema":1', b'"schema":2'),
        "schema 2 is newer than 1",
    ),
    "a checkpoint": (b'{"checkpoint":7,"node_seqs":{}}\n', "'type'"),
    "the same event again": (GOOD, "peer-1 has an event 1 in line 1 already"),
    "a moment out of range": (line("peer-1", 2, -5), "wall_us is out of range"),
    "a number without end": (line("peer-1", 2, 1 << 70), "range"),
    "deep nesting": (b'{"a":' * 5000 + b"\n", ""),
    "no text": (b"\xff\xfe\n", ""),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_upload_error_contains_the_number_of_the_invalid_line(kind: str) -> None:
    wrong, why = STRANGE[kind]
    with pytest.raises(NoHistory) as refused:
        read_history(GOOD + wrong + line("peer-2", 1, 30))

    [bad] = refused.value.bad
    assert bad.line == 2
    assert why in bad.what
    assert "line 2" in str(refused.value)


def test_first_20_invalid_lines_are_listed_and_all_are_counted() -> None:
    with pytest.raises(NoHistory, match="500 lines are not events") as refused:
        read_history(GOOD + b"x\n" * 500)
    assert [bad.line for bad in refused.value.bad] == list(range(2, 22))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"   "])
def test_empty_upload_is_rejected(data: bytes) -> None:
    with pytest.raises(NoHistory, match="it contains no event"):
        read_history(data)


def test_upload_that_would_take_hours_to_process_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "LOOKS_MAX", 10_000)
    data = b"".join(
        encode_line("host-1", number, number, number, FaultInjected(f"f{number}", "cut", "peer-1", "peer-2", True))
        for number in range(1, 1_000)
    )

    with pytest.raises(NoHistory, match="up to event 141 of 999 there is more to fold"):
        read_history(data)
    monkeypatch.undo()
    assert len(read_history(data).entries) == 999


def test_event_with_a_number_that_json_cannot_hold_is_rejected() -> None:
    elected = encode_line("broker-1", 1, 20, 0, LeaderElected("t", 0, 7, 0, [1], [1], 0, 0, unclean=False, cause=""))
    with pytest.raises(NoHistory):
        read_history(GOOD + elected.replace(b'"leader":7', b'"leader":%d' % (1 << 70)))
    assert len(read_history(GOOD + elected).entries) == 2


# ---- over HTTP ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("api"), upload_bytes_max=1 << 20) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=10) as client:
        yield client


def test_uploaded_journal_becomes_a_run(http: httpx.Client) -> None:
    answer = http.post(f"{V1}/runs", content=lines(played()), params={"name": "r.jsonl"})
    assert answer.status_code == 201
    run = answer.json()
    assert (run["kind"], run["title"], run["of"], run["events"]) == ("upload", "r.jsonl", "r.jsonl", len(played()))
    assert http.get(answer.headers["location"]).json() == run

    state: Any = http.get(f"{V1}/runs/{run['id']}/state", params={"at": 700}).json()["state"]
    entries = [msgspec.structs.replace(e, wall_us=SIMULATION_BEGINS_US + e.mono_us) for e in played()[:700]]
    assert state == msgspec.json.decode(msgspec.json.encode(fold(entries)))
    again = http.post(f"{V1}/runs", content=lines(played())).json()
    assert (again["sha256"], again["id"] == run["id"]) == (run["sha256"], False)


def test_response_to_a_rejected_upload_lists_the_invalid_lines(http: httpx.Client) -> None:
    before = len(http.get(f"{V1}/runs").json())
    answer = http.post(f"{V1}/runs", content=GOOD + b"what?\n")

    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert [error["line"] for error in answer.json()["errors"]] == [2]
    assert len(http.get(f"{V1}/runs").json()) == before


def test_oversized_upload_or_oversized_request_body_is_rejected(http: httpx.Client) -> None:
    assert http.post(f"{V1}/runs", content=b" " * ((1 << 20) + 1)).status_code == 413
    assert http.post(f"{V1}/topics", content=b" " * ((1 << 20) + 1)).status_code == 413


def test_upload_needs_the_configured_token(tmp_path: Path) -> None:
    with Server(tmp_path, token="sesame") as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        assert http.post(f"{V1}/runs", content=GOOD).status_code == 401
        assert http.delete(f"{V1}/runs/r00000001").status_code == 401
        assert http.post(f"{V1}/seeds/1/runs").status_code == 401
        assert http.get(f"{V1}/runs").status_code == 200
        allowed = http.post(f"{V1}/runs", content=GOOD, headers={"Authorization": "Bearer sesame"})
        assert allowed.status_code == 201
        assert http.post(f"{V1}/runs", content=GOOD, headers={"Origin": "http://elsewhere"}).status_code == 403
