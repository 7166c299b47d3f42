"""The curve is measured on the very service of a peer, and says so when something is wrong."""

from __future__ import annotations

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench import growth
from bench.growth import Bench, Cost
from bench.load import CannotMeasure


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "BATCH", 5)
    monkeypatch.setattr(growth, "BATCHES", 2)
    monkeypatch.setattr(growth, "BASE_ZNODES", 20)
    monkeypatch.setattr(growth, "WATCHERS", 3)


def test_every_write_is_answered_and_is_in_the_tree() -> None:
    bench = Bench(20)
    before = bench.service.views.statistics()
    cost = bench.cost()
    after = bench.service.views.statistics()
    assert cost.set_us > 0 and cost.create_us > 0
    assert after.znodes - before.znodes == 10 and after.packets_sent - before.packets_sent == 20
    assert after.digest_mismatches == 0


def test_sessions_and_watches_are_really_there() -> None:
    assert growth.with_sessions(4).set_us > 0
    assert growth.with_watches(7).set_us > 0


def test_a_curve_has_a_line_for_each_size_and_ratios_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = ("znodes", (10, 20, 10_000), lambda count: Cost(count / 10, 3.0))
    monkeypatch.setattr(growth, "CURVES", (curve,))
    told = Console(record=True, quiet=True)
    table = growth.curve_table(told, largest=100)
    rows = [[str(cell) for cell in row] for row in zip(*(column.cells for column in table.columns), strict=True)]
    assert rows == [["znodes", "10", "1.0", "1.00", "3.0", "1.00"], ["", "20", "2.0", "2.00", "3.0", "1.00"]]


def test_a_measurement_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(count: int) -> Cost:
        raise SystemExit

    with pytest.raises(CannotMeasure, match="with 1,000 failed"):
        growth._in_a_child(broken, 1000)
    monkeypatch.setattr(growth, "CURVES", (("znodes", (1,), broken),))
    answer = CliRunner().invoke(growth.app, [])
    assert answer.exit_code == 1 and "failed" in answer.output and "Traceback" not in answer.output
