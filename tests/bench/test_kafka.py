"""The broker benchmark: its grid of workloads, and its clients with real brokers."""

from __future__ import annotations

import pytest
import typer

from bench.kafka import ACKS, CLIENTS, PARTITIONS, SIZES, Work, main, works


def test_grid_has_each_combination_once_with_fetches_last() -> None:
    found = [(work.acks, work.partitions, work.size, work.clients) for work in works(grid=True)]
    assert sorted(found) == sorted(
        (a, p, s, c) for a in (*ACKS, "") for p in PARTITIONS for s in SIZES for c in CLIENTS
    )
    for partitions in PARTITIONS:
        for size in SIZES:
            order = [acks for acks, p, s, _ in found if (p, s) == (partitions, size)]
            assert order == sorted(order, key=lambda acks: acks == "")


def test_short_workload_list_has_three_workloads_per_record_size() -> None:
    assert [(work.size, work.acks, bool(work.rate)) for work in works(grid=False)] == [
        (size, acks, rate) for size in SIZES for acks, rate in (("all", False), ("", False), ("all", True))
    ]


def test_title_contains_the_rate_of_a_paced_producer() -> None:
    assert Work("all", 3, 100, rate=50).title == "produce acks=all, 3 partitions, 100 B, 1 clients, 50/s"
    assert Work("", 1, 1000, 16).title == "fetch, 1 partitions, 1000 B, 16 clients"


@pytest.mark.long
def test_short_benchmark_run_measures_our_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        main(only="ours", quick=True)
    assert ended.value.exit_code == 0
    assert "produce acks=all, 3 partitions, 100 B, 1 clients, 100/s" in capsys.readouterr().out
