"""The paired comparison of two commits: how sure a median is, and what counts as slower."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import paired
from bench.load import CannotMeasure, Sample
from bench.paired import Pair, check_out, ratio_of, table, verdicts


def sample(cpu_us: float) -> Sample:
    return Sample(100, 1000.0, 0, 0, 0, p50_ms=2.0, p99_ms=4.0, max_ms=9.0, longest_gap_ms=1.0, cpu_us=cpu_us)


def pairs_of(*ratios: float) -> list[Pair]:
    return [Pair("small", "set", sample(10.0), sample(10.0 * ratio)) for ratio in ratios]


def test_the_true_median_lies_between_the_outermost_but_one_of_nine_pairs() -> None:
    # By chance eight of nine coins or more fall on one side in one of 26 cases.
    found = ratio_of([0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 9.0])
    assert found == (1.3, 1.0, 1.6)


def test_five_pairs_prove_nothing() -> None:
    assert ratio_of([1.5] * 5) == (1.5, 0.0, math.inf)
    assert not ratio_of([1.5] * 5).is_worse


def test_six_per_cent_more_in_every_pair_is_worse() -> None:
    assert ratio_of([1.06] * 9).is_worse


def test_four_per_cent_more_does_not_count() -> None:
    assert not ratio_of([1.04] * 9).is_worse


def test_a_median_that_pairs_on_both_sides_of_one_leave_in_doubt_is_not_worse() -> None:
    assert not ratio_of([0.8, 0.9, 0.95, 1.0, 1.06, 1.2, 1.2, 1.3, 1.3]).is_worse


def test_less_is_better() -> None:
    assert ratio_of([0.8] * 9).is_better and not ratio_of([0.97] * 9).is_better


def test_a_figure_that_was_too_small_to_measure_is_left_out() -> None:
    pairs = [*pairs_of(*[1.1] * 9), Pair("small", "set", sample(0.0), sample(10.0))]
    assert verdicts(pairs)["small", "set"]["CPU/op"].median == 1.1
    assert math.isnan(ratio_of([]).median)


def test_a_row_says_which_work_on_which_tree() -> None:
    shown = table(verdicts(pairs_of(*[1.1] * 9)), "abc", 9, 200_000)
    assert [str(next(iter(column.cells))) for column in shown.columns[:2]] == [
        "set, 16 x 32, small tree",
        "[red]1.100[/] (1.10 to 1.10)",
    ]


def test_a_commit_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match="the commit no-such-commit cannot be had"):
        check_out("no-such-commit", tmp_path / "source")


def test_what_is_checked_out_is_the_commit(tmp_path: Path) -> None:
    check_out("HEAD", tmp_path / "source")
    assert (tmp_path / "source" / "ensemble" / "zab" / "core.py").exists()


def test_a_bad_list_of_works_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "build_zkload", lambda cache: pytest.fail("it began"))
    answer = CliRunner().invoke(paired.app, ["HEAD", "--works", "foo"])
    assert answer.exit_code == 2 and "the works are" in answer.output
