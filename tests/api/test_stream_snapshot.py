"""The dashboard's event stream. If it cannot be resumed, it starts with a snapshot of the cluster state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from zabka.agent.protocol import JournalChunk, Position
from zabka.journal.events import ControllerElected
from zabka.journal.writer import encode_line

EVENTS = "/api/v1/events?snapshot=true"


def collect_elections(server: Server, first: int, last: int) -> None:
    lines = b"".join(encode_line("broker-1", i, i, 0, ControllerElected(1, i, i)) for i in range(first, last + 1))
    server.collect(JournalChunk("broker-1", lines, Position("f", last)))


def messages(server: Server, last_event_id: int | None, count: int) -> list[tuple[str, int, Any]]:
    """Return messages from the start of a stream as (id, kind, data), without the message with the history's name."""
    headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
    found: list[tuple[str, int, Any]] = []
    kind, number = "message", 0
    with (
        httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http,
        http.stream("GET", EVENTS, headers=headers) as answer,
    ):
        assert answer.status_code == 200
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                number = int(value)
            elif name == "data":
                if kind != "history":
                    found.append((kind, number, json.loads(value)))
                kind = "message"
                if len(found) == count:
                    break
    return found


def test_new_stream_starts_with_the_current_state(server: Server) -> None:
    collect_elections(server, 1, 5)
    [(kind, number, state)] = messages(server, None, 1)

    assert (kind, number) == ("snapshot", 5)
    assert (state["controller_id"], state["controller_epoch"]) == (1, 5)
    assert len(state["controller_terms"]) == 5


def test_resumable_stream_gets_no_snapshot(server: Server) -> None:
    collect_elections(server, 1, 5)

    assert [(kind, number) for kind, number, _ in messages(server, 3, 2)] == [("message", 4), ("message", 5)]


@pytest.mark.parametrize("asked", [{"headers": {"Last-Event-ID": "5000"}}, {"params": {"after": "6"}}])
def test_stream_after_a_future_event_number_is_rejected(server: Server, asked: dict[str, dict[str, str]]) -> None:
    collect_elections(server, 1, 5)
    with httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http:
        answer = http.get("/api/v1/events", **asked)  # type: ignore[arg-type]

    assert answer.status_code == 410
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["oldest"], answer.json()["last"]) == (1, 5)
    assert "request the events after 0" in answer.json()["detail"]


def test_stream_after_the_last_event_number_waits_for_events(server: Server) -> None:
    collect_elections(server, 1, 5)
    with (
        httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http,
        http.stream("GET", "/api/v1/events", headers={"Last-Event-ID": "5"}) as answer,
    ):
        assert answer.status_code == 200
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        collect_elections(server, 6, 6)
        assert next(line for line in lines if line.startswith("id: ")) == "id: 6"


@pytest.mark.parametrize("position", [3, 5_000], ids=["no longer kept", "of another history"])
def test_unresumable_stream_gets_a_snapshot(server: Server, position: int) -> None:
    collect_elections(server, 1, 150)
    [(kind, number, state)] = messages(server, position, 1)

    assert (kind, number, state["controller_epoch"]) == ("snapshot", 150, 150)


def named(server: Server, last_event_id: int) -> str:
    """Return the history's name, which is the first message of a stream."""
    with (
        httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http,
        http.stream("GET", EVENTS, headers={"Last-Event-ID": str(last_event_id)}) as answer,
    ):
        lines = answer.iter_lines()
        assert next(line for line in lines if line.startswith("event: ")) == "event: history"
        return next(lines).removeprefix("data: ")


def test_history_id_changes_only_if_its_directory_is_emptied(
    tmp_path: Path,
) -> None:
    """The history gets a new name if its directory was emptied, so that a browser starts over.

    Before the fix, a browser that was suspended during that time skipped events of the new cluster, up to the last
    event number of the old cluster.
    """
    names = []
    for place in ("first", "first", "emptied"):
        with Server(tmp_path / place) as running:
            collect_elections(running, 1, 5)
            names.append(named(running, 3))

    assert names[0] == names[1] != names[2]
