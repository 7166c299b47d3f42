"""The gold tables: for each, its name, its function, its key, and the conditions that its rows must meet.

The jobs write these tables, the dashboard shows them, and `docs/reference/tables.md` documents them. To add a table,
write its function, whose docstring defines a row, and add it here.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as f

from zabka.journal.incidents import KINDS
from zabka.pipeline.availability import availability, client_availability
from zabka.pipeline.columns import finished
from zabka.pipeline.controller_terms import controller_terms, failovers
from zabka.pipeline.ensembles import elections, sessions
from zabka.pipeline.incidents import incidents
from zabka.pipeline.losses import records_lost
from zabka.pipeline.rows import Journal
from zabka.pipeline.tables import (
    bad_lines,
    clock_steps,
    faults,
    isr_changes,
    isr_membership,
    partition_leaderships,
)
from zabka.pipeline.transactions import transactions


class Expectation(NamedTuple):
    """A condition on every row of a table: its name, and a function that returns the SQL column for violations.

    The column is true in rows that violate the condition.
    """

    name: str
    broken: Callable[[], Column]


class Table(NamedTuple):
    """A gold table. `key` identifies a row, rows are sorted by `order`, `sources` are the event types that it needs.

    The table has no row without an event of a type in `rows_of`; the other types only add to its rows. A table without
    sources is built from `made_of`.
    """

    name: str
    build: Callable[[Journal], DataFrame]
    key: tuple[str, ...]
    order: tuple[str, ...]
    sources: tuple[str, ...]
    rules: tuple[Expectation, ...] = ()
    rows_of: tuple[str, ...] = ()
    made_of: str = ""

    def depends_on(self, new: AbstractSet[str], seen: AbstractSet[str]) -> bool:
        """Return whether new events of the types `new` change the table. `seen` are the types of all events so far."""
        return not new.isdisjoint(self.sources) and self.can_have_rows(seen)

    def can_have_rows(self, seen: AbstractSet[str | None]) -> bool:
        """Return whether the table of a history with events of these types can have a row."""
        return not self.rows_of or not seen.isdisjoint(self.rows_of)

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Conditions that the rows of the table must meet: the unique key, and the table's own rules."""

        def again() -> Column:
            return f.row_number().over(Window.partitionBy(*self.key).orderBy(*self.order)) > 1

        return (Expectation(f"{', '.join(self.key)} identify a row", again), *self.rules)


def rising(what: str, within: tuple[str, ...], order: tuple[str, ...]) -> Expectation:
    """Expect that the number `what` is higher in every row than in the previous row, in that order."""

    def broken() -> Column:
        return f.col(what) <= f.lag(what).over(Window.partitionBy(*within).orderBy(*order))

    return Expectation(f"{what} rises with {order[0]} within {', '.join(within)}", broken)


def apart(begin: str, end: str, within: tuple[str, ...], order: tuple[str, ...]) -> Expectation:
    """Expect that a period ends before the next period begins."""

    def broken() -> Column:
        return f.col(end) >= f.lead(begin).over(Window.partitionBy(*within).orderBy(*order))

    return Expectation(f"spans from {begin} to {end} do not overlap within {', '.join(within)}", broken)


def never(name: str, broken: str) -> Expectation:
    """Expect that the SQL expression `broken` is true in no row."""
    return Expectation(name, lambda: f.expr(broken))


_PARTITION = ("run", "topic", "partition")
_LIFE = (*_PARTITION, "life")
_LOG = (*_PARTITION, "topic_id")
_STATES = ("leader_elected", "isr_changed", "topic_deleted", "controller_elected", "session_created", "session_closed")
_PROCESSES = ("process_changed", "node_started", "node_stopped", "fault_injected", "fault_removed", "config_changed")
_TERM_EVENTS = (
    "controller_elected", "controller_resigned", "session_created", "session_closed", "broker_session_changed",
    "controller_ready", "process_changed", "node_started", "node_stopped", "fault_injected", "fault_removed",
)  # fmt: skip

_LOSSES = (
    "records_lost", "leadership_taken", "followership_taken", "replica_progressed", "workload_progressed",
)  # fmt: skip

TABLES = (
    Table(
        "controller_terms", controller_terms, ("run", "controller_epoch"), ("run", "controller_epoch"), _TERM_EVENTS,
        (
            rising("zxid", ("run",), ("controller_epoch",)),
            never("no term ends before it begins", "to_us < from_us"),
            never("no part of a gap is negative", "least(detection_ms, loading_ms) < 0"),
        ),
        rows_of=("controller_elected",),
    ),
    Table(
        "failovers", failovers, ("run", "controller_epoch"), ("run", "controller_epoch"),
        (*_TERM_EVENTS, "controller_propagated"),
        (never("no phase is negative", "least(detect_ms, read_ms, decide_ms, propagate_ms) < 0"),),
        rows_of=("controller_elected",),
    ),
    Table(
        "partition_leaderships", partition_leaderships, (*_PARTITION, "zxid", "partition_epoch"),
        (*_PARTITION, "zxid", "partition_epoch"), _STATES,
        (rising("leader_epoch", _LIFE, ("zxid", "partition_epoch")),),
        rows_of=("leader_elected",),
    ),
    Table(
        "isr_changes", isr_changes, (*_PARTITION, "zxid", "partition_epoch"), (*_PARTITION, "zxid", "partition_epoch"),
        (*_STATES, "isr_proposed"),
        (rising("partition_epoch", _LIFE, ("zxid", "partition_epoch")),),
        rows_of=("leader_elected", "isr_changed"),
    ),
    Table(
        "isr_membership", isr_membership, (*_LIFE, "replica", "from_zxid"), (*_LIFE, "replica", "from_zxid"), _STATES,
        (rising("from_zxid", (*_LIFE, "replica"), ("from_zxid",)),),
        rows_of=("leader_elected", "isr_changed"),
    ),
    Table(
        "availability", availability, _PARTITION, _PARTITION, (*_STATES, *_PROCESSES),
        (
            never("a share is between 0 and 1", "availability_acks_1 > 1 OR availability_acks_all < 0"),
            never("acks=all is not available for longer than acks=1", "available_acks_all_ms > available_acks_1_ms"),
        ),
        rows_of=("leader_elected",),
    ),
    Table(
        "client_availability", client_availability, ("run", "node", "workload_id", "topic"),
        ("run", "node", "workload_id", "topic"), ("workload_progressed",),
        (
            never("no more is answered than was sent", "try_add(acknowledged, failed) > sent"),
            never("no client waits for longer than it runs", "waited_ms > running_ms"),
        ),
        rows_of=("workload_progressed",),
    ),
    Table(
        "records_lost", records_lost, (*_LOG, "first_offset"), (*_LOG, "first_offset"), _LOSSES,
        (
            apart("first_offset", "last_offset", _LOG, ("first_offset",)),
            never("no more is committed than lost", "committed_at_least > count"),
        ),
        rows_of=("records_lost",),
    ),
    Table(
        "transactions", transactions, ("run", "transactional_id", "number"), ("run", "transactional_id", "number"),
        ("transaction_changed", "marker_written"),
        (never("only an aborted transaction has a reason", "outcome <> 'aborted' AND abort_reason IS NOT NULL"),),
        rows_of=("transaction_changed",),
    ),
    Table(
        "sessions", sessions, ("run", "session_id"), ("run", "created_zxid", "session_id"),
        ("session_created", "session_closed", "session_expired"),
        (never("no session ends before it begins", "closed_zxid <= created_zxid"),),
        rows_of=("session_created", "session_closed"),
    ),
    Table(
        "elections", elections, ("run", "peer", "first_seq"), ("run", "peer", "first_seq"),
        ("peer_state_changed", "node_started", "node_stopped"),
        (never("no phase is negative", "least(election_ms, discovery_ms, synchronization_ms) < 0"),),
        rows_of=("peer_state_changed",),
    ),
    Table(
        "faults", faults, ("run", "node", "node_seq"), ("run", "node", "node_seq"),
        ("fault_injected", "fault_removed", "process_changed"),
        rows_of=("fault_injected", "process_changed"),
    ),
    Table(
        "incidents", incidents, ("run", "number"), ("run", "number"), KINDS,
        (never("no incident ends before it begins", "to_us < from_us"),),
    ),
    Table(
        "clock_steps", clock_steps, ("run", "node", "node_seq"), ("run", "node", "node_seq"), (),
        made_of="the clock readings of all events that the other tables need",
    ),
    Table(
        "bad_lines", bad_lines, ("run", "file", "position"), ("run", "file", "position"), (),
        made_of="the lines that are no entries",
    ),
)  # fmt: skip
TYPES = tuple(sorted({kind for table in TABLES for kind in table.sources}))
"""Event types from which the tables are built. A reader can skip all others."""
NAMES = tuple(table.name for table in TABLES)


class Observed(NamedTuple):
    """A table to write. During the write, it counts its rows and the rows that violate a condition."""

    frame: DataFrame
    observation: Observation
    rules: list[str]

    def rows(self) -> int:
        """Return the number of rows written. Call it after the write."""
        return int(self.observation.get["rows"])

    def broken(self) -> dict[str, int]:
        """Return the number of violating rows for each condition that is violated."""
        counts = self.observation.get
        return {rule: counts[f"rule_{n}"] for n, rule in enumerate(self.rules) if counts[f"rule_{n}"]}


def observed(table: Table, journal: Journal) -> Observed:
    """Return a table's rows in the table's order, together with an observation of its conditions.

    Spark counts the rows, and the violations of each condition, while the table is written.
    """
    ordered = checked(table, journal)
    rules = table.expectations
    observation = Observation(table.name)
    counts = [f.coalesce(f.sum(check), f.lit(0)).alias(check) for check in checks(table)]
    written = ordered.observe(observation, f.count(f.lit(1)).alias("rows"), *counts).drop(*checks(table))
    return Observed(written, observation, [rule.name for rule in rules])


def checked(table: Table, journal: Journal) -> DataFrame:
    """Return a table in its order, with a column for each of its conditions: 1 in rows that violate the condition."""
    broken = {
        check: f.coalesce(rule.broken(), f.lit(False)).cast("bigint")
        for check, rule in zip(checks(table), table.expectations, strict=True)
    }
    return journal.in_order(finished(table.build(journal)).withColumns(broken), table.order)


def checks(table: Table) -> list[str]:
    """Return the names of the columns that `checked` adds for the table's conditions."""
    return [f"rule_{n}" for n in range(len(table.expectations))]
