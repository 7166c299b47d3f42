"""`zabka simulate` and `zabka replay`, executed as a user would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.simulation import injected
from zabka.cli import outage_library, replay
from zabka.cli import simulate as cli
from zabka.journal.messages import read_message
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import CoreScenario
from zabka.simulation.settings import BadSetting, world_settings


def test_passing_seeds_exit_0_and_report_the_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.simulate("0-1", "chaos", [], 1, False) == 0
    output = capsys.readouterr().out
    assert "2 seeds, 0 with violations" in output
    assert "simulated hours" in output and "core-hours" in output and "faults injected" in output


def test_violation_exits_1_and_prints_its_replay_command(capsys: pytest.CaptureFixture[str]) -> None:
    with injected.INJECTED["ack before fsync"]():
        assert cli.simulate("0-1", "ensemble", ["tickTime=500"], 1, False) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "replay: zabka replay --seed" in line]
    assert lines
    assert all("--set tickTime=500" in line for line in lines)


def test_json_output_contains_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.simulate("4-5", "calm", [], 2, True) == 0
    result = json.loads(capsys.readouterr().out)
    assert [run["seed"] for run in result["runs"]] == [4, 5]
    assert result["violated"] == 0
    assert result["virtual_s"] > 60


@pytest.mark.parametrize(
    "run",
    [
        lambda out: replay.replay(1, "ensemble", [], out, out.parent / "." / out.name),
        lambda out: outage_library.run(["zookeeper-4646"], None, outage_library.PlayOptions(out=out, messages=out)),
    ],
)
def test_journal_and_messages_must_be_written_to_different_files(
    run: Callable[[Path], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "both.jsonl"
    assert run(out) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", f"--out and --messages both name {out}: the journal would be overwritten\n")
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"seed": 1, "story": True}, "--story"), ({"choices": Path("t"), "set_": ["a=b"]}, "--set")],
)
def test_options_without_effect_are_rejected(
    options: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as left:
        replay.command(**options)
    assert left.value.exit_code == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    ("seeds", "scenario", "settings", "message"),
    [
        ("many", "chaos", [], "--seeds takes A-B"),
        ("9-3", "chaos", [], "smaller than the first"),
        ("²", "chaos", [], "--seeds takes A-B"),
        (f"0-{10**19}", "chaos", [], "too many seeds"),
        ("1", "nonsense", [], "no scenario 'nonsense'"),
        ("1", "chaos", ["tickTime"], "KEY=VALUE"),
        ("1", "chaos", ["tickTime=soon"], "positive whole number"),
        ("1", "chaos", ["no.such.key=1"], "no.such.key"),
    ],
)
def test_bad_arguments_are_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], seeds: str, scenario: str, settings: list[str], message: str
) -> None:
    assert cli.simulate(seeds, scenario, settings, 1, False) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_replayed_journal_can_be_read_back(tmp_path: Path) -> None:
    from zabka.journal.reader import BadLine, read_file

    out = tmp_path / "seed.jsonl"
    assert replay.replay(2, "chaos", [], out) == 0
    bad: list[BadLine] = []
    entries = list(read_file(out, bad))
    assert bad == []
    assert {entry.node for entry in entries} >= {"peer-1", "broker-1", "world"}


def test_replay_writes_messages_only_with_a_simulated_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = tmp_path / "seed.messages.jsonl"
    assert replay.replay(1, "ensemble", [], tmp_path / "seed.jsonl", messages) == 0
    recorded = [read_message(line) for line in messages.read_bytes().splitlines()]
    assert {"election", "discovery", "synchronisation", "broadcast"} <= {message.group for message in recorded}
    bare = next(name for name, scenario in LIBRARY.items() if isinstance(scenario, CoreScenario))
    assert replay.replay(1, bare, [], None, messages) == cli.USAGE
    assert f"--messages: {bare} has no simulated network" in capsys.readouterr().err


def test_replay_of_a_script_writes_simulated_messages_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = tmp_path / "play.messages.jsonl"
    assert outage_library.run(["kafka-1211"], None, outage_library.PlayOptions(messages=messages)) == 0
    assert b'"LeaderAndIsr"' in messages.read_bytes()
    bare = next(name for name, scenario in LIBRARY.items() if isinstance(scenario, CoreScenario))
    assert outage_library.run([bare], None, outage_library.PlayOptions(messages=messages)) == cli.USAGE
    assert "scenarios of the bare protocol have no messages" in capsys.readouterr().err


def test_library_scenarios_run_over_seeds_and_can_be_replayed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.simulate("0-4", "zookeeper-710", [], 1, False) == 0
    assert "5 seeds, 0 with violations" in capsys.readouterr().out
    written = []
    for name in ("first", "second"):
        assert replay.replay(3, "zookeeper-710", [], tmp_path / name) == 0
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1] != b""


def test_set_option_error_for_a_script_names_the_right_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.simulate("0-4", "kip-966", ["min.insync.replicas=1"], 1, False) == 2
    assert "zabka scenarios run kip-966 --set" in capsys.readouterr().err


def test_kafka_and_zookeeper_keys_are_passed_to_the_simulation() -> None:
    settings = world_settings(["tickTime=250", "unclean.leader.election.enable=true", "brokers=5"])
    assert (settings.tick_time_ms, settings.brokers) == (250, 5)
    assert settings.broker_keys == {"unclean.leader.election.enable": "true"}
    with pytest.raises(BadSetting):
        world_settings(["min.insync.replicas=never"])
