"""Compare the tables of a live run with the tables computed in plain Python, value by value.

`python -m tests.plain_tables.compare DATA` prints the differences. Run `zabka pipeline tables --data DATA` first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from tests.plain_tables.availability import availability
from tests.plain_tables.clients import client_availability, records_lost, transactions
from tests.plain_tables.controllers import controller_terms, failovers
from tests.plain_tables.ensembles import elections, faults, sessions
from tests.plain_tables.incidents import incidents
from tests.plain_tables.journals import Row, read
from tests.plain_tables.partitions import isr_changes, isr_membership, partition_leaderships

SHARE_MAX = 1e-6
"""Tolerance for shares, which the tables round to six digits."""
RUN_US_MAX = 1_000
"""Tolerance in µs: a time on the run's clock differs slightly from the time on the node's wall clock, which is
slewed.
"""
ON_RUN_CLOCK = frozenset({("incidents", "from_us")})
NOT_COMPUTED = {
    "incidents": {
        # These columns need recorded causes, which show the decisions that belong to an incident.
        "number", "to_us", "duration_ms", "detected_by", "detection_ms", "committed_at_least", "acknowledged",
        "headline", "summary",
    },
}  # fmt: skip
_OF_RUN = {"run", "cluster_run", "simulated_run", "run_us"}


class Table(NamedTuple):
    """Function that computes a table, and the columns that identify a row."""

    rows_of: Callable[[list[Row]], list[Row]]
    key: tuple[str, ...]


_WRITE = ("topic", "partition", "zxid", "partition_epoch")
TABLES = {
    "controller_terms": Table(controller_terms, ("controller_epoch",)),
    "failovers": Table(failovers, ("controller_epoch",)),
    "partition_leaderships": Table(partition_leaderships, _WRITE),
    "isr_changes": Table(isr_changes, _WRITE),
    "isr_membership": Table(isr_membership, ("topic", "partition", "life", "replica", "from_zxid")),
    "availability": Table(availability, ("topic", "partition")),
    "client_availability": Table(client_availability, ("node", "workload_id", "topic")),
    "records_lost": Table(records_lost, ("topic", "partition", "topic_id", "first_offset")),
    "transactions": Table(transactions, ("transactional_id", "number")),
    "sessions": Table(sessions, ("session_id",)),
    "elections": Table(elections, ("peer", "first_seq")),
    "faults": Table(faults, ("node", "node_seq")),
    "incidents": Table(incidents, ("cause_node", "cause_node_seq")),
    "clock_steps": Table(lambda lines: [], ("node", "node_seq")),
    "bad_lines": Table(lambda lines: [], ("file", "position")),
}


class Compared(NamedTuple):
    """Number of compared rows and values of a table, and the differences."""

    rows: int
    figures: int
    differences: list[str]


def compare(name: str, data: Path, lines: list[Row]) -> Compared:
    """Compare one table of a data directory with the table computed from its journals' lines."""
    table = TABLES[name]
    found = pq.read_table((data / "analytics" / name).resolve()).to_pylist()
    differences: list[str] = []
    expected = _by_key(name, table.rows_of(lines), "computed", differences)
    rows = _by_key(name, found, "in the table", differences)
    differences += [f"{name} {key} is only in the table" for key in rows.keys() - expected.keys()]
    differences += [f"{name} {key} is not in the table" for key in expected.keys() - rows.keys()]
    figures = 0
    for key in sorted(rows.keys() & expected.keys(), key=str):
        computed, row = expected[key], rows[key]
        columns = {each for each in row if not each.endswith("_ts")} - _OF_RUN - NOT_COMPUTED.get(name, set())
        figures += len(columns)
        differences += [
            f"{name} {key}: {column} is {row[column]!r} in the table, and {computed.get(column)!r} was computed"
            for column in sorted(columns)
            if not _is_equal(name, column, row[column], computed[column])
        ]
    return Compared(len(rows), figures, differences)


def _by_key(name: str, rows: list[Row], where: str, differences: list[str]) -> dict[tuple[object, ...], Row]:
    """Return rows by their key. Add a difference for each row whose key another row has already."""
    by_key: dict[tuple[object, ...], Row] = {}
    for row in rows:
        key = tuple(row[part] for part in TABLES[name].key)
        if key in by_key:
            differences.append(f"{name} {key} is {where} more than once")
        by_key[key] = row
    return by_key


def _is_equal(table: str, column: str, one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return sorted(one, key=str) == sorted(other, key=str)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) < SHARE_MAX
    if isinstance(one, int) and isinstance(other, int) and (table, column) in ON_RUN_CLOCK:
        return abs(one - other) < RUN_US_MAX
    return one == other


def main(data: Path) -> int:
    """Print the comparison of all tables. Return 1 if a value differs."""
    lines = read(data)
    compared = {name: compare(name, data, lines) for name in TABLES}
    for name, each in compared.items():
        sys.stdout.write(f"{name}: {each.rows} rows, {each.figures} figures, {len(each.differences)} differ\n")
        sys.stdout.writelines(f"  {difference}\n" for difference in each.differences)
    return int(any(each.differences for each in compared.values()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
