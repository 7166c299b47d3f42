"""What `zabka pipeline` says where it cannot begin, and what it makes of one run's journal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.pipeline.folded import folded
from tools.pipeline import jobs_of_spark
from tools.replay import replay


@pytest.mark.parametrize("verb", ["tables", "stream"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "s3a://bucket/journals"], "--data is a URI (s3a://…)"),
        (["--data", "hdfs://host:8020/journals"], "--data is a URI (hdfs://…)"),
        (["--data", "sc://host"], "--data is a URI (sc://…)"),
        (["--data", ".", "--out", "s3a://bucket/tables"], "--out is a URI (s3a://…)"),
        (["--data", ".", "--master", "sc://host"], "sc://host is a Spark Connect server"),
    ],
)
def test_what_is_no_directory_and_no_master_is_answered_before_spark_starts(
    verb: str, arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seed-1.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(jobs_of_spark, [verb, *arguments])
    assert answer.exit_code == 2
    assert said in " ".join(answer.output.split())


@pytest.mark.timeout(600)
@pytest.mark.long
def test_what_replay_writes_becomes_tables_from_a_relative_path(tmp_path: Path) -> None:
    # Seed 11's first reign is one of those that wall clocks told wrong: 108 ms in place of 12.2 s.
    assert replay(11, "chaos", [], tmp_path / "any-name") == 0
    command = [sys.executable, "-m", "tools.cli", "pipeline", "tables", "--data", "any-name", "--out", "tables"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(tmp_path / "tables" / "controller_reigns").to_pylist()
    wanted = folded(tmp_path / "any-name")
    assert [(r["broker_id"], r["controller_epoch"], r["from_us"], r["ended_by"]) for r in rows] == wanted.reigns
