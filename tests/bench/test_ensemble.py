"""The ensemble benchmark: options, errors for missing tools, and short runs with real peers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bench import ensemble
from bench.__main__ import app_of
from bench.ensemble import WORKS, Bench, Plan, Sample, build_zkload, check_out, parse_works
from bench.results import Side
from bench.run import INTERRUPTED, bench_run
from bench.servers import CannotMeasure, Shape

ROOT = Path(__file__).resolve().parents[2]
SMOKE_TIMEOUT_S = 120


@pytest.fixture
def compiler() -> None:
    """Skip the test if the load generator cannot be built; fail in CI."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        reason = "no C compiler (cc, gcc or clang) to build the load generator with"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def test_requested_workloads_are_listed_once_in_table_order() -> None:
    assert [work.name for work in parse_works("get, set,get")] == ["set", "get"]


@pytest.mark.parametrize("text", ["set,foo", "", " , "])
def test_unknown_workload_error_lists_the_known_workloads(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="the works are set, create, get, mix, set64, set1"):
        parse_works(text)


@pytest.mark.parametrize(
    "options",
    [
        ["--works", "foo"], ["--seconds", "0"], ["--rounds", "0"], ["--only", "etcd"], ["--grown", "-1"],
        ["--data", "/there/is/no/such/folder"], ["--unknown"], ["--base", "HEAD", "--works", "foo"],
    ],
)  # fmt: skip
def test_bad_option_is_rejected_before_anything_starts(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble, "build_zkload", lambda directory: pytest.fail("the run started"))
    answer = CliRunner().invoke(app_of("ensemble"), options)
    assert answer.exit_code == 2
    assert "Error" in answer.output and "Traceback" not in answer.output


def test_options_select_workloads_seconds_rounds_and_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[tuple[object, tuple[Side, ...]]] = []
    monkeypatch.setattr(ensemble, "build_zkload", lambda directory: Path("zkload"))
    monkeypatch.setattr("bench.run.missing", lambda apache: None)
    monkeypatch.setattr(Bench, "compare", lambda bench, sides: plans.append((bench._plan, sides)))
    options = ["--seconds", "2.5", "--rounds", "4", "--works", "mix,set1", "--grown", "0"]
    assert CliRunner().invoke(app_of("ensemble"), options).exit_code == 0
    assert CliRunner().invoke(app_of("ensemble"), ["--only", "ours"]).exit_code == 0
    assert plans == [
        (Plan([WORKS["mix"], WORKS["set1"]], 2.5, 4, 0), ("ours", "zookeeper")),
        (Plan(list(WORKS.values()), 5.0, 3, 1_000_000), ("ours",)),
    ]


def test_missing_compiler_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    answer = CliRunner().invoke(app_of("ensemble"), ["--only", "ours"])
    assert answer.exit_code == 1
    assert "no C compiler found" in answer.output and "Traceback" not in answer.output


@pytest.mark.usefixtures("compiler")
def test_compilation_failure_shows_the_compiler_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "zkload.c"
    source.write_text("no C at all\n")
    monkeypatch.setattr(ensemble, "SOURCE", source)
    with pytest.raises(CannotMeasure, match=r"cannot build zkload\.c:(.|\n)*error"):
        build_zkload(tmp_path)


class NoServers:
    hosts = ("127.0.0.1:1",)

    def __init__(self, side: Side) -> None:
        self.side = side

    def rss_mb(self) -> float:
        return 1.0


def test_compared_systems_alternate_and_each_has_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[tuple[Side, int, int]] = []
    sample = Sample(1, 1.0, 0, 0, 0, 1.0, 1.0)

    @contextmanager
    def started(side: Side, *_: object) -> Iterator[NoServers]:
        yield NoServers(side)

    def load(bench: Bench, work: object, servers: NoServers, ops: int, warm_up_ops: int) -> Sample:
        loads.append((servers.side, ops, warm_up_ops))
        return sample

    monkeypatch.setattr(ensemble, "Ensemble", started)
    monkeypatch.setattr(ensemble, "node_count", lambda host: 1)
    monkeypatch.setattr(Bench, "_load", load)
    with pytest.raises(typer.Exit), bench_run("test") as run:
        Bench(run, Path("zkload"), Plan([WORKS["set"]], 1.0, 2, 0)).compare(("ours", "zookeeper"))
    # ZooKeeper executes 16,000 sets per second. So the warm-up of eight seconds has 128,000 sets, and the measured
    # second has 16,000 sets. The 2,000 sets of an eighth of a second before it are not measured.
    block = [(128_000, 0), (16_000, 2_000)]
    order: list[Side] = ["ours", "zookeeper", "zookeeper", "ours"]
    assert loads == [(side, *counts) for side in order for counts in block]


@pytest.mark.parametrize(
    ("counts", "problems"),
    [
        ((0, 0, 0, 0), ["not one reply"]),
        ((5, 0, 0, 0), []),
        ((5, 3, 0, 1), ["3 error replies", "1 dropped connections"]),
    ],
)
def test_problems_of_a_benchmark_sample_are_counted(counts: tuple[int, int, int, int], problems: list[str]) -> None:
    ops, errors, disorder, dropped = counts
    assert Sample(ops, 0.0, errors, disorder, dropped, 0.0, 0.0).problems == problems


def test_java_heap_grows_for_more_than_a_million_znodes() -> None:
    assert [Shape(znodes=znodes).heap_mb for znodes in (0, 1_000_000, 2_000_000)] == [700, 700, 1200]


def test_unknown_commit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match="cannot check out the commit no-such-commit"):
        check_out("no-such-commit", tmp_path / "source")


def test_benchmark_checks_out_the_files_of_a_commit(tmp_path: Path) -> None:
    check_out("HEAD", tmp_path / "source")
    assert (tmp_path / "source" / "ensemble" / "zab" / "core.py").exists()


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "bench", "ensemble", *options]


@pytest.mark.usefixtures("compiler")
@pytest.mark.timeout(SMOKE_TIMEOUT_S)
@pytest.mark.long
def test_short_benchmark_run_measures_our_peers() -> None:
    options = ("--only", "ours", "--seconds", "1", "--rounds", "1", "--works", "set", "--grown", "5000", "--json")
    done = subprocess.run(
        command(*options), cwd=ROOT, capture_output=True, text=True, timeout=SMOKE_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    _, *made = map(json.loads, done.stdout.splitlines())
    assert [each["work"] for each in made] == [
        "set, 16 x 32, small tree", "memory, grown tree", "set, 16 x 32, grown tree",
    ]  # fmt: skip
    assert made[0]["figures"]["ops_per_s"] > 0 and made[2]["figures"]["ops_per_s"] > 0
    assert all(each["figures"]["rss_mb"] > 10 and each["problems"] == [] for each in made)
    assert 5_000 <= made[1]["figures"]["znodes"] < 5_010
    assert "zabka" in done.stderr


@pytest.mark.usefixtures("compiler")
@pytest.mark.timeout(SMOKE_TIMEOUT_S)
@pytest.mark.long
def test_benchmark_compares_an_earlier_commit_with_the_work_tree() -> None:
    run = command("--base", "HEAD", "--works", "set", "--rounds", "1", "--seconds", "0.1", "--grown", "0")
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=SMOKE_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "set, 16 x 32, small tree" in done.stdout and "(0.00 to inf)" in done.stdout
    assert "small tree, base" in done.stderr and "small tree, zabka" in done.stderr


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.usefixtures("compiler")
@pytest.mark.timeout(SMOKE_TIMEOUT_S)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_stops_every_server_and_removes_its_data(number: signal.Signals, tmp_path: Path) -> None:
    options = ("--only", "ours", "--seconds", "60", "--rounds", "1", "--works", "set1", "--data", str(tmp_path))
    run = subprocess.Popen(command(*options), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        # Wait until the three servers and the load generator are running.
        while len(started := children(run.pid)) < 4:
            assert run.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        run.send_signal(number)
        _, output = run.communicate(timeout=30)
    finally:
        run.kill()
        run.wait(10)
    assert run.returncode == INTERRUPTED
    assert "interrupted" in output and "Traceback" not in output
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
    assert list(tmp_path.iterdir()) == []
