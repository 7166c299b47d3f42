"""Tables of simulated runs, compared with the folded states of the cluster and with SQL in DuckDB.

The states are computed from the events in their true order. All tables are compared row by row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline import outages
from tests.pipeline.folded import Folded, folded, play
from tests.pipeline.in_order import rows_of
from zabka.pipeline import jobs, tables
from zabka.pipeline.availability import availability
from zabka.pipeline.controller_terms import CLOSED, controller_terms
from zabka.pipeline.losses import records_lost
from zabka.pipeline.rows import Journal

CLOSE_MS = 100
"""Tolerance for times in ms.

The nodes' clocks differ by up to 500 ms, and a broker can receive its new session slightly later than the peers.
"""
ROUNDED_MS = 10
"""Tolerance for rounding in ms.

Each part of a partition's time is rounded separately, and the median clock is rounded to microseconds.
"""

_LOSS = ("first_offset", "last_offset", "count", "committed_at_least")

LEADERSHIPS = """
SELECT filename, topic, "partition", leader, leader_epoch, partition_epoch, isr, unclean
FROM (SELECT DISTINCT ON (filename, topic, "partition", zxid) * FROM journal WHERE type = 'leader_elected')
ORDER BY filename, topic, "partition", zxid
"""
ISR_CHANGES = """
WITH writes AS (
  SELECT DISTINCT ON (filename, topic, "partition", zxid) * FROM journal
  WHERE type IN ('leader_elected', 'isr_changed')
  ORDER BY filename, topic, "partition", zxid, type = 'isr_changed'
), places AS (
  SELECT *, lag(isr) OVER (PARTITION BY filename, topic, "partition" ORDER BY zxid) AS before FROM writes
)
SELECT filename, topic, "partition", before, isr, partition_epoch, cause FROM places
WHERE before IS NULL OR list_sort(before) <> list_sort(isr)
ORDER BY filename, topic, "partition", zxid
"""
CONTROLLER_TERMS = """
WITH terms AS (
  SELECT filename, broker_id, controller_epoch, wall_us, zxid,
    lead(zxid) OVER (PARTITION BY filename ORDER BY zxid) AS until
  FROM journal WHERE type = 'controller_elected'
)
SELECT filename, broker_id, controller_epoch, wall_us, EXISTS (
  SELECT 1 FROM journal AS c WHERE c.filename = terms.filename AND c.type = 'session_closed'
    AND list_contains(c.ephemerals, '/controller') AND c.zxid > terms.zxid AND c.zxid < coalesce(until, c.zxid + 1)
) AS closed
FROM terms ORDER BY filename, zxid
"""
COLUMNS = {
    "type": "VARCHAR", "wall_us": "BIGINT", "zxid": "BIGINT", "topic": "VARCHAR", "partition": "INT", "leader": "INT",
    "leader_epoch": "INT", "partition_epoch": "INT", "isr": "INT[]", "unclean": "BOOLEAN", "cause": "VARCHAR",
    "broker_id": "INT", "controller_epoch": "INT", "ephemerals": "VARCHAR[]",
}  # fmt: skip


class Seeds:
    """Journals of some seeds in one directory, as Spark reads them, and the expected rows of each seed."""

    def __init__(self, spark: SparkSession, directory: Path, seeds: range, untold: bytes | None = None) -> None:
        for seed in seeds:
            play(seed, directory)
        if untold is not None:
            for path in directory.iterdir():
                lines = path.read_bytes().splitlines(keepends=True)
                path.write_bytes(b"".join(line for line in lines if untold not in line))
        self.directory = directory
        self.expected: dict[str, Folded] = {path.name: folded(path) for path in sorted(directory.iterdir())}
        self.journal = jobs.read_journal(spark, directory)

    def rows(self, build: Callable[[Journal], DataFrame], *columns: str) -> dict[str, list[tuple[Any, ...]]]:
        found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for row in rows_of(self.journal, build, *columns):
            found[row[0]].append(tuple(row)[1:])
        return {run: found[run] for run in self.expected}

    def compare(self) -> None:
        assert self.rows(
            tables.partition_leaderships,
            "topic", "partition", "life", "leader", "leader_epoch", "partition_epoch", "isr", "unclean",
        ) == {run: expected.leaderships for run, expected in self.expected.items()}  # fmt: skip
        assert self.rows(tables.isr_changes, "topic", "partition", "life", "isr_before", "isr", "partition_epoch") == {
            run: expected.isr_changes for run, expected in self.expected.items()
        }
        terms = self.rows(
            controller_terms,
            "broker_id", "controller_epoch", "from_us", "ended_by", "duration_ms", "gap_before_ms",
        )  # fmt: skip
        found = {run: [row[:4] for row in rows] for run, rows in terms.items()}
        assert found == {run: expected.controller_terms for run, expected in self.expected.items()}
        for run, expected in self.expected.items():
            for row, durations in zip(terms[run], expected.durations, strict=True):
                assert row[4:] == pytest.approx(durations, abs=CLOSE_MS), run
        self.compare_outages()

    def compare_outages(self) -> None:
        """Assert that the availability is equal up to rounding, and that the lost records are equal."""
        spent = self.rows(availability, "topic", "partition", *(f"{s}_ms" for s in outages.STATES))
        lost = self.rows(records_lost, "topic", "partition", "topic_id", *_LOSS)
        for run in self.expected:
            expected = outages.availability(self.directory / run)
            assert [row[:2] for row in spent[run]] == list(expected), run
            for row, states in zip(spent[run], expected.values(), strict=True):
                assert row[2:] == pytest.approx(tuple(states.values()), abs=ROUNDED_MS), (run, row)
            offsets: dict[tuple[str, int, str], list[int]] = defaultdict(list)
            committed: dict[tuple[str, int, str], int] = defaultdict(int)
            for topic, partition, topic_id, first, last, count, committed_at_least in lost[run]:
                offsets[topic, partition, topic_id] += range(first, last + 1)
                committed[topic, partition, topic_id] += committed_at_least
                assert count == last + 1 - first
            assert offsets == outages.lost_offsets(self.directory / run)
            assert committed == outages.committed_offsets(self.directory / run)


@pytest.fixture(scope="module")
def seeds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return Seeds(spark, tmp_path_factory.mktemp("seeds"), range(1, 4))


@pytest.mark.timeout(600)
@pytest.mark.long
def test_tables_under_clock_skew_equal_the_true_states(seeds: Seeds) -> None:
    seeds.compare()


@pytest.mark.timeout(600)
def test_tables_equal_those_of_plain_sql_in_duckdb(seeds: Seeds) -> None:
    connection = duckdb.connect()
    connection.read_json(
        str(seeds.directory / "*.jsonl"), format="newline_delimited", columns=COLUMNS, filename=True
    ).create_view("journal")

    def asked(query: str) -> list[tuple[Any, ...]]:
        return [(Path(row[0]).name, *row[1:]) for row in connection.execute(query).fetchall()]

    def found(build: Callable[[Journal], DataFrame], *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in rows_of(seeds.journal, build, *columns)]

    columns = ["topic", "partition", "leader", "leader_epoch", "partition_epoch", "isr", "unclean"]
    assert found(tables.partition_leaderships, *columns) == asked(LEADERSHIPS)
    changes = found(tables.isr_changes, "topic", "partition", "isr_before", "isr", "partition_epoch", "cause")
    assert changes == [(*row[:3], row[3] or [], *row[4:]) for row in asked(ISR_CHANGES)]
    terms = found(controller_terms, "broker_id", "controller_epoch", "from_us", "ended_by")
    assert [row[:4] for row in terms] == [row[:4] for row in asked(CONTROLLER_TERMS)]
    closed = {row[:3] for row in asked(CONTROLLER_TERMS) if row[4]}
    # A controller that resigned by itself did so before its session was closed.
    assert all(row[:3] in closed for row in terms if row[4] in CLOSED)
    assert all(row[4] in ("shutdown", "illegal_state") for row in terms if row[4] not in CLOSED and row[:3] in closed)


@pytest.mark.timeout(600)
def test_availability_is_exact_without_power_loss_events(spark: SparkSession, tmp_path: Path) -> None:
    seeds = Seeds(spark, tmp_path, range(1, 6), untold=b'"kind":"power_loss"')
    spent = [row for rows in seeds.rows(availability, "unseen_ms").values() for row in rows]
    assert sum(unseen_ms > 0 for (unseen_ms,) in spent) > 5
    seeds.compare_outages()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_tables_of_200_seeds_equal_states_folded_from_journals(spark: SparkSession, tmp_path: Path) -> None:
    Seeds(spark, tmp_path, range(21, 221)).compare()
