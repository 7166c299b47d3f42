"""A campaign in several local processes yields the same rows as in one process and on Spark.

Its errors are reported clearly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from zabka.cli import campaign
from zabka.cli.campaign_processes import process_players
from zabka.pipeline.campaign.engine import Keep
from zabka.pipeline.campaign.play import Run, decoded, row
from zabka.pipeline.campaign.spark_players import spark_players

SHORT = ("faults.ms=100", "drawn.topics=false")
RUNS = [Run(point, seed, "calm", (*SHORT, f"zookeeper.session.timeout.ms={2000 * (point + 1)}"))
        for seed in (1, 2) for point in (0, 1)]  # fmt: skip
SMALL = """
question = "Which?"
seeds = "1-2"
scenario = "calm"
decide = "failover_ms"
[settings]
"faults.ms" = 100
"drawn.topics" = false
[grid]
"zookeeper.session.timeout.ms" = [2000, 4000]
"""


def without_times(line: bytes) -> dict[str, Any]:
    """Return a result row without its CPU time and the place where it ran, which differ from run to run."""
    found: dict[str, Any] = msgspec.to_builtins(decoded(line))
    return {name: value for name, value in found.items() if name not in ("cpu_s", "played_at")}


@pytest.mark.long
def test_worker_processes_return_the_same_rows_in_order() -> None:
    kept: list[bytes] = []
    process_players(2)(RUNS, kept.append)
    expected = [without_times(row(msgspec.json.encode(run))) for run in RUNS]
    assert [without_times(line) for line in kept] == expected
    assert [(each["point"], each["seed"]) for each in expected] == [(0, 1), (1, 1), (0, 2), (1, 2)]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_campaign_on_spark_returns_the_same_rows_as_locally(tmp_path: Path) -> None:
    local: list[bytes] = []
    process_players(2)(RUNS, local.append)
    of_spark: list[bytes] = []
    with spark_players("local[2]", tmp_path) as players:
        players(RUNS, of_spark.append)
    assert sorted(map(str, map(without_times, of_spark))) == sorted(map(str, map(without_times, local)))


def test_campaign_without_a_spark_master_does_not_need_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "small.toml").write_text(SMALL)
    arguments = ["run", str(tmp_path / "small.toml"), "--jobs", "1", "--out", str(tmp_path / "out")]
    answer = CliRunner().invoke(campaign.app, arguments)
    assert (answer.exit_code, answer.exception) == (0, None)
    rows = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    assert [(each["point"], each["seed"]) for each in rows] == [(0, 1), (1, 1), (0, 2), (1, 2)]
    assert (tmp_path / "out" / "report.html").is_file()


def test_process_count_option_with_a_spark_master_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    answer = CliRunner().invoke(
        campaign.app, ["run", str(tmp_path / "small.toml"), "--jobs", "2", "--master", "local[2]"]
    )
    assert answer.exit_code == 2
    assert "--jobs is for local processes, and --master for Spark" in " ".join(answer.output.split())


def test_killed_worker_process_ends_the_campaign_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(runs: Sequence[Run], keep: Keep) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr(campaign, "process_players", lambda jobs: killed)
    (tmp_path / "small.toml").write_text(SMALL)
    answer = CliRunner().invoke(campaign.app, ["run", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")])
    assert answer.exit_code == 2
    assert "was killed before it had finished" in answer.output
    assert "The same command continues" in answer.output
