"""Resets of the live cluster over HTTP: the steps in order, and steps that fail."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server, report_registrations
from zabka.agent.client import AgentSilent
from zabka.api.http.problems import Problem
from zabka.api.views.ensemble_view import Registration
from zabka.api.views.models import ElectionResult
from zabka.ensemble.runtime.link_fault import AnyFault, HeldFault
from zabka.kafka.client.group_admin import GroupInfo
from zabka.kafka.client.group_reading import GroupReading, GroupStatus
from zabka.kafka.ports import Endpoint

V1 = "/api/v1"
RESETS = f"{V1}/resets"


def ended(http: httpx.Client, started: httpx.Response) -> dict[str, Any]:
    deadline_s = time.monotonic() + 10
    while (reset := http.get(started.headers["location"]).json())["state"] == "running":
        assert time.monotonic() < deadline_s, reset
        time.sleep(0.01)
    found: dict[str, Any] = reset
    return found


def group(name: str) -> GroupStatus:
    info = GroupInfo(name, Endpoint(1, "127.0.0.1", 9092), "Empty", "consumer", "range", ())
    return GroupStatus(info, {}, {})


def test_reset_heals_starts_and_deletes_in_order(tmp_path: Path) -> None:
    with Server(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        report_registrations(server.agent, server.ensemble)
        server.agent.held = [HeldFault(id="f1", source="peer-1", target="peer-2", kind="cut")]
        assert http.post(f"{V1}/brokers/2/kill").status_code == 202
        assert http.post(f"{V1}/peers/1/pause").status_code == 202
        topics = server.ensemble.reading.topics
        topics.update({name: topics["orders"]._replace(name=name) for name in ("shop", "__consumer_offsets")})
        server.admin.reading = GroupReading(groups={"readers": group("readers"), "audit": group("audit")})

        reset = ended(http, http.post(RESETS, json={"keep_topics": ["shop"], "keep_groups": ["audit"]}))

        assert [(step["name"], step["detail"]) for step in reset["steps"] if step["detail"]] == [
            ("faults", "1 removed"), ("nodes", "peer-1, broker-2"), ("topics", "orders"), ("groups", "readers"),
        ]  # fmt: skip
        assert (reset["state"], {step["state"] for step in reset["steps"]}) == ("done", {"done"})
        assert server.agent.held == []
        assert server.agent.asked[-2:] == ["resume peer-1", "start broker-2"]
        assert server.agent.requesters[-2:] == ["reset", "reset"]
        assert sorted(topics) == ["__consumer_offsets", "shop"]
        assert list(server.admin.reading.groups) == ["audit"]


def test_reset_stops_at_the_first_step_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(name: str) -> None:
        raise Problem(503, f"{name}: no controller")

    with Server(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        report_registrations(server.agent, server.ensemble)
        monkeypatch.setattr(server.admin, "delete_topic", refuse)
        reset = ended(http, http.post(RESETS))

        assert (reset["state"], [step["state"] for step in reset["steps"]]) == (
            "failed", ["done"] * 5 + ["failed", "waiting", "waiting"]
        )  # fmt: skip
        assert reset["steps"][5]["detail"] == "orders: no controller"
        assert http.get(f"{RESETS}/nope").status_code == 404


def test_reset_waits_for_a_host_agent_that_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        report_registrations(server.agent, server.ensemble)
        server.agent.held = [HeldFault(id="f1", source="peer-1", target="peer-2", kind="cut")]
        answer, late = server.agent.faults, [AgentSilent("host-1"), AgentSilent("host-1")]

        async def answer_late() -> list[AnyFault]:
            if late:
                raise late.pop()
            return await answer()

        monkeypatch.setattr(server.agent, "faults", answer_late)
        reset = ended(http, http.post(RESETS))
        assert (reset["state"], reset["steps"][2]["detail"], late) == ("done", "1 removed", [])


def test_second_reset_is_rejected_while_one_waits(tmp_path: Path) -> None:
    with Server(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        report_registrations(server.agent, server.ensemble)
        server.ensemble.reading.brokers.pop(3)
        first = http.post(RESETS)
        assert http.post(RESETS).status_code == 409
        live = http.post(f"{V1}/scenarios/kafka-708/runs", json={"live": True})
        assert (live.status_code, live.json()["detail"][:8]) == (409, "a reset ")
        assert http.post(f"{V1}/scenarios/kafka-708/runs").status_code == 202
        server.ensemble.reading.brokers[3] = Registration(27)
        assert ended(http, first)["state"] == "done"
        server.agent.freeze(60)
        assert http.post(RESETS).status_code == 503


def test_reset_needs_the_token(tmp_path: Path) -> None:
    with Server(tmp_path, token="secret") as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        report_registrations(server.agent, server.ensemble)
        assert http.post(RESETS).status_code == 401
        allowed = http.post(RESETS, headers={"authorization": "Bearer secret"})
        assert (allowed.status_code, ended(http, allowed)["state"]) == (202, "done")


def step_waits(http: httpx.Client, started: httpx.Response, name: str) -> None:
    deadline_s = time.monotonic() + 10
    while True:
        [step] = [each for each in http.get(started.headers["location"]).json()["steps"] if each["name"] == name]
        if step["state"] == "running":
            return
        assert time.monotonic() < deadline_s and step["state"] == "waiting", step
        time.sleep(0.005)


def test_reset_waits_for_new_registrations_groups_and_leaders(tmp_path: Path) -> None:
    with Server(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        server.admin.reading = GroupReading({"readers": group("readers")}, silent={2: "broker 2: loading"})
        led = ElectionResult(topic="kept", partition=0, elected=True, error=None, message=None)
        failed = led.model_copy(update={"elected": False, "error": "PREFERRED_LEADER_NOT_AVAILABLE"})
        server.admin.elections = [[failed], [led]]
        topics = server.ensemble.reading.topics
        topics["kept"] = topics["orders"]._replace(name="kept")

        started = http.post(RESETS, json={"keep_topics": ["kept"]})
        step_waits(http, started, "cluster")
        report_registrations(server.agent, server.ensemble)
        step_waits(http, started, "groups")
        server.admin.reading = GroupReading({"late": group("late")})

        reset = ended(http, started)
        assert [step["detail"] for step in reset["steps"][-2:]] == ["readers, late", "kept-0"]
        assert (reset["state"], server.admin.elections) == ("done", [])


def test_reset_fails_if_a_broker_has_an_old_registration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        monkeypatch.setattr(server.services.resets, "_wait_s", 0)
        report_registrations(server.agent, server.ensemble)
        server.ensemble.reading.brokers[2] = Registration(99)
        assert ended(http, http.post(RESETS))["steps"][4]["detail"] == "broker 2 is not registered, after 0 s"
