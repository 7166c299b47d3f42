"""The measurement of fail-over: its arithmetic, and one freeze of each kind on real servers."""

from __future__ import annotations

import json

import pytest
import typer

from bench.ensembles import Shape
from bench.failover import Fault, Round, main, row


def test_of_a_frozen_leaders_failover_only_the_time_beyond_sync_limit_counts() -> None:
    rounds = [Round("ours", Fault.FROZEN, took_ms) for took_ms in (1010.0, 1050.0, 1020.0)]
    found = row(rounds, Fault.FROZEN, Shape(tick_ms=500, sync_limit_ticks=2))
    assert (found.median_ms, found.worst_ms, found.over_ms, found.worst_over_ms) == (1020.0, 1050.0, 20.0, 50.0)


def test_a_killed_leader_has_no_limit_and_every_loss_is_counted() -> None:
    rounds = [Round("ours", Fault.KILLED, 10.0), Round("ours", Fault.KILLED, 20.0, lost=2, session_kept=False)]
    found = row(rounds, Fault.KILLED, Shape())
    assert (found.over_ms, found.lost, found.sessions_lost) == (None, 2, 1)


def test_frozen_servers_are_found_and_nothing_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        main(kills=0, freezes=1, peers=3, tick_time=200, sync_limit=2, zookeeper=False, as_json=True)

    assert ended.value.exit_code == 0
    summaries = json.loads(capsys.readouterr().out)["summaries"]
    assert set(summaries) == {"frozen/ours", "quorum/ours"}
    assert summaries["frozen/ours"]["lost"] == summaries["frozen/ours"]["sessions_lost"] == 0
