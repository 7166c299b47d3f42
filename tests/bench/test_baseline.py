"""The baseline of a machine: kept by what the machine is, and compared where both runs have the figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from bench.baseline import baseline_path, baseline_table, load, save
from bench.load import CannotMeasure

MACHINE: dict[str, object] = {"processor": "a", "cores": 2, "python": "3.11.2", "load_before": 0.1}


def figures(ops_per_s: float, cpu_us: float = 50.0) -> dict[str, float]:
    return {"ops_per_s": ops_per_s, "p50_ms": 2.0, "p99_ms": 4.0, "cpu_us_per_op": cpu_us, "rss_mb": 1.0}


def run_of(**rows: dict[str, float]) -> dict[str, Any]:
    return {"date": "then", "works": {"set": rows}, "grown": {}}


def cells(table: Table) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in zip(*(column.cells for column in table.columns), strict=True)]


def test_a_machine_finds_its_own_baseline_whatever_its_load(tmp_path: Path) -> None:
    assert baseline_path(tmp_path, MACHINE) == baseline_path(tmp_path, MACHINE | {"load_before": 2.0})
    assert baseline_path(tmp_path, MACHINE) != baseline_path(tmp_path, MACHINE | {"cores": 4})


def test_what_was_kept_comes_back_with_its_date(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "bench.json"
    save(path, run_of(ours=figures(10.0)), "today")
    assert load(path) == run_of(ours=figures(10.0))


@pytest.mark.parametrize("text", [None, "no JSON", "[]", "{}"])
def test_what_cannot_be_read_is_no_baseline(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    if text is not None:
        path.write_text(text)
    assert load(path) is None


def test_a_baseline_that_cannot_be_kept_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotMeasure, match="the baseline cannot be kept"):
        save(tmp_path / "file" / "bench.json", {}, "today")


def test_five_per_cent_less_is_red() -> None:
    rows = cells(baseline_table(run_of(ours=figures(94.0, cpu_us=53.0)), run_of(ours=figures(100.0))))
    assert rows == [
        ["set, 16 x 32, small tree", "alone", "[red]0.94[/]", "[default]1.00[/]", "[default]1.00[/]", "[red]1.06[/]"]
    ]


def test_where_both_runs_have_zookeeper_the_ratios_to_it_are_compared() -> None:
    now = run_of(ours=figures(50.0), ratio=figures(2.2))
    then = run_of(ours=figures(100.0), ratio=figures(2.0))
    assert cells(baseline_table(now, then))[0][1:3] == ["vs ZooKeeper", "[green]1.10[/]"]


def test_a_work_that_the_baseline_lacks_is_left_out() -> None:
    assert cells(baseline_table(run_of(ours=figures(1.0)), {"date": "then", "works": {}})) == []
