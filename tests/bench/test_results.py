"""Medians, ratios and tables, computed from invented measurements."""

from __future__ import annotations

import math

import pytest
from rich.console import Console
from rich.table import Table

from bench.results import (
    Figure,
    Measurement,
    Ratio,
    Side,
    combined,
    comparison_table,
    paired_ratios,
    paired_table,
    ratio_of,
    worse,
)

RATE = Figure("ops_per_s", "ops/s", ",.0f", "more")
CPU = Figure("cpu", "CPU")
SIZE = Figure("znodes", "znodes", ",.0f", "")
WORST = Figure("cpu", "worst", combine=max)


def measured(side: Side, *ops_per_s: float, cpu: float = 50.0, work: str = "set") -> list[Measurement]:
    return [Measurement(work, side, {"ops_per_s": each, "cpu": cpu, "znodes": 513.0}) for each in ops_per_s]


def cells(table: Table) -> list[list[str]]:
    console = Console(width=200, color_system=None)
    rows = zip(*(column.cells for column in table.columns), strict=True)
    return [[console.render_str(str(cell)).plain for cell in row] for row in rows]


def pairs_of(*ratios: float) -> list[Measurement]:
    return [
        Measurement("set", side, {"cpu": cpu, "ops_per_s": 1000.0})
        for ratio in ratios
        for side, cpu in (("base", 10.0), ("ours", 10.0 * ratio))
    ]


def test_row_has_medians_and_the_ratio_of_zabka_to_apache() -> None:
    found = measured("ours", 30_000, 10_000, 20_000) + measured("zookeeper", 7_000, 9_000, 8_000)
    assert cells(comparison_table("", found, [RATE, CPU, SIZE])) == [
        ["set", "zabka", "20,000", "50.0", "513"],
        ["", "ZooKeeper", "8,000", "50.0", "513"],
        ["", "÷", "2.50", "1.00", ""],
    ]


def test_kafka_rows_follow_the_zabka_rows() -> None:
    found = measured("kafka", 10) + measured("ours", 20)
    assert [row[1] for row in cells(comparison_table("", found, [RATE]))] == ["zabka", "Kafka", "÷"]


@pytest.mark.parametrize("side", ["ours", "zookeeper"])
def test_table_of_a_single_system_has_no_ratio(side: Side) -> None:
    table = comparison_table("", measured(side, 20_000), [RATE])
    assert len(cells(table)) == 1 and table.caption is None


def test_ratio_is_green_for_more_throughput_and_less_cpu() -> None:
    found = measured("ours", 20_000, cpu=1.0) + measured("zookeeper", 10_000, cpu=10.0)
    table = comparison_table("", found, [RATE, CPU])
    assert [str(list(column.cells)[2]) for column in table.columns[2:]] == ["[green]2.00[/]", "[green]0.10[/]"]


def test_worse_ratio_is_red_and_a_ratio_near_1_has_no_colour() -> None:
    found = measured("ours", 9_900, cpu=11.0) + measured("zookeeper", 10_000, cpu=10.0)
    table = comparison_table("", found, [RATE, CPU])
    assert [str(list(column.cells)[2]) for column in table.columns[2:]] == ["[default]0.99[/]", "[red]1.10[/]"]


def test_ratio_to_zero_is_not_available() -> None:
    found = measured("ours", 10, cpu=5.0) + measured("zookeeper", 10, cpu=0.0)
    assert cells(comparison_table("", found, [CPU]))[2][2] == "n/a"


def test_worst_round_is_shown_next_to_the_median() -> None:
    found = [Measurement("kill", "ours", {"cpu": each}) for each in (300.0, 500.0, 400.0)]
    assert cells(comparison_table("", found, [CPU, WORST])) == [["kill", "zabka", "400.0", "500.0"]]


def test_figure_that_no_round_measured_has_an_empty_cell() -> None:
    assert combined([], CPU) is None
    assert cells(comparison_table("", [Measurement("memory", "ours", {"cpu": 1.0})], [RATE, CPU])) == [
        ["memory", "zabka", "", "1.0"]
    ]


def test_progress_line_has_figures_and_problems() -> None:
    measurement = Measurement("set", "ours", {"ops_per_s": 1234.0, "cpu": 5.0}, ["3 error replies"])
    assert measurement.text([RATE, CPU, WORST, SIZE]) == "set, zabka: ops/s 1,234, CPU 5.0, 3 error replies"


def test_confidence_bounds_of_nine_pairs_are_ranks_2_and_8() -> None:
    # With nine ratios, the interval excludes one ratio at each end. Nine fair coins show the same side at least eight
    # times with probability 1/26.
    assert ratio_of([0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 9.0]) == (1.3, 1.0, 1.6)


def test_difference_in_five_pairs_is_never_significant() -> None:
    assert ratio_of([1.5] * 5) == (1.5, 0.0, math.inf)
    assert not ratio_of([1.5] * 5).grew()


@pytest.mark.parametrize(
    ("ratios", "grew", "shrank"),
    [
        pytest.param([1.06] * 9, True, False, id="six per cent more in every pair"),
        pytest.param([1.04] * 9, False, False, id="four per cent more"),
        pytest.param([0.8, 0.9, 0.95, 1.0, 1.06, 1.2, 1.2, 1.3, 1.3], False, False, id="pairs on both sides"),
        pytest.param([0.8] * 9, False, True, id="a fifth less"),
        pytest.param([0.97] * 9, False, False, id="three per cent less"),
    ],
)
def test_significant_change_of_five_per_cent_or_more_is_reported(ratios: list[float], grew: bool, shrank: bool) -> None:
    found = ratio_of(ratios)
    assert (found.grew(), found.shrank()) == (grew, shrank)


def test_higher_cpu_is_reported_as_worse_and_higher_rate_is_not() -> None:
    assert worse(pairs_of(*[1.1] * 9), [RATE, CPU]) == ["set: CPU is worse, 1.100 times the base"]
    assert worse(pairs_of(*[0.9] * 9), [RATE, CPU]) == []


def test_less_throughput_is_worse() -> None:
    slow = [Measurement("set", side, {"ops_per_s": rate}) for side, rate in (("base", 100.0), ("ours", 90.0))]
    assert worse(slow * 9, [RATE]) == ["set: ops/s is worse, 0.900 times the base"]


def test_pair_with_an_unmeasurably_small_figure_is_skipped() -> None:
    zero = [Measurement("set", "base", {"cpu": 0.0}), Measurement("set", "ours", {"cpu": 10.0})]
    assert paired_ratios([*pairs_of(*[1.1] * 9), *zero], [CPU])["set"][0].median == pytest.approx(1.1)
    assert math.isnan(ratio_of([]).median)


def test_interrupted_pair_is_skipped() -> None:
    assert paired_ratios(pairs_of(*[1.1] * 9)[:-1], [CPU])["set"] == [Ratio(*ratio_of([1.1] * 8))]


def test_table_of_paired_runs_shows_ratio_range_and_colour() -> None:
    shown = paired_table("", pairs_of(*[1.25] * 9), [CPU])
    assert [str(next(iter(column.cells))) for column in shown.columns] == ["set", "[red]1.250[/] (1.25 to 1.25)"]
