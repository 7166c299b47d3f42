"""A benchmark run: its exit code, its output, and the systems that it measures."""

from __future__ import annotations

import json

import pytest
import typer

from bench import run, servers
from bench.__main__ import BENCHES, app_of, main
from bench.results import Figure, Measurement
from bench.run import INTERRUPTED, Run, bench_run, cautions
from bench.servers import CannotMeasure, missing

FIGURES = [Figure("ms", "ms")]


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "describe", lambda directory: {"cores": 2, "load_before": 0.1, "python_with_profiles": 1})


def code_of(*measurements: Measurement, failure: BaseException | None = None, as_json: bool = False) -> int:
    with pytest.raises(typer.Exit) as ended, bench_run("test", as_json) as started:
        started.compare("title", FIGURES)
        for measurement in measurements:
            started.add(measurement)
        if failure is not None:
            raise failure
    return ended.value.exit_code


def test_run_prints_a_results_table_and_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(Measurement("kill", "ours", {"ms": 4.0})) == 0
    output = capsys.readouterr()
    assert "4.0" in output.out and "cores 2, load before 0.1" in output.out
    assert "kill, zabka: ms 4.0" in output.err


@pytest.mark.parametrize(("side", "code"), [("ours", 1), ("base", 1), ("zookeeper", 0)])
def test_violated_guarantee_of_zabka_fails_the_benchmark_run(
    side: servers.Side, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(Measurement("kill", side, {"ms": 4.0}, ["2 writes lost"])) == code
    assert "2 writes lost" in capsys.readouterr().err


def test_measurements_before_a_failure_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(Measurement("kill", "ours", {"ms": 4.0}), failure=CannotMeasure("no quorum")) == 1
    output = capsys.readouterr()
    assert "4.0" in output.out and "bench test: no quorum" in output.err


def test_interrupted_run_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(failure=KeyboardInterrupt()) == INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_json_output_has_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    code_of(Measurement("kill", "ours", {"ms": 4.0}, ["lost"]), as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["machine"]["cores"] == 2
    assert lines[1] == {"work": "kill", "side": "ours", "figures": {"ms": 4.0}, "problems": ["lost"]}
    assert lines[2] == {"failure": "kill, zabka: lost"}


def test_busy_machine_and_python_without_pgo_cause_warnings() -> None:
    quiet = {"cores": 2, "load_before": 0.3, "python_with_profiles": True}
    assert cautions(quiet) == []
    assert "noisy" in cautions(quiet | {"load_before": 1.5})[0]
    assert "slow Python" in cautions(quiet | {"python_with_profiles": False})[0]


def sides_of(only: run.Only, capsys: pytest.CaptureFixture[str]) -> tuple[tuple[servers.Side, ...], str]:
    found: list[tuple[servers.Side, ...]] = []
    with pytest.raises(typer.Exit), bench_run("test") as started:
        found.append(started.sides("zookeeper", only))
    return found[0] if found else (), capsys.readouterr().err


def test_run_measures_both_systems_or_only_the_requested_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "missing", lambda apache: None)
    assert sides_of(None, capsys)[0] == ("ours", "zookeeper")
    assert sides_of("ours", capsys)[0] == ("ours",)
    assert sides_of("apache", capsys)[0] == ("zookeeper",)


def test_zabka_is_measured_alone_if_java_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(servers, "java_major", lambda: None)
    sides, output = sides_of(None, capsys)
    assert sides == ("ours",)
    assert "ZooKeeper is left out: there is no java in PATH (version 17 or newer)" in output
    sides, output = sides_of("apache", capsys)
    assert sides == () and "ZooKeeper cannot be measured: there is no java" in output


def test_old_java_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "java_major", lambda: 11)
    assert missing("zookeeper") == "java is version 11, and 17 or newer is needed"


def test_each_benchmark_accepts_its_own_options() -> None:
    assert all(app_of(name).registered_commands for name in BENCHES)


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--help"], 0), (["etcd"], 2)])
def test_list_option_prints_the_benchmarks(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    output = capsys.readouterr()
    assert ended.value.code == code
    assert all(name in (output.err if code else output.out) for name in BENCHES)


def test_run_keeps_its_files_in_the_given_directory(tmp_path: servers.Path) -> None:
    held: list[Run] = []
    with pytest.raises(typer.Exit), bench_run("test", data=tmp_path) as started:
        assert started.directory.parent == tmp_path
        held.append(started)
    assert not held[0].directory.exists()
