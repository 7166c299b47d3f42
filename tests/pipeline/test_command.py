"""Errors of `zabka pipeline` if it cannot start, and the tables that it builds from one run's journal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.pipeline.folded import folded
from zabka.cli.pipeline import jobs_of_spark
from zabka.cli.replay import replay
from zabka.pipeline import versions
from zabka.pipeline.lake import commits

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("verb", ["tables", "stream"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "sc://host"], "sc://host is a Spark Connect server"),
        (["--data", "kafka://host/topic"], "names no topic. Use kafka://HOST:PORT/TOPIC"),
        (["--data", "kafka://host:9092"], "names no topic. Use kafka://HOST:PORT/TOPIC"),
        (["--data", "kafka://host:9092/topic"], "Name the directory for the tables with --out"),
        (["--data", ".", "--out", "s3a://bucket/tables"], "--out is a URI (s3a://…)"),
        (["--data", ".", "--master", "sc://host"], "sc://host is a Spark Connect server"),
    ],
)
def test_invalid_directory_or_master_is_rejected_before_start(
    verb: str, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seed-1.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(jobs_of_spark, [verb, *arguments])
    assert answer.exit_code == 2
    assert message in " ".join(answer.output.split())


def test_tables_of_another_file_system_need_the_out_option() -> None:
    answer = CliRunner().invoke(jobs_of_spark, ["tables", "--data", "s3a://bucket/journals"])
    assert (answer.exit_code, "Name the directory for the tables with --out" in " ".join(answer.output.split())) == (
        2,
        True,
    )


def test_stream_from_another_file_system_is_rejected(tmp_path: Path) -> None:
    answer = CliRunner().invoke(
        jobs_of_spark, ["stream", "--data", "hdfs://host:8020/journals", "--out", str(tmp_path)]
    )
    assert answer.exit_code == 2
    assert "hdfs://host:8020/journals: a stream reads a directory" in " ".join(answer.output.split())


def test_publishing_to_a_target_that_is_no_topic_is_rejected(tmp_path: Path) -> None:
    answer = CliRunner().invoke(jobs_of_spark, ["publish", "journals", "--data", str(tmp_path)])
    assert (answer.exit_code, "names no topic" in answer.output) == (2, True)


def test_invalid_spark_master_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("Could not parse Master URL: 'local[x]'\n\tat org.apache.spark.SparkContext")

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    (tmp_path / "seed-1.jsonl").touch()
    answer = CliRunner().invoke(jobs_of_spark, ["tables", "--data", str(tmp_path), "--master", "local[x]"])
    assert answer.exit_code == 2
    assert "no Spark session on local[x]: Could not parse Master URL: 'local[x]'" in " ".join(answer.output.split())
    assert "org.apache.spark" not in answer.output


def test_damaged_lake_commit_is_reported_in_one_sentence(tmp_path: Path) -> None:
    commit = tmp_path / "analytics" / "_commits" / "000000000.json"
    commit.parent.mkdir(parents=True)
    commit.write_text("{")
    answer = CliRunner().invoke(jobs_of_spark, ["vacuum", "--data", str(tmp_path)])
    assert answer.exit_code == 2
    assert "is not a commit of a lake" in " ".join(answer.output.split())


@pytest.mark.parametrize("verb", ["tables", "show", "stream", "status", "vacuum", "audit"])
def test_unreadable_directory_is_reported_in_one_sentence(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    # Raise the file system's error here, because the root user can read every directory.
    for asked in ("is_dir", "is_file", "exists", "is_symlink"):
        monkeypatch.setattr(Path, asked, refuse)
    of_verb = {"audit": [str(tmp_path)], "show": ["faults", "--data", str(tmp_path)]}
    arguments = of_verb.get(verb, ["--data", str(tmp_path)])
    answer = CliRunner().invoke(jobs_of_spark, [verb, *arguments])
    assert answer.exit_code == 2, answer.exception
    assert "Permission denied" in answer.output


@pytest.mark.timeout(600)
@pytest.mark.long
def test_ctrl_c_ends_a_stream_without_a_stack_trace(tmp_path: Path) -> None:
    assert replay(11, "chaos", [], tmp_path / "data" / "seed-11.jsonl") == 0
    command = [sys.executable, "-m", "zabka.cli.main", "pipeline", "stream", "--data", "data", "--follow"]
    output: list[str] = []
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    ) as stream:
        assert stream.stderr is not None
        for line in stream.stderr:
            output.append(line)
            if line.startswith("streaming"):
                # The query receives the signal while it starts or processes its first batch.
                stream.send_signal(signal.SIGINT)
    assert stream.returncode == 0
    stopping = output.index("stopping after the current batch\n")
    assert [line.split(":")[0] for line in output[stopping + 1 :]] in ([], ["batch 0"])
    assert not [line for line in output if "Traceback" in line or "Exception" in line or "\tat " in line]
    with versions.locked(tmp_path / "data" / "analytics"):
        pass


@pytest.mark.timeout(600)
@pytest.mark.long
def test_stream_ends_with_its_cluster_even_if_lines_arrive(tmp_path: Path) -> None:
    (data := tmp_path / "data").mkdir()
    line = b'{"node":"peer-1","node_seq":%d,"wall_us":%d,"mono_us":%d,"type":"epoch_accepted","accepted_epoch":1}\n'
    command = [sys.executable, "-m", "zabka.cli.main", "pipeline", "stream", "--data", "data", "--follow", "--while-up"]
    begin, number = time.monotonic(), 0
    with (
        subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}) as stream,
        (data / "seed-1.jsonl").open("ab", buffering=0) as file,
    ):
        while stream.poll() is None and time.monotonic() - begin < 200:
            number += 1
            file.write(line % (number, number, number))
            time.sleep(0.2)
        stream.kill()
    assert stream.returncode == 0
    assert sum(commit.rows for commit in commits.read(data / "analytics")) > 1


@pytest.mark.timeout(600)
@pytest.mark.long
def test_journal_of_a_replay_under_a_relative_path_can_be_read(tmp_path: Path) -> None:
    # In seed 11, the wall clocks would show a wrong duration of the first controller term: 108 ms instead of 12.2 s.
    assert replay(11, "chaos", [], tmp_path / "any-name") == 0
    command = [sys.executable, "-m", "zabka.cli.main", "pipeline", "tables", "--data", "any-name", "--out", "tables"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(tmp_path / "tables" / "controller_terms").to_pylist()
    expected = folded(tmp_path / "any-name")
    assert [
        (r["broker_id"], r["controller_epoch"], r["from_us"], r["ended_by"]) for r in rows
    ] == expected.controller_terms
