"""The commands of `make test` run every test exactly once."""

from __future__ import annotations

import pytest

from tests import suite

FILES = {path.relative_to(suite.HERE.parent) for path in suite.HERE.rglob("test_*.py")}
PLACES = {str(place) for file in FILES for place in (file, *file.parents)}


def test_suite_runs_the_tests_of_each_package_exactly_once() -> None:
    side_by_side, clusters, alone = suite.runs([], cores=2)
    together = {word for word in side_by_side if word.startswith("tests/")}
    assert together | set(alone) < PLACES - {"tests"}
    assert not any(place.startswith(f"{other}/") for place in together for other in together)
    assert not any(place.startswith(other) for place in alone for other in together)
    assert [word for word in clusters if not word.startswith("--ignore=")][2:] == ["tests"]
    ignored = {word.removeprefix("--ignore=") for word in clusters if word.startswith("--ignore=")}
    assert ignored == together | set(alone)


def test_suite_script_uses_all_cores() -> None:
    assert [run[0] for run in suite.runs([], cores=4)][:2] == ["--numprocesses=4", "--numprocesses=6"]


def test_suite_script_passes_its_arguments_to_one_pytest_run() -> None:
    assert suite.runs(["tests/controller", "-q"], cores=2) == [["tests/controller", "-q"]]


def test_suite_script_returns_the_failure_of_its_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([1, 0, 0])
    monkeypatch.setattr(suite.subprocess, "call", lambda command, **_: next(codes))
    assert suite.main([]) == 1


def test_suite_script_lets_python_store_compiled_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environments: list[dict[str, str]] = []
    monkeypatch.setattr(suite.subprocess, "call", lambda command, cwd, env: environments.append(env) or 0)
    assert suite.main(["-q"]) == 0
    assert [(env.get("PYTHONDONTWRITEBYTECODE"), "PATH" in env) for env in environments] == [(None, True)]
