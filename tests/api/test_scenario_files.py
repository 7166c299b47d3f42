"""Scenario files over HTTP: running and stopping one, and recording one."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import httpx
import pytest

from tests.api.api_server import Server
from zabka.agent.protocol import JournalChunk, Position
from zabka.api.collector.numbered import Numbered
from zabka.api.http.problems import Problem
from zabka.api.scenarios.recorded_script import recorded_script
from zabka.api.services import Services
from zabka.journal import events as e
from zabka.journal.cluster_state import BrokerView, ClusterState, PeerView
from zabka.journal.writer import encode_line

V1 = "/api/v1"
FILE: dict[str, Any] = {
    "driver": "world", "name": "two-faults", "title": "Two faults", "hypothesis": "It recovers.", "peers": 3,
    "brokers": 3, "steps": [{"type": "At", "ms": 5000}, {"type": "Kill", "nodes": ["broker-2"]}],
}  # fmt: skip


def until(http: httpx.Client, started: httpx.Response, holds: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + 10
    while True:
        run: dict[str, Any] = http.get(started.headers["location"]).json()
        if run["state"] == holds and (holds == "ended" or run["begun"]):
            return run
        assert time.monotonic() < deadline_s, run
        time.sleep(0.005)


def test_scenario_file_runs_on_this_cluster_with_its_steps(server: Server, http: httpx.Client) -> None:
    started = http.post(f"{V1}/scenario-runs", json={"scenario": FILE, "live": True})
    assert (started.status_code, started.json()["steps"]) == (202, 2)

    run = until(http, started, "ended")
    assert server.player.files == [FILE]
    assert server.player.asked[-1] == ("scenarios", "run", "-", "--on", "http://127.0.0.1:1", "--progress", "--json")
    assert [(step["step"], step["text"]) for step in run["begun"]] == [(1, "at"), (2, "kill")]
    assert (run["scenario"], run["verdict"], run["error"]) == ("two-faults.json", "held", None)
    assert http.delete(started.headers["location"]).status_code == 409


def test_scenario_run_stops_when_it_is_deleted(http: httpx.Client) -> None:
    endless = {**FILE, "steps": [{"type": "Endless"}]}
    running = http.post(f"{V1}/scenario-runs", json={"scenario": endless, "live": True})
    until(http, running, "running")
    queued = http.post(f"{V1}/scenario-runs", json={"scenario": FILE})
    unfinished = [http.get(f"{V1}/scenario-runs", params=params).json() for params in ({"live": True}, {})]
    assert [[run["id"] for run in runs] for runs in unfinished] == [
        [running.json()["id"]],
        [running.json()["id"], queued.json()["id"]],
    ]
    assert http.get(f"{V1}/scenario-runs", params={"live": "maybe"}).status_code == 422

    assert http.delete(queued.headers["location"]).json()["state"] == "ended"
    assert http.delete(running.headers["location"]).status_code == 202
    assert until(http, running, "ended")["error"] == "it was stopped"
    assert http.get(f"{V1}/scenario-runs").json() == []
    after = http.post(f"{V1}/scenario-runs", json={"scenario": FILE})
    assert until(http, after, "ended")["verdict"] == "held"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../../etc"}, "name"),
        ({"driver": "cores"}, "driver"),
        ({"subjects": ["weather"]}, "subjects"),
        ({"steps": [{"type": "At", "ms": 1}] * 1001}, "steps"),
    ],
)
def test_invalid_scenario_file_is_rejected(http: httpx.Client, change: dict[str, Any], message: str) -> None:
    answer = http.post(f"{V1}/scenario-runs", json={"scenario": {**FILE, **change}})

    assert answer.status_code == 422
    assert message in answer.json()["detail"]


def test_faults_by_hand_are_recorded_as_a_scenario_file(server: Server, http: httpx.Client) -> None:
    began_us = 1_700_000_000_000_000
    events: list[tuple[int, e.Event]] = [
        (1, e.ProcessChanged("broker-3", "down", None, "kill", "page")),
        (5, e.FaultInjected("f1", "cut", "peer-1", "peer-2", both_ways=True, requester="page")),
        (60, e.ProcessChanged("broker-3", "running", 7, "start", "page")),
    ]
    lines = [
        encode_line("host-1", number, began_us + at_s * 1_000_000, 0, event)
        for number, (at_s, event) in enumerate(events, start=1)
    ]
    server.collect(JournalChunk("host-1", b"".join(lines), Position("told", 3, 3)))
    span = {"from": began_us, "to": began_us + 10_000_000}

    found = http.get(f"{V1}/runs/live/script", params={**span, "name": "mine"}).json()
    assert (found["scenario"]["name"], found["scenario"]["brokers"], found["left_out"]) == ("mine", 3, [])
    assert found["scenario"]["steps"] == [
        {"type": "Cast"}, {"type": "At", "ms": 1_000}, {"type": "Kill", "nodes": ["broker-3"]},
        {"type": "At", "ms": 5_000}, {"type": "Cut", "node": "peer-1", "others": ["peer-2"], "both_ways": True},
        {"type": "At", "ms": 10_000},
    ]  # fmt: skip
    assert http.get(f"{V1}/runs/live/script", params={"from": 5, "to": 5}).status_code == 422


class Shown(NamedTuple):
    """A history whose states have these peers and brokers once an event has happened."""

    first_seq: int
    rows: list[Numbered]

    @property
    def history(self) -> Shown:
        return self

    def rewind(self, run: str) -> Shown:
        return self

    def read(self, seq: int, limit: int) -> list[Numbered]:
        return [row for row in self.rows if row.seq >= seq][:limit]

    async def state(self, at: int) -> ClusterState:
        there = at >= self.first_seq
        return ClusterState(peers={3: PeerView(3)}, brokers={2: BrokerView(2)}) if there else ClusterState()


@pytest.mark.parametrize("first", [1, 7])
def test_recorded_script_has_the_nodes_at_the_end_of_its_span(first: int) -> None:
    line = encode_line("host-1", 1, 1_000_000, 0, e.ProcessChanged("broker-2", "down", None, "kill", "page"))
    shown = Shown(first, [Numbered(first, json.dumps({**json.loads(line), "seq": first}).encode())])
    services = cast(Services, SimpleNamespace(runs=shown))

    found = asyncio.run(recorded_script(services, "upload", 1_000_000, 2_000_000, "mine", with_topics=True))
    assert (found.scenario.peers, found.scenario.brokers) == (3, 2)
    if first > 1:
        with pytest.raises(Problem, match="the oldest stored event is 7"):
            asyncio.run(recorded_script(services, "upload", 999_999, 2_000_000, "mine", with_topics=True))
