"""Options, what is said where something is missing, and short runs against real peers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import compare, ensembles, load
from bench.ensembles import TITLES, Side
from bench.free_ports import free_ports
from bench.load import CannotMeasure, build_zkload, find_compiler
from bench.machine import cautions
from bench.rounds import Plan, Run
from bench.works import WORKS, parse_works

ROOT = Path(__file__).resolve().parents[2]
SMOKE_TIMEOUT_S = 120


@pytest.fixture
def compiler() -> None:
    """Skips where the load generator cannot be built; fails there under CI."""
    if find_compiler() is None:
        reason = "no C compiler (cc, gcc or clang) to build the load generator with"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def test_works_come_once_each_and_in_the_order_of_the_table() -> None:
    assert [work.name for work in parse_works("get, set,get")] == ["set", "get"]


@pytest.mark.parametrize("text", ["set,foo", "", " , "])
def test_a_bad_list_of_works_names_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="the works are set, create, get, mix, set64, set1"):
        parse_works(text)


@pytest.mark.parametrize(
    "options",
    [
        ["--works", "foo"], ["--seconds", "0"], ["--rounds", "0"], ["--only", "etcd"], ["--failover", "-1"],
        ["--data", "/there/is/no/such/folder"], ["--unknown"],
    ],
)  # fmt: skip
def test_a_bad_option_is_refused_before_anything_starts(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "build_zkload", lambda cache: pytest.fail("it began"))
    answer = CliRunner().invoke(compare.app, options)
    assert answer.exit_code == 2
    assert "Error" in answer.output and "Traceback" not in answer.output


def test_the_options_make_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []
    monkeypatch.setattr(compare, "build_zkload", lambda cache: Path("zkload"))
    monkeypatch.setattr(compare, "missing_for_zookeeper", lambda: None)
    monkeypatch.setattr(Run, "measure", lambda run: plans.append(run._plan))
    options = ["--seconds", "2.5", "--rounds", "4", "--works", "mix,set1", "--failover", "3", "--grown", "0"]
    assert CliRunner().invoke(compare.app, options).exit_code == 0
    assert CliRunner().invoke(compare.app, ["--only", "ours"]).exit_code == 0
    assert plans == [
        Plan(("ours", "zookeeper"), (WORKS["mix"], WORKS["set1"]), 4, 2.5, 3),
        Plan(("ours",), tuple(WORKS.values()), 3, 5.0, 0, 1_000_000),
    ]


def test_without_java_our_ensemble_is_measured_alone_and_a_line_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensembles, "java_major", lambda: None)
    sides, notes = compare.choose_sides(None)
    assert sides == ("ours",)
    assert notes == ["Apache ZooKeeper is left out: there is no java in PATH (version 17 or newer)"]
    with pytest.raises(CannotMeasure, match="there is no java"):
        compare.choose_sides("zookeeper")


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensembles, "java_major", lambda: 11)
    assert ensembles.missing_for_zookeeper() == "java is version 11, and 17 or newer is needed"


def test_without_a_compiler_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CannotMeasure, match="no C compiler found"):
        build_zkload(tmp_path)
    monkeypatch.setattr(compare, "default_cache", lambda: tmp_path)
    answer = CliRunner().invoke(compare.app, ["--only", "ours"])
    assert answer.exit_code == 1
    assert "no C compiler found" in answer.output and "Traceback" not in answer.output


def test_the_sides_alternate_and_so_does_who_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    order: list[tuple[Side, int]] = []
    monkeypatch.setattr(Run, "_one_side", lambda run, side, number: order.append((side, number)))
    plan = Plan(("ours", "zookeeper"), (WORKS["set"],), 2, 1.0)
    Run(plan, Path("zkload"), tmp_path, Silent()).measure()
    assert order == [("ours", 1), ("zookeeper", 1), ("zookeeper", 2), ("ours", 2)]


def test_a_busy_machine_is_called_noisy() -> None:
    quiet = {"cores": 2, "load_before": 0.3, "python_with_profiles": True}
    assert cautions(quiet) == []
    assert "noisy" in cautions(quiet | {"load_before": 1.5})[0]
    assert "slow Python" in cautions(quiet | {"python_with_profiles": False})[0]


def test_free_ports_are_different_ones() -> None:
    assert len(set(free_ports(9))) == 9


class Silent:
    def doing(self, text: str) -> None: ...

    def done(self, text: str, seconds: float) -> None: ...


@pytest.mark.usefixtures("compiler")
def test_the_load_generator_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = build_zkload(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [program.name]
    monkeypatch.setattr(load, "find_compiler", lambda: pytest.fail("built again"))
    assert build_zkload(tmp_path) == program


@pytest.mark.usefixtures("compiler")
def test_a_source_that_does_not_compile_shows_what_the_compiler_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "zkload.c"
    source.write_text("no C at all\n")
    monkeypatch.setattr(load, "SOURCE", source)
    with pytest.raises(CannotMeasure, match=r"cannot build zkload\.c:(.|\n)*error"):
        build_zkload(tmp_path / "cache")


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "bench.compare", "--only", "ours", *options]


@pytest.mark.usefixtures("compiler")
@pytest.mark.timeout(SMOKE_TIMEOUT_S)
@pytest.mark.long
def test_a_short_run_measures_our_peers_and_their_failover() -> None:
    options = ("--seconds", "1", "--rounds", "1", "--works", "set", "--failover", "1", "--grown", "5000", "--json")
    done = subprocess.run(
        command(*options), cwd=ROOT, capture_output=True, text=True, timeout=SMOKE_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["works"]["set"]["ours"]["ops_per_s"] > 0
    assert made["works"]["set"]["ours"]["rss_mb"] > 10
    assert made["failover"]["ours"]["lost"] == 0
    assert made["grown"]["set"]["ours"]["ops_per_s"] > 0
    assert 5_000 <= made["memory"]["ours"]["znodes"] < 5_010 and made["memory"]["ours"]["rss_mb"] > 10
    assert made["faults"] == []
    assert TITLES["ours"] in done.stderr


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.usefixtures("compiler")
@pytest.mark.timeout(SMOKE_TIMEOUT_S)
@pytest.mark.long
def test_an_earlier_commit_is_measured_beside_this_tree() -> None:
    options = ("HEAD", "--works", "set", "--pairs", "1", "--seconds", "0.1", "--grown", "0")
    run = [sys.executable, "-m", "bench.paired", *options]
    wide = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(run, cwd=ROOT, env=wide, capture_output=True, text=True, timeout=SMOKE_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "set, 16 x 32, small tree" in done.stdout
    assert "pair 1/1" in done.stderr


@pytest.mark.usefixtures("compiler")
@pytest.mark.timeout(SMOKE_TIMEOUT_S)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_every_server_and_removes_its_data(number: signal.Signals, tmp_path: Path) -> None:
    options = ("--seconds", "60", "--rounds", "1", "--works", "set1", "--data", str(tmp_path))
    run = subprocess.Popen(command(*options), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        # Three servers and the load generator.
        while len(started := children(run.pid)) < 4:
            assert run.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        run.send_signal(number)
        _, said = run.communicate(timeout=30)
    finally:
        run.kill()
        run.wait(10)
    assert run.returncode == compare.INTERRUPTED
    assert "interrupted" in said and "Traceback" not in said
    assert [pid for pid in started if alive(pid)] == []
    assert list(tmp_path.iterdir()) == []
