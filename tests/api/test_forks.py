"""Forks of stored runs of seeds over HTTP: the same history up to an event, then a change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from zabka.api.scenarios.process import ScenarioProcess
from zabka.compose.launch import player_argv

V1 = "/api/v1"
ENDS_S = 240.0
SEED, SCENARIO = 2, "ensemble"


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with (
        Server(tmp_path_factory.mktemp("api"), player=ScenarioProcess(player_argv())) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client,
    ):
        yield client


def ended(http: httpx.Client, started: httpx.Response) -> dict[str, Any]:
    assert started.status_code == 202, started.text
    deadline = time.monotonic() + ENDS_S
    while (run := http.get(started.headers["location"]).json())["state"] != "ended":
        assert time.monotonic() < deadline, run
        time.sleep(0.05)
    found: dict[str, Any] = run
    return found


def forked(http: httpx.Client, run: str, **change: Any) -> dict[str, Any]:
    return ended(http, http.post(f"{V1}/runs/{run}/forks", json=change))


def events(http: httpx.Client, run: str, **asked: Any) -> list[dict[str, Any]]:
    answer = http.get(f"{V1}/runs/{run}/journal", params={"limit": 1000, **asked})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def faults(http: httpx.Client, run: str) -> list[dict[str, Any]]:
    return events(http, run, types="fault_injected")


@pytest.fixture(scope="module")
def run(http: httpx.Client) -> str:
    stored = ended(http, http.post(f"{V1}/seeds/{SEED}/runs", json={"scenario": SCENARIO}))
    assert stored["error"] is None
    found: str = stored["kept"]["run"]
    return found


def test_fork_is_stored_as_the_pair_of_its_run(http: httpx.Client, run: str) -> None:
    at = 200
    found = forked(http, run, at=at, kill=["peer-1"], lasts_ms=4000)
    assert found["error"] is None
    assert found["kept"] == {"run": run, "bug": found["id"]}
    fork = http.get(f"{V1}/runs/{found['id']}").json()
    assert (fork["kind"], fork["pair"], fork["variant"]) == ("seed", run, "peer-1 is killed for 4 s")
    assert fork["decisive_seq"] > at
    one, two = (events(http, each, limit=at) for each in (run, fork["id"]))
    assert len(one) == at
    assert one == two
    [death] = [each for each in faults(http, fork["id"]) if each["fault_id"] == "w1"]
    assert (death["kind"], death["target"]) == ("crash", "peer-1")


def test_fork_without_a_fault_lacks_exactly_that_fault(http: httpx.Client, run: str) -> None:
    first, second, left_out = (each["fault_id"] for each in faults(http, run)[:3])
    found = forked(http, run, without=[left_out])
    assert found["error"] is None
    ids = [each["fault_id"] for each in faults(http, found["id"])]
    assert ids[:2] == [first, second]
    assert left_out not in ids


def test_fork_can_have_another_setting_from_the_start(http: httpx.Client, run: str) -> None:
    found = forked(http, run, settings={"tickTime": "700"})
    assert found["error"] is None
    fork = http.get(f"{V1}/runs/{found['id']}").json()
    assert (fork["pair"], fork["variant"]) == (run, "tickTime=700 from the start")
    configs = [event["config"]["tickTime"] for event in events(http, fork["id"], types="node_started")]
    assert configs and set(configs) == {"700"}
    at_a_moment = http.post(f"{V1}/runs/{run}/forks", json={"at": 200, "settings": {"tickTime": "700"}})
    assert (at_a_moment.status_code, "Change it from the start" in at_a_moment.json()["detail"]) == (422, True)


def test_fork_is_forked_again_after_its_change(http: httpx.Client, run: str) -> None:
    first = forked(http, run, at=200, kill=["peer-1"], lasts_ms=1000)["id"]
    at = 500
    again = forked(http, first, at=at, pause=["peer-2"], lasts_ms=500)
    assert (again["error"], again["kept"]) == (None, {"run": first, "bug": again["id"]})
    about = http.get(f"{V1}/runs/{again['id']}").json()
    assert (about["pair"], about["variant"]) == (first, "peer-1 is killed for 1 s, then peer-2 is paused for 0.5 s")
    assert events(http, first, limit=at) == events(http, again["id"], limit=at)
    added = [(each["fault_id"], each["kind"], each["target"]) for each in faults(http, again["id"])
             if each["requester"] == "what-if"]  # fmt: skip
    assert added == [("w1", "crash", "peer-1"), ("w2", "pause", "peer-2")]
    one, two = about["origin"]["changes"]
    assert [one] == http.get(f"{V1}/runs/{first}").json()["origin"]["changes"]
    assert (one["kill"], two["pause"], two["lasts_ms"]) == (["peer-1"], ["peer-2"], 500)
    assert [each["at_us"] - 1 for each in (one, two)] == [
        events(http, run)[199]["wall_us"],
        events(http, first)[499]["wall_us"],
    ]
    early = http.post(f"{V1}/runs/{again['id']}/forks", json={"at": 300, "kill": ["peer-3"]})
    assert (early.status_code, "lies before the last change" in early.json()["detail"]) == (422, True)


def test_impossible_change_is_the_error_of_the_fork(http: httpx.Client, run: str) -> None:
    found = forked(http, run, without=["f9999"])
    assert "no fault of the run is f9999" in found["error"]
    assert found["kept"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"kill": ["peer-1"]}, 422),
        ({"at": 5, "kill": ["--out"]}, 422),
        ({"settings": {"no.such.key": "1"}}, 422),
        ({"at": 10**9, "kill": ["peer-1"]}, 404),
    ],
)
def test_invalid_fork_is_rejected(http: httpx.Client, run: str, body: dict[str, Any], status: int) -> None:
    assert http.post(f"{V1}/runs/{run}/forks", json=body).status_code == status


def test_run_that_is_no_seed_cannot_be_forked(http: httpx.Client) -> None:
    answer = http.post(f"{V1}/runs/live/forks", json={"without": ["f1"]})
    assert (answer.status_code, "cannot be forked" in answer.json()["detail"]) == (422, True)
    assert http.post(f"{V1}/runs/r0/forks", json={"without": ["f1"]}).status_code == 404
