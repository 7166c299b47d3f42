"""Jobs over HTTP: start, output, stop, one of each kind, and their end with the API."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from zabka.api.analytics.jobs import CLOSE_S
from zabka.api.main import STREAMS_END_S
from zabka.compose.host import API_STOP_S

PROGRAM = (sys.executable, str(Path(__file__).with_name("job_program.py")))
WAIT_S = 20.0
CAMPAIGN = {"name": "timeouts", "definition": 'question = "Which?"\n'}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, job_argv=PROGRAM) as running:
        yield running


def send(server: Server, method: str, path: str = "", **options: Any) -> httpx.Response:
    return httpx.request(method, f"{server.url}/api/v1/jobs{path}", trust_env=False, timeout=30, **options)


def job(server: Server, kind: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = send(server, "GET").json()
    return next(each for each in found if each["kind"] == kind)


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pid_of(server: Server, kind: str) -> int:
    until(lambda: len(job(server, kind)["tail"]) >= 2)
    return int(job(server, kind)["tail"][1].split()[1])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_jobs_are_idle_before_the_first_start(server: Server) -> None:
    found = send(server, "GET").json()
    assert [(each["kind"], each["state"]) for each in found] == [
        ("stream", "idle"),
        ("audit", "idle"),
        ("campaign", "idle"),
    ]


def test_stream_runs_with_its_output_until_it_is_stopped(server: Server, tmp_path: Path) -> None:
    started = send(server, "POST", "/stream")
    assert (started.status_code, started.json()["state"]) == (201, "running")
    pid = pid_of(server, "stream")
    assert job(server, "stream")["tail"][0] == f"arguments: pipeline stream --follow --data {tmp_path}"
    assert send(server, "POST", "/stream").status_code == 409
    assert send(server, "DELETE", "/stream").status_code == 202
    until(lambda: job(server, "stream")["state"] == "ended")
    ended = job(server, "stream")
    assert (ended["stopped"], ended["exit_code"]) == (True, -15)
    assert not is_alive(pid)
    assert send(server, "DELETE", "/stream").status_code == 404
    assert send(server, "POST", "/stream").status_code == 201


def test_audit_ends_with_its_exit_code_and_error_output(server: Server) -> None:
    send(server, "POST", "/audit")
    until(lambda: job(server, "audit")["state"] == "ended")
    ended = job(server, "audit")
    assert (ended["exit_code"], ended["stopped"], ended["tail"][-1]) == (1, False, "2 runs, 1 with violations")


def test_campaign_gets_a_file_with_its_definition(server: Server, tmp_path: Path) -> None:
    assert send(server, "POST", "/campaign", json=CAMPAIGN).status_code == 201
    pid_of(server, "campaign")
    file = tmp_path / "api" / "campaign-files" / "timeouts.toml"
    assert file.read_text() == CAMPAIGN["definition"]
    assert f"campaign run {file} --jobs " in job(server, "campaign")["tail"][0]


@pytest.mark.parametrize("body", [{}, {"name": "../x", "definition": "a"}, {"name": "x", "definition": "a" * 20_001}])
def test_invalid_campaign_is_rejected(server: Server, body: dict[str, str]) -> None:
    assert send(server, "POST", "/campaign", json=body).status_code == 422
    assert job(server, "campaign")["state"] == "idle"


def test_jobs_end_with_the_api_even_if_they_ignore_it(tmp_path: Path) -> None:
    with Server(tmp_path, job_argv=PROGRAM) as server:
        send(server, "POST", "/stream")
        send(server, "POST", "/campaign", json={**CAMPAIGN, "name": "stubborn"})
        pids = [pid_of(server, kind) for kind in ("stream", "campaign")]
        assert all(map(is_alive, pids))
    assert not any(map(is_alive, pids))


def test_api_has_ended_before_its_agent_kills_it() -> None:
    assert STREAMS_END_S + CLOSE_S < API_STOP_S


def test_api_ends_jobs_and_forecasts_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    both = asyncio.Barrier(2)

    async def fail() -> None:
        raise OSError("no such process")

    async def close_forecasts() -> None:
        await asyncio.wait_for(both.wait(), WAIT_S)
        closed.append("forecasts")

    async def close_workloads() -> None:
        await asyncio.wait_for(both.wait(), WAIT_S)
        closed.append("workloads")

    with Server(tmp_path) as server:
        monkeypatch.setattr(server.services.jobs, "close", fail)
        monkeypatch.setattr(server.services.forecasts, "close", close_forecasts)
        monkeypatch.setattr(server.services.workloads, "close", close_workloads)
    assert sorted(closed) == ["forecasts", "workloads"]


def test_jobs_do_not_inherit_options_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZABKA_OUT", "/elsewhere")
    code = "import os; print(sorted(each for each in os.environ if each.startswith('ZABKA_')))"
    with Server(tmp_path, job_argv=(sys.executable, "-c", code)) as server:
        send(server, "POST", "/audit")
        until(lambda: job(server, "audit")["state"] == "ended")
        assert job(server, "audit")["tail"] == ["['ZABKA_PARENT']"]


def test_missing_program_is_reported(tmp_path: Path) -> None:
    with Server(tmp_path, job_argv=("/nonexistent",)) as server:
        answer = send(server, "POST", "/audit")
    assert (answer.status_code, "cannot be started" in answer.json()["detail"]) == (503, True)


def test_jobs_need_the_token_off_loopback(tmp_path: Path) -> None:
    with Server(tmp_path, token="secret", job_argv=PROGRAM) as server:
        assert send(server, "POST", "/audit").status_code == 401
        assert job(server, "audit")["state"] == "idle"
