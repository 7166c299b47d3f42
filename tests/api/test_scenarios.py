"""The outage library over HTTP: the list of scripts, and runs executed one at a time, each in its own process."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import HERE, FakePlayer, Server
from zabka.api.http.problems import Problem
from zabka.api.runs.kept import KeptRuns
from zabka.api.scenarios.models import NewScenarioRun, NewSeedRun, variant_label
from zabka.api.scenarios.process import PlayerFailed, ScenarioProcess, Watch
from zabka.api.scenarios.runs import REMEMBERED_MAX, WAITING_MAX, ScenarioRuns
from zabka.compose.launch import player_argv

V1 = "/api/v1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=10) as client:
        yield client


def ended(http: httpx.Client, started: httpx.Response) -> dict[str, Any]:
    deadline = time.monotonic() + 10
    while (run := http.get(started.headers["location"]).json())["state"] != "ended":
        assert time.monotonic() < deadline, run
        time.sleep(0.005)
    found: dict[str, Any] = run
    return found


def test_script_list_has_verdicts_and_shows_which_can_run_live(http: httpx.Client) -> None:
    empty_isr, broken, _ = http.get(f"{V1}/scenarios").json()

    assert (empty_isr["name"], empty_isr["expected"], empty_isr["live"]) == ("kafka-708", "held", True)
    outage = {"settings": {"zabka.historical": "empty-isr"}, "shows": "LeaderInIsr", "label": "with its bug"}
    assert empty_isr["outage"] == outage
    assert empty_isr["switches"] == ["empty-isr"]
    assert (broken["outage"], broken["live"], broken["live_obstacle"]) == (
        None, False, "it chooses when a disk answers"
    )  # fmt: skip


def test_run_is_accepted_and_ends_with_verdict_and_story(server: Server, http: httpx.Client) -> None:
    body = {"seed": 7, "switches": ["no-broker-epoch"], "settings": {"tickTime": 250}}
    started = http.post(f"{V1}/scenarios/kafka-708/runs", json=body)
    assert started.status_code == 202
    assert started.headers["location"] == f"{V1}/scenario-runs/{started.json()['id']}"
    assert (started.json()["scenario"], started.json()["verdict"]) == ("kafka-708", None)

    run = ended(http, started)
    command = (
        "scenarios",
        "run",
        "kafka-708",
        "--seed",
        "7",
        "--set",
        "tickTime=250",
        "--set",
        "zabka.historical=no-broker-epoch",
    )
    assert server.player.asked[-1] == (*command, "--json")
    assert run["replay"] == " ".join(("zabka", *command))
    assert (run["verdict"], run["expected"], run["as_expected"]) == ("held", "held", True)
    assert (run["virtual_ms"], run["journal_sha256"], run["error"]) == (6700, "ab" * 32, None)
    assert run["story"] == [{"at_ms": 1171, "who": "script", "text": "kill second (broker-1)"}]
    assert run["outage"]["problems"] == ["LeaderInIsr: orders-0: the ISR is empty"]


def test_failed_run_reports_its_error_and_the_next_run_starts(http: httpx.Client) -> None:
    failed, fine = (http.post(f"{V1}/scenarios/{name}/runs") for name in ("broken", "kafka-708"))

    run = ended(http, failed)
    assert (run["verdict"], run["as_expected"]) == (None, None)
    assert run["error"] == "the player exited with code -9: it printed nothing"
    assert ended(http, fine)["verdict"] == "held"


@pytest.mark.parametrize(
    ("name", "body", "status", "message"),
    [
        ("nope", {}, 404, "there is no scenario nope"),
        ("../etc.json", {}, 404, ""),
        ("kafka-708", {"seed": -1}, 422, "seed"),
        ("kafka-708", {"switches": ["no-such"]}, 422, "switches"),
        ("kafka-708", {"settings": {"no.such.key": "1"}}, 422, "no.such.key"),
        ("kafka-708", {"settings": {"peers": "5"}}, 422, "their number cannot be set"),
        ("kafka-708", {"settings": {"zabka.historical": "empty-isr"}, "switches": ["empty-isr"]}, 422, "not both"),
        ("broken", {"switches": ["empty-isr"]}, 422, "no settings"),
        ("kafka-708", {"faster": True}, 422, "faster"),
    ],
)
def test_invalid_run_is_rejected_before_it_starts(
    http: httpx.Client, name: str, body: dict[str, Any], status: int, message: str
) -> None:
    answer = http.post(f"{V1}/scenarios/{name}/runs", json=body)

    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert message in answer.json()["detail"]
    assert http.get(f"{V1}/scenario-runs/nope").status_code == 404


def test_run_queue_is_bounded_and_cancelled_at_api_shutdown(tmp_path: Path) -> None:
    with Server(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        first = http.post(f"{V1}/scenarios/endless/runs")
        while http.get(first.headers["location"]).json()["state"] != "running":
            time.sleep(0.005)
        waiting = [http.post(f"{V1}/scenarios/kafka-708/runs") for _ in range(WAITING_MAX)]
        assert [answer.json()["state"] for answer in waiting] == ["queued"] * WAITING_MAX
        assert http.post(f"{V1}/scenarios/kafka-708/runs").status_code == 409
    assert server.player.cancelled.is_set()


def test_bug_in_the_scenario_process_ends_only_its_own_run(tmp_path: Path) -> None:
    class Mistaken(FakePlayer):
        async def ask(self, *arguments: str, patience_s: float = 0, watch: Watch | None = None) -> bytes:
            if "kafka-708" in arguments:
                raise ZeroDivisionError("by mistake")
            return await super().ask(*arguments)

    async def play() -> list[tuple[str, str | None]]:
        runs = ScenarioRuns(Mistaken(), KeptRuns(tmp_path), HERE)
        playing = asyncio.create_task(runs.run())
        ids = [(await runs.request(name, NewScenarioRun())).id for name in ("kafka-708", "broken")]
        while runs.get(ids[-1]).state != "ended":
            assert not playing.done()
            await asyncio.sleep(0)
        playing.cancel()
        return [(run.state, run.error) for run in map(runs.get, ids)]

    mistaken, other = asyncio.run(play())
    assert mistaken == ("ended", "internal error of the player: ZeroDivisionError('by mistake'); see the API's log")
    assert other == ("ended", "the player exited with code -9: it printed nothing")


def test_only_the_latest_scenario_runs_are_listed(tmp_path: Path) -> None:
    async def play_many() -> list[str]:
        runs = ScenarioRuns(FakePlayer(), KeptRuns(tmp_path), HERE)
        playing = asyncio.create_task(runs.run())
        ids = []
        for _ in range(REMEMBERED_MAX + 5):
            ids.append((await runs.request("kafka-708", NewScenarioRun())).id)
            for _ in range(10):
                await asyncio.sleep(0)
            assert runs.get(ids[-1]).state == "ended"
        playing.cancel()
        known = []
        for run_id in ids:
            try:
                known.append(runs.get(run_id).id)
            except Problem as problem:
                assert problem.status == 404
        assert known == ids[-REMEMBERED_MAX:]
        return known

    assert len(asyncio.run(play_many())) == REMEMBERED_MAX


def test_script_runs_in_its_own_process() -> None:
    answer = json.loads(asyncio.run(ScenarioProcess(player_argv()).ask("scenarios", "run", "zookeeper-1549", "--json")))

    [run] = answer["runs"]
    assert (run["held"], run["outage"], run["played"]["problems"]) == (True, None, [])
    assert run["played"]["story"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import time; time.sleep(60)", "did not end within 0 s"),
        ("raise SystemExit('out of memory')", "exited with code 1: out of memory"),
        ("import os; os.abort()", "exited with code -6: it printed nothing"),
    ],
)
def test_failure_of_the_scenario_process_is_reported_in_one_line(code: str, message: str) -> None:
    patience_s = 0.1 if "sleep" in code else 10
    with pytest.raises(PlayerFailed, match=message):
        asyncio.run(ScenarioProcess([sys.executable, "-S", "-c", code]).ask("list", patience_s=patience_s))


def test_scenario_process_inherits_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZABKA_SEED", "7")
    monkeypatch.setenv("NO_OPTION", "kept")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = json.loads(asyncio.run(ScenarioProcess([sys.executable, "-S", "-c", code]).ask("list")))
    assert [name for name in seen if name.startswith("ZABKA_")] == ["ZABKA_PARENT"]
    assert seen["NO_OPTION"] == "kept"


AFTERWARDS = """
import signal, sys, time
def end(*_):
    open(sys.argv[1], "w").write("put right")
    sys.stdout.write("[]")
    sys.stdout.flush()
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
open(sys.argv[1], "w").write("broken")
time.sleep(60)
"""


def test_scenario_process_can_repair_the_cluster_after_a_timeout(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"
    asked = ScenarioProcess([sys.executable, "-S", "-c", AFTERWARDS]).ask(str(cluster), patience_s=2)

    assert asyncio.run(asked) == b"[]"
    assert cluster.read_text() == "put right"


def await_broken(cluster: Path) -> None:
    while not (cluster.exists() and cluster.read_text()):
        time.sleep(0.01)


def test_scenario_process_can_repair_the_cluster_if_cancelled(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"

    async def cancel() -> None:
        asking = asyncio.create_task(ScenarioProcess([sys.executable, "-S", "-c", AFTERWARDS]).ask(str(cluster)))
        await asyncio.to_thread(await_broken, cluster)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(cancel())
    assert cluster.read_text() == "put right"


def test_scenario_process_cancelled_at_start_can_repair_cluster(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"

    async def cancel() -> None:
        asking = asyncio.create_task(ScenarioProcess([sys.executable, "-S", "-c", AFTERWARDS]).ask(str(cluster)))
        # Start the process, then block the event loop. The request is cancelled before the loop has processed the
        # start.
        for _ in range(2):
            await asyncio.sleep(0)
        await_broken(cluster)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(cancel())
    assert cluster.read_text() == "put right"


def test_script_runs_on_the_live_cluster_on_request(server: Server, http: httpx.Client) -> None:
    run = ended(http, http.post(f"{V1}/scenarios/kafka-708/runs", json={"live": True}))

    assert server.player.asked[-1] == ("scenarios", "run", "kafka-708", "--on", HERE.url, "--progress", "--json")
    assert (run["live"], run["verdict"]) == (True, "held")


@pytest.mark.parametrize("more", [{"keep": True}, {"seed": 7}, {"settings": {"tickTime": "250"}}])
def test_live_script_with_changed_settings_is_rejected(http: httpx.Client, more: dict[str, Any]) -> None:
    refused = http.post(f"{V1}/scenarios/kafka-708/runs", json={"live": True, **more})
    assert refused.status_code == 422
    assert "a live run" in refused.text


def test_live_run_of_a_script_that_cannot_run_live_is_rejected(http: httpx.Client) -> None:
    refused = http.post(f"{V1}/scenarios/broken/runs", json={"live": True})
    assert refused.status_code == 422
    assert refused.json()["detail"] == "broken cannot run on this cluster: it chooses when a disk answers"


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({"zabka.historical": "high-watermark-under-min-isr", "acks": "1"}, "with its bug"),
        ({"unclean.leader.election.enable": "true"}, "with unclean.leader.election.enable=true"),
        ({"acks": "1"}, "with acks=1"),
        ({}, "with the mistake"),
    ],
)
def test_run_with_a_changed_setting_is_not_reported_as_a_bug(settings: dict[str, str], label: str) -> None:
    assert variant_label(settings) == label


DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write("broken")
time.sleep(60)
"""


def test_killed_scenario_process_is_not_reported_as_stopped(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"

    async def stop() -> None:
        watch = Watch()
        process = ScenarioProcess([sys.executable, "-S", "-c", DEAF], put_right_s=0.1)
        asking = asyncio.create_task(process.ask(str(cluster), watch=watch))
        await asyncio.to_thread(await_broken, cluster)
        watch.stopped.set()
        await asking

    with pytest.raises(PlayerFailed, match="did not restore the cluster"):
        asyncio.run(stop())


def test_stopped_run_of_a_seed_ends_and_leaves_the_queue(tmp_path: Path) -> None:
    async def play() -> tuple[str | None, list[str]]:
        runs = ScenarioRuns(ScenarioProcess([sys.executable, "-S", "-c", "import time; time.sleep(60)"]),
                            KeptRuns(tmp_path), HERE)  # fmt: skip
        playing = asyncio.create_task(runs.run())
        first = runs.request_seed(1, NewSeedRun())
        while runs.get(first.id).state == "queued":
            assert not playing.done()
            await asyncio.sleep(0)
        waiting = [runs.request_seed(seed, NewSeedRun()) for seed in range(WAITING_MAX)]
        with pytest.raises(Problem, match="runs are waiting"):
            runs.request_seed(99, NewSeedRun())
        stopped = [(await runs.stop(run.id)).state for run in waiting]
        last = runs.request_seed(99, NewSeedRun())
        await runs.stop(first.id)
        while runs.get(first.id).state != "ended" or runs.get(last.id).state == "queued":
            assert not playing.done()
            await asyncio.sleep(0.001)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        return runs.get(first.id).error, stopped

    assert asyncio.run(play()) == ("it was stopped", ["ended"] * WAITING_MAX)
