"""What-if questions over HTTP: the live state that they read, their progress, and their answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import FakeFollower, Server
from zabka.api.scenarios.process import PlayerFailed, ScenarioProcess
from zabka.compose.launch import player_argv
from zabka.ensemble.runtime.link_fault import HeldFault

V1 = "/api/v1"
BROKER_2 = {"kill": "broker-2"}
TEN_S = 10.0


@pytest.fixture
def follower() -> FakeFollower:
    return FakeFollower()


@pytest.fixture
def server(tmp_path: Path, follower: FakeFollower) -> Iterator[Server]:
    with Server(tmp_path, follower=follower) as running:
        running.agent.set_status("peer-1", 0, role="peer", state="LEADING")
        yield running


def leads(server: Server, peer: int = 1) -> None:
    """Make a peer the leader of the ensemble."""
    server.collector.state.zab_leader_id = peer


def until(http: httpx.Client, location: str, holds: Any, within_s: float = 10) -> dict[str, Any]:
    deadline = time.monotonic() + within_s
    while not holds(found := http.get(location).json()):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    answer: dict[str, Any] = found
    return answer


def test_answer_grows_and_ends_with_its_distribution(
    server: Server, http: httpx.Client, follower: FakeFollower
) -> None:
    leads(server)
    before_us = time.time_ns() // 1000
    asked = http.post(f"{V1}/what-if", json=BROKER_2)
    assert asked.status_code == 202, asked.text
    location = asked.headers["location"]
    assert location == f"{V1}/what-if/{asked.json()['id']}"
    assert (asked.json()["state"], asked.json()["forecast"]) == ("running", None)
    assert abs(asked.json()["read_at_us"] - before_us) < 5_000_000

    first = until(http, location, lambda found: found["forecast"] is not None)
    assert (first["state"], first["forecast"]["futures"], first["forecast"]["ended"]) == ("running", 1, False)
    assert http.post(f"{V1}/what-if", json=BROKER_2).status_code == 409

    follower.released.set()
    last = until(http, location, lambda found: found["state"] == "ended")
    assert (last["forecast"]["futures"], last["forecast"]["ended"], last["error"]) == (4, True, None)
    assert last["forecast"]["read_at_us"] == last["read_at_us"] == asked.json()["read_at_us"]
    assert follower.asked == [
        ("what-if", "--state", "-", "--kill", "broker-2", "--acks", "all", "--budget", "8s", "--json")
    ]


def test_live_state_has_roles_settings_isrs_and_faults(
    server: Server, http: httpx.Client, follower: FakeFollower
) -> None:
    leads(server, 3)
    follower.released.set()
    server.agent.held = [HeldFault("broker-1", "peer-2", "cut", id="f1")]
    asked = http.post(f"{V1}/what-if", json={"kill": "peer-3", "acks": "1", "budget_s": 20})
    until(http, asked.headers["location"], lambda found: found["state"] == "ended")
    state = json.loads(follower.states[0])
    assert (state["controller"], state["zab_leader"]) == (1, 3)
    assert [(each["id"], each["process"], each["registered"]) for each in state["brokers"]] == [
        (1, "running", True), (2, "running", True), (3, "running", True)
    ]  # fmt: skip
    assert state["broker_keys"]["min.insync.replicas"] == "2"
    [orders] = state["topics"]
    [partition] = orders["partitions"]
    assert (orders["name"], partition["leader"], partition["isr"], partition["replicas"]) == (
        "orders", 1, [1, 2], [1, 2, 3]
    )  # fmt: skip
    assert [(each["from"], each["to"], each["kind"]) for each in state["faults"]] == [("broker-1", "peer-2", "cut")]
    assert any("did not reply to conf: tickTime is taken to be 500 ms" in each for each in state["unread"])
    assert follower.asked[0][5:9] == ("--acks", "1", "--budget", "20s")


def test_state_without_an_answer_is_refused(server: Server, http: httpx.Client) -> None:
    no_leader = http.post(f"{V1}/what-if", json=BROKER_2)
    assert (no_leader.status_code, "no known leader" in no_leader.json()["detail"]) == (409, True)
    leads(server)
    missing = http.post(f"{V1}/what-if", json={"kill": "broker-9"})
    assert (missing.status_code, "there is no node broker-9" in missing.json()["detail"]) == (404, True)
    server.ensemble.stale = True
    stale = http.post(f"{V1}/what-if", json=BROKER_2)
    assert (stale.status_code, "out of date" in stale.json()["detail"]) == (409, True)
    assert http.get(f"{V1}/what-if/w00000000").status_code == 404


@pytest.mark.parametrize("body", [{}, {"kill": "host-1"}, {**BROKER_2, "acks": "0"}, {**BROKER_2, "budget_s": 1e9}])
def test_invalid_question_is_rejected(http: httpx.Client, body: dict[str, Any]) -> None:
    assert http.post(f"{V1}/what-if", json=body).status_code == 422


def test_failure_of_the_process_is_the_error_of_the_answer(
    server: Server, http: httpx.Client, follower: FakeFollower
) -> None:
    leads(server)
    follower.failure = "zabka: no future ended in time. Allow more time"
    asked = http.post(f"{V1}/what-if", json=BROKER_2)
    ended = until(http, asked.headers["location"], lambda found: found["state"] == "ended")
    assert (ended["error"], ended["forecast"]) == (follower.failure, None)


def test_real_process_answers_within_ten_seconds(tmp_path: Path) -> None:
    with (
        Server(tmp_path, follower=ScenarioProcess(player_argv())) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=10) as http,
    ):
        leads(server)
        began_s = time.monotonic()
        asked = http.post(f"{V1}/what-if", json={"kill": "broker-1", "budget_s": 5})
        found = until(http, asked.headers["location"], lambda found: found["state"] == "ended", within_s=60)
        took_s = time.monotonic() - began_s
    assert found["error"] is None, found
    assert found["forecast"]["ended"]
    assert found["forecast"]["futures"] >= 1
    assert found["forecast"]["controller"]["median_ms"] > 3_000
    assert took_s < TEN_S


def test_process_with_a_bad_state_reports_its_reason() -> None:
    async def follow() -> list[bytes]:
        lines = ScenarioProcess(player_argv()).follow(
            "what-if", "--state", "-", "--kill", "broker-1", "--json", feed=b"{}", patience_s=60
        )
        return [line async for line in lines]

    with pytest.raises(PlayerFailed, match="--state -: Object missing required field"):
        asyncio.run(follow())
