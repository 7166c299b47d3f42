"""The seeds that the test suite runs check every invariant at least once."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tests.simulation.checked_table import HEADING, HUNDRED, WHOLE, Table
from zabka.journal.checkers.cause_chains import NAME as CAUSE_CHAINS
from zabka.journal.checkers.invariants import default_checkers
from zabka.journal.checkers.zab_invariants import zab_checkers
from zabka.simulation.checkers import (
    kafka_rules,
    loaded_coordinators,
    platters,
    producer_states,
    replication_audit,
    serving,
    shutdowns,
    transaction_history,
    transaction_logs,
    watch_contract,
)
from zabka.simulation.checkers.stored_commits import ANSWERED, ON_DISKS

COUNTS = Path(__file__).with_name("checked_invariants.csv")
FEW = {"chaos": (0, 1, 12), "ensemble": range(5), "read-only": range(1)}
"""Seeds that this test runs. One of the `chaos` seeds has transactions."""
NOT_OF_WHOLE = {"TopicsGoWhenAsked"}
"""Invariants that these seeds of whole clusters do not check, because no topic is deleted in them.

Other seeds check these invariants.
"""
OF_WHOLE_CLIENTS = {"linearizable writes", "reads and watches", "clients' histories", "records", "groups"}
OF_PEERS = {
    producer_states.NAME,
    platters.NAME,
    platters.DURABLE,
    platters.COMMITS,
    platters.SNAPSHOTS,
    platters.SAME_HISTORY,
    watch_contract.NAME,
    watch_contract.AT_SESSION_END,
    serving.NAME,
    shutdowns.NAME,
    loaded_coordinators.NAME,
}
OF_TRANSACTIONS = {
    transaction_history.READ,
    transaction_history.WHOLE,
    transaction_history.KEPT,
    transaction_history.ONCE,
    transaction_history.TOGETHER,
    transaction_history.FENCED,
    transaction_history.ANOMALIES,
    transaction_logs.STABLE,
    transaction_logs.EPOCHS,
    transaction_logs.AGREE,
    transaction_logs.ON_DISKS,
}
OF_WORKLOADS = {"linearizable writes", "reads and watches", "read-only service", "records", "groups"}


def _of_journals_and_logs() -> set[str]:
    checkers = [each.name for each in (*default_checkers(), *zab_checkers()) if each.checked is not None]
    told = f"{replication_audit.__doc__}{kafka_rules.__doc__}"
    of_logs = set(re.findall(r"^([A-Z]\w+)  +", told, re.MULTILINE))
    assert len(of_logs) == 12
    return {*checkers, *of_logs, CAUSE_CHAINS}


def _every_invariant() -> set[str]:
    return _of_journals_and_logs() | OF_PEERS | OF_WORKLOADS | OF_TRANSACTIONS


def _every_invariant_of_whole_processes() -> set[str]:
    return (_of_journals_and_logs() | OF_WHOLE_CLIENTS | OF_PEERS | {ON_DISKS, ANSWERED}) - NOT_OF_WHOLE


def _rows(times: str) -> dict[str, int]:
    """Return the counts in a column of the table, without the invariants that these seeds do not check."""
    with COUNTS.open(newline="") as file:
        rows = csv.DictReader(file)
        assert tuple(rows.fieldnames or ()) == HEADING
        return {row["invariant"]: int(row[times]) for row in rows if row[times]}


@pytest.mark.long
def test_every_invariant_is_checked_by_a_few_seeds() -> None:
    table = Table().play(FEW)

    assert table.problems == []
    assert set(table.times) == _every_invariant()
    assert [name for name, times in table.times.items() if not times] == []


def test_table_of_100_seeds_lists_every_invariant_as_checked() -> None:
    rows = _rows("times")

    assert set(rows) == _every_invariant()
    assert [name for name, times in rows.items() if not times] == []
    assert sum(len(seeds) for seeds in HUNDRED.values()) == 100


def test_table_of_full_process_runs_lists_every_invariant() -> None:
    rows = _rows("times_whole")

    assert set(rows) == _every_invariant_of_whole_processes()
    assert [name for name, times in rows.items() if not times] == []
    assert sum(len(seeds) for seeds in WHOLE.values()) == 50


@pytest.mark.long
def test_every_invariant_is_checked_in_100_seeds() -> None:
    table = Table().play(HUNDRED)

    assert table.problems == []
    assert [name for name in sorted(_every_invariant()) if not table.times[name]] == []


@pytest.mark.long
def test_every_invariant_is_checked_in_50_full_process_seeds() -> None:
    table = Table().play(WHOLE)

    assert table.problems == []
    assert [name for name in sorted(_every_invariant_of_whole_processes()) if not table.times[name]] == []
