"""On a standalone Spark cluster, the rows are the same as on a single machine, even if a worker is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.pipeline.campaign.test_on_spark import SMALL, kept
from tests.pipeline.standalone import Standalone, standalone
from zabka.cli.replay import replay
from zabka.pipeline.gold import NAMES
from zabka.pipeline.lake.commits import COMMITS

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
ROOT = Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 11)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("histories")
    for seed in SEEDS:
        assert replay(seed, "chaos", [], directory / f"seed-{seed}.jsonl") == 0
    return directory


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    with standalone(tmp_path / "spark") as started:
        yield started


def run(master: str, *arguments: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "zabka.cli.main", *arguments, "--master", master], cwd=directory, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def ended(job: subprocess.Popen[str]) -> str:
    output = job.communicate()[0]
    assert job.returncode == 0, output
    return output


def when(condition: Callable[[], bool], job: subprocess.Popen[str]) -> None:
    """Wait until the condition is true, and assert that the job still runs."""
    while not condition():
        assert job.poll() is None, job.communicate()[0]
        time.sleep(0.05)


def table(place: Path) -> list[dict[str, Any]]:
    return sorted(pq.read_table(place).to_pylist(), key=str)


def test_standalone_cluster_builds_the_same_tables(histories: Path, cluster: Standalone, tmp_path: Path) -> None:
    ended(run("local[1]", "pipeline", "tables", "--data", str(histories), "--out", "here", directory=tmp_path))
    job = run(cluster.master, "pipeline", "tables", "--data", str(histories), "--out", "there", directory=tmp_path)
    version = tmp_path / "there" / "_versions" / "000001"
    # At this time, some tables are written and others are not.
    when((version / "partition_leaderships" / "_SUCCESS").exists, job)
    cluster.kill_a_worker()
    ended(job)
    for name in NAMES:
        assert table(tmp_path / "there" / name) == table(tmp_path / "here" / name), name
    assert table(tmp_path / "there" / "controller_terms")


def test_rows_streamed_on_a_standalone_cluster_equal_local_rows(
    histories: Path, cluster: Standalone, tmp_path: Path
) -> None:
    ended(run("local[1]", "pipeline", "tables", "--data", str(histories), "--out", "here", directory=tmp_path))
    job = run(cluster.master, "pipeline", "stream", "--data", str(histories), "--out", "there", directory=tmp_path)
    lake = tmp_path / "there"
    # At this time, the batch is in the lake, but its tables are not written.
    when(lambda: any((lake / COMMITS).glob("*.json")), job)
    cluster.kill_a_worker()
    ended(job)
    for name in NAMES:
        assert table(lake / name) == table(tmp_path / "here" / name), name
    assert table(lake / "controller_terms")


def test_standalone_cluster_audits_the_same_rows(histories: Path, cluster: Standalone, tmp_path: Path) -> None:
    ended(run("local[1]", "pipeline", "audit", str(histories), "--out", "here", directory=tmp_path))
    job = run(cluster.master, "pipeline", "audit", str(histories), "--out", "there", directory=tmp_path)
    executors = tmp_path / "spark"
    when(lambda: any(executors.glob("work-*/*/*/environment")), job)
    cluster.kill_a_worker()
    ended(job)
    assert table(tmp_path / "there" / "audits") == table(tmp_path / "here" / "audits") != []


def test_standalone_cluster_executes_every_campaign_run_once(cluster: Standalone, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL.replace('"1-2"', '"1-4"'))
    for master, out in (("local[1]", "here"), (cluster.master, "there")):
        job = run(master, "campaign", "run", "small.toml", "--out", f"{out}/out", directory=tmp_path)
        if out == "there":
            when(lambda: bool(kept(tmp_path / "there")), job)
            cluster.kill_a_worker()
        ended(job)
    here, there = ({(r["point"], r["seed"]): json.dumps(r["figures"]) for r in kept(tmp_path / out)}
                   for out in ("here", "there"))  # fmt: skip
    assert here == there
    assert len(kept(tmp_path / "there")) == len(there) == 8
