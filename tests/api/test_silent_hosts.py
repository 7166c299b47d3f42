"""If a host agent does not respond for two seconds, its last status is no longer shown as current."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.api_server import NODES, Server
from zabka.agent.protocol import NodeAction, ProcessInfo, Snapshot
from zabka.api.collector.agents import IDLE_INTERVAL_S, POLL_INTERVAL_S, SILENT_AFTER_S, WATCHED_S, Agent, Agents
from zabka.api.http.problems import Problem
from zabka.api.settings import AgentAddress

V1 = "/api/v1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as running:
        running.agent.set_status("peer-1", 10, state="LEADING", phase="BROADCAST", leader_id=1, current_epoch=4)
        running.agent.set_status(
            "broker-1", 10, is_controller=True, believes={"controller_id": 1, "controller_epoch": 3},
            session={"state": "connected"}, partitions=[{"topic": "orders", "partition": 0, "hw": 7, "leo": 8}],
        )  # fmt: skip
        yield running


def test_last_status_of_a_silent_host_is_valid_for_two_seconds(server: Server, http: httpx.Client) -> None:
    server.agent.freeze(1.5)
    found = http.get(f"{V1}/peers/1").json()
    assert (found["process"], found["state"], found["unknown"]) == ("running", "LEADING", None)
    assert http.get(f"{V1}/brokers/1").json()["is_controller"] is True


def test_peer_state_is_unknown_after_two_seconds(server: Server, http: httpx.Client) -> None:
    as_of_us = http.get(f"{V1}/peers/1").json()["as_of_us"]
    server.agent.freeze(2.0)
    frozen_us = time.time_ns() // 1000
    found = http.get(f"{V1}/peers/1").json()
    assert (found["process"], found["pid"], found["state"], found["phase"]) == ("unknown", None, "UNKNOWN", "UNKNOWN")
    older = ("accepted_epoch", "current_epoch", "last_zxid", "leader_id")
    assert [found[field] for field in older] == [None] * 4
    assert (found["unknown"]["reason"], found["unknown"]["host"]) == ("host_silent", "host-1")
    assert as_of_us <= found["unknown"]["since_us"] <= frozen_us
    assert http.get(f"{V1}/peers/1").json()["unknown"] == found["unknown"]


def test_broker_of_a_silent_host_shows_only_its_registration(server: Server, http: httpx.Client) -> None:
    assert http.get(f"{V1}/topics/orders").json()["partitions"][0]["log_end_offsets"] == {"1": 8}
    server.agent.freeze(2.0)
    found = http.get(f"{V1}/brokers/1").json()
    assert (found["process"], found["pid"], found["session_state"]) == ("unknown", None, "unknown")
    assert (found["is_controller"], found["status"]) == (None, {})
    assert found["believes"] == {"controller_id": -1, "controller_epoch": 0, "age_ms": None}
    assert (found["registered"], found["broker_epoch"]) == (True, 25)
    assert found["unknown"]["reason"] == "host_silent"
    partition = http.get(f"{V1}/topics/orders").json()["partitions"][0]
    assert (partition["leader"], partition["high_watermark"], partition["log_end_offsets"]) == (1, None, {})
    whole = http.get(f"{V1}/cluster").json()
    assert {n["process"] for n in (*whole["peers"], *whole["brokers"])} == {"unknown"}


def test_state_is_known_again_when_the_agent_replies(server: Server, http: httpx.Client) -> None:
    server.agent.freeze(60.0)
    assert http.get(f"{V1}/peers/1").json()["process"] == "unknown"
    server.agent.frozen = False
    asyncio.run(server.agent.refresh())
    assert http.get(f"{V1}/peers/1").json()["state"] == "LEADING"


def test_faults_are_unknown_while_no_agent_replies(server: Server, http: httpx.Client) -> None:
    """While no agent replies, the API reports that the link faults are unknown.

    Before the fix, it returned an empty list: the page showed every link as healthy, and healing a fault failed with
    404.
    """
    made = http.post(f"{V1}/faults", json={"from": "broker-1", "to": "*", "kind": "cut"}).json()
    server.agent.freeze(2.0)

    assert http.get(f"{V1}/cluster").json()["faults"] is None
    for answer in (http.get(f"{V1}/faults"), http.delete(f"{V1}/faults/{made['id']}"), http.post(f"{V1}/faults/reset")):
        assert answer.status_code == 503
        assert answer.json()["detail"] == "no host agent responds (host-1): the faults are unknown"
    server.agent.frozen = False
    asyncio.run(server.agent.refresh())
    assert [fault["id"] for fault in http.get(f"{V1}/faults").json()] == [made["id"]]
    assert [fault["id"] for fault in http.get(f"{V1}/cluster").json()["faults"]] == [made["id"]]


def test_silent_host_is_reported_in_readiness_and_metrics(server: Server, http: httpx.Client) -> None:
    assert 'zk_up{peer="1"} 1.0' in http.get("/metrics").text
    server.agent.freeze(2.0)
    ready = http.get("/readyz")
    assert ready.status_code == 503
    assert [line for line in ready.json()["missing"] if "host-1" in line and "has not responded since" in line]
    text = http.get("/metrics").text
    assert 'zk_up{peer="1"} 0.0' in text
    assert 'zk_server_state{peer="1",state="unknown"} 1.0' in text
    assert "activecontrollercount{" not in text


def test_error_for_an_action_on_a_silent_host_has_instructions(tmp_path: Path) -> None:
    agents = [AgentAddress(name="host-1", url="http://127.0.0.1:1", nodes=NODES, remedy="repair the way to it")]
    with Server(tmp_path, agents=agents) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        server.agent.freeze(2.0)
        answer = http.post(f"{V1}/brokers/1/start")
        assert (answer.status_code, answer.json()["host"]) == (503, "host-1")
        assert answer.json()["detail"].endswith("; no action on broker-1; repair the way to it")
        assert server.agent.asked == []


async def _kill_of_an_agent_that_stalls(port: int) -> Problem:
    now_s = 100.0
    agent = Agent(AgentAddress(name="host-1", url=f"http://127.0.0.1:{port}", nodes=NODES), "token", lambda: now_s)
    agent.receive(Snapshot("host-1", [ProcessInfo("broker-1", "running", 7, None, 1)], []))
    asked = asyncio.create_task(agent.request_action("broker-1", NodeAction.KILL, "page"))
    await asyncio.sleep(0)
    now_s += 2.0
    try:
        with pytest.raises(Problem) as refusal:
            await asyncio.wait_for(asked, 10)
        return refusal.value
    finally:
        agent.close()


def test_outcome_of_an_action_on_a_silent_agent_is_unknown() -> None:
    # The agent behaves like a frozen process: the kernel accepts the connection and the request; no response follows.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        refusal = asyncio.run(_kill_of_an_agent_that_stalls(listener.getsockname()[1]))
    assert refusal.status == 503
    assert "kill broker-1 may have been carried out" in refusal.detail


def test_failed_agent_poll_is_raised_and_cancels_the_other_polls() -> None:
    class Failing(Agent):
        async def refresh(self, fresh_ms: int = 0) -> None:
            raise ValueError("a fault of ours")

    class Frozen(Agent):
        ended = False

        async def refresh(self, fresh_ms: int = 0) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                self.ended = True

    async def run() -> bool:
        address = AgentAddress(name="h", url="http://127.0.0.1:9", nodes=[])
        frozen = Frozen(address, "token")
        with pytest.raises(ExceptionGroup) as failed:
            await Agents([frozen, Failing(address, "token")]).run()
        assert failed.group_contains(ValueError, match="a fault of ours")
        return frozen.ended

    assert asyncio.run(run()), "a restarted poll must not run next to the old one"


def test_agents_are_polled_more_often_while_clients_read() -> None:
    now_s = 0.0
    agents = Agents([], lambda: now_s)
    now_s = WATCHED_S
    assert agents.interval_s == IDLE_INTERVAL_S
    agents.process("broker-1")
    assert agents.interval_s == POLL_INTERVAL_S
    now_s += WATCHED_S
    assert agents.interval_s == IDLE_INTERVAL_S
    # The timeout must cover several intervals, so that one slow response does not count as silence.
    assert IDLE_INTERVAL_S <= SILENT_AFTER_S / 4
