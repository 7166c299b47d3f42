"""Forecasts of the death of a live node: distributions over futures of a mirrored world."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from tests.simulation.live_states import ORDERS, SINGLE, lagging, live
from zabka.cli import forecast as forecast_module
from zabka.cli.forecast import LAST_S, Forecast, Outcome, Times, forecasts, times
from zabka.cli.what_if import command
from zabka.simulation.mirror.live_state import LiveState, NoMirror

APP = typer.Typer()
APP.command()(command)
PLENTY_S = 240.0


def forecast(state: LiveState, killed: str, acks: int = -1, count: int = 3, jobs: int = 2) -> Forecast:
    *_, last = forecasts(state, killed, acks, budget_s=PLENTY_S, jobs=jobs, count=count)
    assert last.ended
    assert last.futures == count
    assert last.problems == 0
    return last


def test_controllers_death_differs_from_a_followers() -> None:
    controller, follower = (forecast(live(), killed) for killed in ("broker-3", "broker-1"))
    assert follower.controller == Times(0, 0, 0, 0)
    assert controller.controller.median_ms is not None
    # The session of the dead controller must expire first: 6 s after its last heartbeat, at most a third of that ago.
    assert 3_500 < controller.controller.median_ms < 8_000
    assert controller.controller.never == 0
    assert controller.writable.never == follower.writable.never == 0
    assert controller.lost.count == follower.lost.count == 0


def test_single_replica_is_not_writable_until_the_node_returns() -> None:
    found = forecast(live(ORDERS, SINGLE), "broker-2")
    assert found.unwritable == {"single-0": 3}
    assert found.writable == Times(None, None, None, 3)
    assert forecast(live(ORDERS, SINGLE), "broker-1", count=1).unwritable == {}


def test_unclean_election_loses_the_lag_in_each_future() -> None:
    unclean = {"unclean.leader.election.enable": "true"}
    found = forecast(live(lagging(80, **unclean)), "broker-2")
    assert found.lost.count == 3
    assert found.unwritable == {}
    clean = forecast(live(lagging(80)), "broker-2")
    assert clean.lost.count == 0
    assert clean.unwritable == {"lagging-0": 3}


def test_ensembles_leader_has_a_successor_and_a_second_death_none() -> None:
    found = forecast(live(), "peer-2", count=2)
    assert found.quorum.never == 0
    assert found.controller == Times(0, 0, 0, 0)
    peers = tuple(msgspec.structs.replace(each, process="down") if each.id == 1 else each for each in live().peers)
    assert forecast(live(peers=peers), "peer-2", count=2).quorum.never == 2


def test_same_futures_have_the_same_outcomes_in_any_processes() -> None:
    one, two = (forecast(live(), "broker-3", count=4, jobs=jobs) for jobs in (1, 3))
    assert msgspec.structs.replace(one, took_ms=0) == msgspec.structs.replace(two, took_ms=0)
    assert one.controller.median_ms != one.controller.longest_ms


def children() -> set[str]:
    """Return the ids of this process's children, also of those that nobody has waited for."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def test_stopped_forecast_leaves_no_process() -> None:
    before = children()
    running = forecasts(live(), "broker-3", -1, budget_s=PLENTY_S, jobs=2, count=50)
    assert next(running).futures == 1
    assert children() > before
    running.close()
    assert children() == before


def test_budget_without_time_for_a_future_is_an_error() -> None:
    with pytest.raises(NoMirror, match="Allow more time"):
        list(forecasts(live(), "broker-3", -1, budget_s=0, jobs=1, count=5))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time in seconds that forecasts read. Only tests change it."""
    now_s = [0.0]
    monkeypatch.setattr(forecast_module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    return now_s


def slow_second_future(monkeypatch: pytest.MonkeyPatch, released: Path) -> Iterator[Forecast]:
    """Begin a forecast whose second future recovers slowly: it ends only when the file `released` exists."""

    def play(_mirror: object, _aftermath: object, _killed: str, number: int) -> Outcome:
        while number == 2 and not released.exists():
            time.sleep(0.01)
        return Outcome(0, 9_999 if number == 2 else 1, 1, 1, (), 0)

    monkeypatch.setattr(forecast_module, "play", play)
    return forecasts(live(), "broker-3", -1, budget_s=PLENTY_S, jobs=2, count=50)


def test_future_that_runs_at_the_deadline_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    running = slow_second_future(monkeypatch, tmp_path / "released")
    assert next(running).controller.longest_ms == 1
    clock[0] += PLENTY_S
    (tmp_path / "released").touch()
    *_, last = running
    assert (last.ended, last.futures, last.controller.longest_ms) == (True, 2, 9_999)
    assert not any("did not end in time" in limit for limit in last.limits)


def test_future_that_does_not_end_in_time_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    before = children()
    running = slow_second_future(monkeypatch, tmp_path / "released")
    assert next(running).futures == 1
    clock[0] += PLENTY_S + LAST_S
    *_, last = running
    assert (last.ended, last.futures) == (True, 1)
    assert last.limits[0].startswith("1 future did not end in time")
    assert children() == before


def test_percentiles_count_the_futures_that_never_got_there() -> None:
    assert times([5, None, 1, 3]) == Times(3, None, 5, 1)
    assert times([7]) == Times(7, 7, 7, 0)
    assert times([None, None]) == Times(None, None, None, 2)
    assert times([*range(1, 11)]) == Times(5, 9, 10, 0)


def test_command_prints_the_forecast_of_a_state(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(msgspec.json.encode(live(ORDERS, SINGLE)))
    asked = ["--state", str(file), "--kill", "broker-2", "--futures", "2", "--budget", "200s"]
    done = CliRunner().invoke(APP, asked)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == (
        "if broker-2 died (state read at 2023-11-14 22:13:20+00:00, 2 futures, producers with acks=all)"
    )
    assert "  acknowledged records are lost             0 of 2 futures (0 to 66 %)" in lines
    assert "  a controller exists after                 no interruption" in lines
    assert "  single-0 is not writable until broker-2 returns, in 2 of 2 futures" in lines
    assert "  Consumer groups, transactions and internal topics." in lines


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--kill", "broker-1"], "give either a seed"),
        (["--on", "http://127.0.0.1:1", "--seed", "1", "--kill", "broker-1"], "give either a seed"),
        (["--on", "http://127.0.0.1:1"], "--kill is missing"),
        (["--on", "http://127.0.0.1:1", "--kill", "broker-1"], "there is no cluster at"),
        (["--on", "http://127.0.0.1:1", "--kill", "broker-1", "--at", "3s"], "are for a seed"),
        (["--state", "/nowhere", "--kill", "broker-1"], "--state /nowhere"),
        (["--state", "-", "--kill", "broker-1", "--acks", "0"], "all or 1 is wanted"),
        (["--state", "-", "--kill", "broker-1", "--budget", "1h"], "--budget"),
    ],
)
def test_impossible_question_is_refused_with_a_reason(arguments: list[str], reason: str) -> None:
    done = CliRunner().invoke(APP, arguments)
    assert done.exit_code == 2
    assert reason in done.output
