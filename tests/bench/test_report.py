"""Tables and the JSON document, built on results that were made up."""

from __future__ import annotations

import json

import pytest
from rich.console import Console
from rich.table import Table

from bench.ensembles import SIDES, Side
from bench.load import Sample
from bench.report import document, failover_table, faults, load_table, medians, memory_table
from bench.rounds import Failover, Measurement, Memory, Plan, Results
from bench.works import WORKS
from bench.zkfailover import Outcome


def sample(ops_per_s: float, cpu_us: float = 50.0, errors: int = 0) -> Sample:
    return Sample(1000, ops_per_s, errors, 0, 0, p50_ms=2.0, p99_ms=8.0, max_ms=9.0, longest_gap_ms=1.0, cpu_us=cpu_us)


def measured(side: Side, *ops_per_s: float, work: str = "set") -> list[Measurement]:
    rss_mb = {"ours": 150.0, "zookeeper": 1200.0}[side]
    return [Measurement(side, work, n, rss_mb, sample(each)) for n, each in enumerate(ops_per_s, 1)]


def killed(side: Side, *gaps_ms: float, lost: int = 0) -> list[Failover]:
    return [Failover(side, Outcome(gap_ms, session_kept=True, acked=9, kept=9 - lost, lost=lost)) for gap_ms in gaps_ms]


def plan(*sides: Side, rounds: int = 3, failovers: int = 0) -> Plan:
    return Plan(sides, (WORKS["set"],), rounds, 5.0, failovers)


def weighed() -> list[Memory]:
    by_side: dict[Side, float] = {"ours": 300.4, "zookeeper": 1200.0}
    return [Memory(side, 100_000, rss_mb + more) for more in (-10, 0, 10) for side, rss_mb in by_side.items()]


def grown_plan(znodes: int) -> Plan:
    return Plan(SIDES, (WORKS["set"],), 3, 5.0, grown=znodes)


def cells(table: Table) -> list[list[str]]:
    console = Console(width=200, color_system=None)
    rows = zip(*(column.cells for column in table.columns), strict=True)
    return [[console.render_str(str(cell)).plain for cell in row] for row in rows]


def test_a_row_holds_the_medians_and_the_ratio_is_ours_divided_by_zookeepers() -> None:
    results = Results(measured("ours", 30_000, 10_000, 20_000) + measured("zookeeper", 7_000, 9_000, 8_000))
    assert cells(load_table(results, plan(*SIDES), "3.9.5")) == [
        ["set, 16 x 32", "zabka", "20,000", "2.00", "8.00", "50.0", "150"],
        ["", "ZooKeeper", "8,000", "2.00", "8.00", "50.0", "1,200"],
        ["", "÷", "2.50", "1.00", "1.00", "1.00", "0.12"],
    ]


def test_one_side_alone_has_no_ratio() -> None:
    table = load_table(Results(measured("ours", 20_000)), plan("ours"), "3.9.5")
    assert [row[1] for row in cells(table)] == ["zabka"]
    assert "Apache ZooKeeper" not in str(table.caption)


def test_a_ratio_is_green_for_more_throughput_and_for_less_of_everything_else() -> None:
    results = Results(measured("ours", 20_000) + measured("zookeeper", 10_000))
    table = load_table(results, plan(*SIDES), "3.9.5")
    ratios = [str(list(column.cells)[2]) for column in table.columns[2:]]
    assert ratios == ["[green]2.00[/]", "[default]1.00[/]", "[default]1.00[/]", "[default]1.00[/]", "[green]0.12[/]"]


def test_a_work_that_was_interrupted_on_one_side_shows_the_other() -> None:
    table = load_table(Results(measured("zookeeper", 8_000)), plan(*SIDES), "3.9.5")
    assert [row[1] for row in cells(table)] == ["ZooKeeper"]


def test_a_ratio_by_nothing_is_not_made_up() -> None:
    results = Results([Measurement(side, "set", 1, 100.0, sample(10.0, cpu_us=0.0)) for side in SIDES])
    assert cells(load_table(results, plan(*SIDES), "3.9.5"))[2][5] == "n/a"


def test_the_failover_table_holds_median_worst_and_what_was_lost() -> None:
    results = Results(failovers=killed("ours", 300.0, 500.0, 400.0) + killed("zookeeper", 800.0, 600.0, 1000.0))
    assert cells(failover_table(results, plan(*SIDES, failovers=3))) == [
        ["zabka", "400", "500", "0", "0"],
        ["ZooKeeper", "800", "1,000", "0", "0"],
        ["÷", "0.50", "0.50", "", ""],
    ]


def test_the_memory_table_says_how_big_the_heap_was() -> None:
    table = memory_table(Results(memories=weighed()), grown_plan(100_000))
    assert cells(table) == [["zabka", "300"], ["ZooKeeper (heap 700 MB)", "1,200"], ["÷", "0.25"]]
    assert "100,000 znodes" in str(table.title)


def test_the_heap_grows_with_a_tree_of_more_than_a_million() -> None:
    table = memory_table(Results(memories=weighed()), grown_plan(2_000_000))
    assert cells(table)[1][0] == "ZooKeeper (heap 1200 MB)"


def test_the_title_says_which_trees_and_how_large_they_were() -> None:
    of_both = [Measurement(side, "set", 1, 1.0, sample(1.0), "grown", 1_000_517) for side in SIDES]
    table = load_table(Results(of_both), grown_plan(1_000_000), "3.9.5", "grown")
    assert str(table.title).endswith("grown trees: 1,000,517 znodes")


def test_trees_that_differ_are_told_for_each_side() -> None:
    sizes: dict[Side, int] = {"ours": 513, "zookeeper": 900}
    of_both = [Measurement(side, "set", 1, 1.0, sample(1.0), "small", size) for side, size in sizes.items()]
    table = load_table(Results(of_both), plan(*SIDES), "3.9.5")
    assert str(table.title).endswith("small trees: zabka 513 znodes, ZooKeeper 900 znodes")


def test_grown_trees_have_medians_of_their_own() -> None:
    grown = [Measurement("ours", "set", n, 1.0, sample(each), "grown") for n, each in enumerate((7.0, 8.0, 9.0))]
    results = Results(measured("ours", 20_000) + grown)
    made = document(results, grown_plan(1_000_000), {}, [])
    assert made["works"]["set"]["ours"]["ops_per_s"] == 20_000
    assert made["grown"]["set"]["ours"]["ops_per_s"] == 8.0


def test_errors_and_lost_writes_are_named_for_each_side() -> None:
    broken = Measurement("ours", "set", 2, 100.0, sample(10.0, errors=3))
    results = Results([broken, *measured("zookeeper", 10.0)], killed("zookeeper", 10.0, lost=2))
    assert faults(results) == [
        "zabka, round 2, small tree, set, 16 x 32: 3 error replies",
        "ZooKeeper, a kill: 2 acknowledged writes lost",
    ]
    assert faults(results, "ours") == ["zabka, round 2, small tree, set, 16 x 32: 3 error replies"]


def test_the_document_is_json_with_medians_ratios_and_every_measurement() -> None:
    results = Results(measured("ours", 20_000) + measured("zookeeper", 10_000), killed("ours", 400.0))
    made = json.loads(json.dumps(document(results, plan(*SIDES), {"cores": 2}, ["noisy"])))
    assert made["works"]["set"]["ratio"]["ops_per_s"] == 2.0
    assert made["works"]["set"]["ours"]["rss_mb"] == 150.0
    assert made["failover"]["ours"]["median_gap_ms"] == 400.0
    assert [m["sample"]["ops_per_s"] for m in made["measurements"]] == [20_000, 10_000]
    assert made["measurements"][0]["sample"]["cpu_us_per_op"] == 50.0
    assert made["machine"] == {"cores": 2} and made["notes"] == ["noisy"]


def test_a_work_without_measurements_has_no_medians() -> None:
    assert medians(Results(), "ours", "set") is None


@pytest.mark.parametrize(("count", "words"), [(0, "not one reply"), (5, "")])
def test_a_work_without_a_reply_is_a_fault(count: int, words: str) -> None:
    assert Sample(count, 0.0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0).faults == words
