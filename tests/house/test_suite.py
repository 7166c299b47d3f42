"""`make test`: every test is in one of its runs, and no more than one."""

from __future__ import annotations

import pytest

from tests import suite

FILES = {path.relative_to(suite.HERE.parent) for path in suite.HERE.rglob("test_*.py")}
PLACES = {str(place) for file in FILES for place in (file, *file.parents)}


def test_each_room_s_tests_are_in_one_of_the_runs() -> None:
    side_by_side, alone = suite.runs([], cores=2)
    together = {word for word in side_by_side if word.startswith("tests/")}
    assert together < PLACES - {"tests"}
    assert not any(place.startswith(f"{other}/") for place in together for other in together)
    assert alone == ["tests", *(f"--ignore={room}" for room in sorted(together))]


def test_what_goes_by_real_time_in_a_room_of_virtual_time_is_left_to_the_second_run() -> None:
    together = suite.runs([], cores=2)[0]
    assert {f"tests/{file}" for file in suite.ALONE} < PLACES
    assert not any(f"tests/{file}".startswith(place) for file in suite.ALONE for place in together)


def test_it_runs_on_as_many_cores_as_there_are() -> None:
    assert "--numprocesses=7" in suite.runs([], cores=7)[0]


def test_arguments_are_pytest_s_and_make_one_run() -> None:
    assert suite.runs(["tests/controller", "-q"], cores=2) == [["tests/controller", "-q"]]


def test_a_failure_of_the_first_run_is_not_forgotten_over_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([1, 0])
    monkeypatch.setattr(suite.subprocess, "call", lambda command, cwd: next(codes))
    assert suite.main([]) == 1
