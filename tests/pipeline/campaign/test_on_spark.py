"""A campaign on a Spark cluster without zabka on its executors, and a campaign whose driver is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SMALL = """
question = "Which?"
seeds = "1-2"
decide = "failover_ms"
[settings]
"faults.kinds" = "crash_broker"
"faults.ms" = 8000
"faults.gap.ms" = 4000
"drawn.topics" = false
[grid]
"zookeeper.session.timeout.ms" = [2000, 6000]
"""
pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def start(directory: Path, master: str) -> subprocess.Popen[str]:
    (directory / "small.toml").write_text(SMALL)
    command = [
        sys.executable,
        "-m",
        "zabka.cli.main",
        "campaign",
        "run",
        "small.toml",
        "--master",
        master,
        "--out",
        "out",
    ]
    return subprocess.Popen(
        command, cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def kept(directory: Path) -> list[dict[str, object]]:
    place = directory / "out" / "runs.jsonl"
    lines = place.read_bytes().split(b"\n")[:-1] if place.exists() else []
    return [json.loads(line) for line in lines]


def test_spark_executors_need_no_zabka_installation(tmp_path: Path) -> None:
    done = start(tmp_path, "local-cluster[1,2,1024]")
    output = done.communicate()[0]
    assert done.returncode == 0, output
    rows = kept(tmp_path)
    assert len(rows) == 4
    # The runs used the code in the archive, which was unpacked in an executor's working directory.
    assert all("/environment/site" in str(row["played_at"]) for row in rows)


def test_restarted_driver_repeats_no_run(tmp_path: Path) -> None:
    first = start(tmp_path, "local[1]")
    while not kept(tmp_path):
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.05)
    first.kill()
    first.wait()
    assert first.stdout is not None
    first.stdout.close()
    before = kept(tmp_path)
    assert 1 <= len(before) < 4
    second = start(tmp_path, "local[1]")
    output = second.communicate()[0]
    assert second.returncode == 0, output
    after = kept(tmp_path)
    assert after[: len(before)] == before
    assert sorted((row["point"], row["seed"]) for row in after) == [(0, 1), (0, 2), (1, 1), (1, 2)]
