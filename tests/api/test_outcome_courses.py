"""Courses over HTTP: how likely a loss was over the time of a stored run of a seed."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.api_server import FakeFollower, Server
from tests.api.test_forks import ended
from zabka.api.runs.intake import SIMULATION_BEGINS_US
from zabka.api.runs.origins import ForkChange, Origin
from zabka.api.runs.run_models import Run
from zabka.api.scenarios.course_models import NewOutcomeCourse
from zabka.api.scenarios.outcome_courses import OutcomeCourses
from zabka.api.scenarios.process import ScenarioProcess
from zabka.compose.launch import player_argv
from zabka.simulation.fork import Change

V1 = "/api/v1"
ENDS_S = 120.0


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    player = ScenarioProcess(player_argv())
    with (
        Server(tmp_path_factory.mktemp("api"), player=player, follower=player) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def run(http: httpx.Client) -> str:
    found: str = ended(http, http.post(f"{V1}/seeds/2/runs", json={"scenario": "ensemble"}))["kept"]["run"]
    return found


def test_course_has_its_moments_and_ends(http: httpx.Client, run: str) -> None:
    location = f"{V1}/runs/{run}/outcome-course"
    assert http.get(location).status_code == 204
    asked = http.post(location, json={"futures": 1, "moments": 2})
    assert (asked.status_code, asked.headers["location"]) == (202, location), asked.text
    assert http.post(location).status_code == 409
    deadline = time.monotonic() + ENDS_S
    while (found := http.get(location).json())["state"] != "ended":
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    plot: dict[str, Any] = found["plot"]
    assert (found["error"], plot["futures"], plot["moments"], plot["loss_us"], plot["certain_us"]) == (
        None, 1, 2, None, None
    )  # fmt: skip
    about = http.get(f"{V1}/runs/{run}").json()
    half_us = -(-(about["last_us"] - SIMULATION_BEGINS_US) // 2)
    assert [each["at_us"] for each in plot["points"]] == [SIMULATION_BEGINS_US, SIMULATION_BEGINS_US + half_us]
    assert [each["losing"] for each in plot["points"]] == [0, 0]
    assert http.delete(location).status_code == 409


def test_course_of_a_fork_is_played_with_its_changes() -> None:
    async def play() -> tuple[str, ...]:
        follower = FakeFollower()
        courses = OutcomeCourses(follower)
        changes = [Change(8_000_000, killed=("peer-1",)), Change(9_000_000, left_out=("f5",))]
        fork = Run(
            id="r00000001", kind="seed", title="Seed 2", first_seq=1, last_seq=9, first_us=SIMULATION_BEGINS_US,
            last_us=SIMULATION_BEGINS_US + 24_000_000, events=9, created_ms=1,
            origin=Origin(scenario="ensemble", seed=2, changes=[ForkChange.of(each) for each in changes]),
        )  # fmt: skip
        courses.request(fork, fork.last_us, NewOutcomeCourse())
        await asyncio.sleep(0)  # The task begins.
        await courses.close()
        return follower.asked[0]

    assert shlex.join(asyncio.run(play())) == (
        "what-if --seed 2 --scenario ensemble --at 0s --at 8.000000s --kill peer-1 --for 10s --at 9.000000s "
        "--without f5 --futures 8 --every 2.000000s --json"
    )


def test_stopped_course_keeps_its_points(http: httpx.Client, run: str) -> None:
    location = f"{V1}/runs/{run}/outcome-course"
    assert http.post(location, json={"futures": 50, "moments": 40}).status_code == 202
    stopped = http.delete(location)
    assert (stopped.status_code, stopped.json()["state"], stopped.json()["error"]) == (200, "ended", "it was stopped")
    assert http.get(location).json() == stopped.json()


@pytest.mark.parametrize("body", [{"futures": 0}, {"futures": 51}, {"moments": 41}, {"every": 1}])
def test_unbounded_course_is_rejected(http: httpx.Client, run: str, body: dict[str, int]) -> None:
    assert http.post(f"{V1}/runs/{run}/outcome-course", json=body).status_code == 422


def test_run_that_is_no_seed_has_no_course(http: httpx.Client) -> None:
    assert http.post(f"{V1}/runs/live/outcome-course").status_code == 422
