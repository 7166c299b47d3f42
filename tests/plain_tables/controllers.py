"""The tables `controller_terms` and `failovers`."""

from __future__ import annotations

import math
from itertools import pairwise

from tests.plain_tables.journals import NOT_RUNNING, Row, ms, of_type, wall


def _end_of_session(lines: list[Row], elected: Row, following: Row | None) -> Row | None:
    """Return the first entry about the end of the session that owned /controller in this term, or None.

    The term is between this election and the next one.
    """
    until = following["zxid"] if following is not None else math.inf
    closed = [line for line in of_type(lines, "session_closed") if "/controller" in line["ephemerals"]]
    return next((line for line in closed if elected["zxid"] < line["zxid"] < until), None)


def _end(lines: list[Row], elected: Row, following: Row | None) -> tuple[Row | None, str | None]:
    """Return the entry that ended a controller's term, and how it ended.

    A term ends with a resignation, the end of the session, or the next election.
    """
    expired = {line["session_id"] for line in of_type(lines, "session_expired")}
    ends: list[tuple[Row, str]] = [
        (line, line["reason"])
        for line in of_type(lines, "controller_resigned")
        if line["controller_epoch"] == elected["controller_epoch"] and line["reason"] in ("shutdown", "illegal_state")
    ]
    closed = _end_of_session(lines, elected, following)
    if closed is not None:
        ends.append((closed, "session_expired" if closed["session_id"] in expired else "session_closed"))
    if following is not None:
        ends.append((following, "superseded"))
    return min(ends, key=lambda end: end[0]["mono_us"], default=(None, None))


def _death(lines: list[Row], elected: Row, end: Row | None) -> Row | None:
    """Return the kill or freeze of the controller's process that ended its term, or None.

    The process must not have been restarted or resumed before the end of the term.
    """
    until = end["mono_us"] if end is not None else math.inf
    changes = [
        line
        for line in of_type(lines, "process_changed")
        if line["target"] == f"broker-{elected['broker_id']}" and elected["mono_us"] < line["mono_us"] < until
    ]
    return changes[-1] if changes and changes[-1]["process"] in NOT_RUNNING else None


def _lasted_us(elected: Row, end: Row) -> int:
    """Return the length of a term.

    If the controller itself reports the end, the length is measured on its own clock, otherwise on the run's clock.
    """
    clock = "wall_us" if end["node"] == elected["node"] else "mono_us"
    lasted: int = end[clock] - elected[clock]
    return lasted


def controller_terms(lines: list[Row]) -> list[Row]:
    """Return the rows of `controller_terms`, in the order of the elections."""
    elections = sorted(of_type(lines, "controller_elected"), key=lambda line: line["zxid"])
    ready = {line["controller_epoch"]: line for line in of_type(lines, "controller_ready")}
    rows: list[Row] = []
    before: tuple[Row, Row | None] | None = None
    for place, elected in enumerate(elections):
        following = elections[place + 1] if place + 1 < len(elections) else None
        end, ended_by = _end(lines, elected, following)
        lasted_us = None if end is None else _lasted_us(elected, end)
        row: Row = {
            "broker_id": elected["broker_id"], "controller_epoch": elected["controller_epoch"],
            "from_us": wall(elected), "to_us": None if lasted_us is None else elected["wall_us"] + lasted_us,
            "duration_ms": None if lasted_us is None else lasted_us // 1000, "ended_by": ended_by,
            "zxid": elected["zxid"],
            "gap_before_ms": None, "detection_ms": None, "election_ms": None, "loading_ms": None,
        }  # fmt: skip
        decided = ready.get(elected["controller_epoch"])
        if before is not None and decided is not None and before[1] is not None:
            began = _death(lines, *before) or before[1]
            row["gap_before_ms"] = ms(began, decided)
            row["detection_ms"] = ms(began, before[1])
            row["election_ms"] = ms(before[1], elected)
            row["loading_ms"] = ms(elected, decided)
        rows.append(row)
        before = (elected, end)
    return rows


def failovers(lines: list[Row]) -> list[Row]:
    """Return the rows of `failovers`: the phases of each failover."""
    terms = controller_terms(lines)
    elected = {line["controller_epoch"]: line for line in of_type(lines, "controller_elected")}
    ready = {line["controller_epoch"]: line for line in of_type(lines, "controller_ready")}
    propagated = {line["controller_epoch"]: line for line in of_type(lines, "controller_propagated")}
    rows = []
    for before, term in pairwise(terms):
        epoch = term["controller_epoch"]
        gap, propagate = term["gap_before_ms"], propagated.get(epoch, {}).get("propagate_ms")
        rows.append({
            "controller_epoch": epoch, "broker_id": term["broker_id"], "previous_broker_id": before["broker_id"],
            "cause": before["ended_by"], "at_us": wall(elected[epoch]), "detect_ms": term["detection_ms"],
            "elect_ms": term["election_ms"], "read_ms": ready.get(epoch, {}).get("read_ms"),
            "decide_ms": ready.get(epoch, {}).get("decide_ms"), "propagate_ms": propagate,
            "total_ms": None if gap is None or propagate is None else gap + propagate, "zxid": term["zxid"],
        })  # fmt: skip
    return rows
