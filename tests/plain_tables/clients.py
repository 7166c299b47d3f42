"""The tables `client_availability`, `records_lost` and `transactions`."""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.plain_tables.journals import Row, ms, of_type, wall

Log = tuple[str, int, str]
"""Identifies a log: topic, partition and topic id."""


def client_availability(lines: list[Row]) -> list[Row]:
    """Return the rows of `client_availability`: the writes of built-in workloads, from the last report of each
    workload.
    """
    reports: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for line in of_type(lines, "workload_progressed"):
        reports[line["node"], line["workload_id"], line["topic"]].append(line)
    rows = []
    for (node, workload_id, topic), own in sorted(reports.items()):
        first, last = own[0], own[-1]
        running, waited = (last[name] if last.get(name, -1) >= 0 else None for name in ("running_ms", "waited_ms"))
        rows.append({
            "node": node, "workload_id": workload_id, "topic": topic, "acks": last.get("acks") or None,
            "from_us": wall(first), "to_us": wall(last),
            **{name: last[name] for name in ("sent", "acknowledged", "failed", "lost")},
            "running_ms": running, "waited_ms": waited,
            "share": 1 - waited / running if running else None,
        })  # fmt: skip
    return rows


def _marks(lines: list[Row]) -> dict[tuple[Log, int], int]:
    """Return the highest high watermark that any replica reported in each log and leader epoch."""
    marks: dict[tuple[Log, int], int] = defaultdict(int)
    roles: dict[tuple[str, str, int], tuple[Log, int, int | None]] = {}
    """(Log, leader epoch, last reported high watermark) of each replica's role, keyed by node, topic and partition.

    The high watermark is None before a follower's first report in that epoch, and always -1 for a leader.
    """
    for line in of_type(lines, "leadership_taken", "followership_taken", "replica_progressed"):
        if line["type"] == "replica_progressed":
            for topic, partition, mark, _ in line["replicas"]:
                role = roles.get((line["node"], topic, partition))
                if role is None:
                    continue
                log, epoch, before = role
                if before is not None and mark > before:
                    marks[log, epoch] = max(marks[log, epoch], mark)
                roles[line["node"], topic, partition] = (log, epoch, -1 if before == -1 else mark)
        else:
            log = (line["topic"], line["partition"], line.get("topic_id", ""))
            leads = line["type"] == "leadership_taken"
            if leads:
                marks[log, line["leader_epoch"]] = max(marks[log, line["leader_epoch"]], line["high_watermark"])
            roles[line["node"], line["topic"], line["partition"]] = (log, line["leader_epoch"], -1 if leads else None)
    return marks


def records_lost(lines: list[Row]) -> list[Row]:
    """Return the rows of `records_lost`: the ranges of lost offsets of each partition."""
    marks, losses = _marks(lines), of_type(lines, "records_lost")
    logs: dict[Log, list[Row]] = defaultdict(list)
    for loss in losses:
        logs[loss["topic"], loss["partition"], loss.get("topic_id", "")].append(loss)
    missing = _missing(lines)
    rows = []
    for log, own in sorted(logs.items()):
        lost: set[int] = set()
        committed: set[int] = set()
        for loss in own:
            first, last = loss["first_offset"], loss["last_offset"]
            lost.update(range(first, last + 1))
            reported = loss.get("committed_at_least", -1)
            reported = loss["below_high_watermark"] if reported < 0 else reported
            mark = marks.get((log, loss.get("leader_epoch", -1)), 0)
            committed.update(range(first, max(first + reported, min(mark, last + 1))))
        for first, last in _spans(lost):
            span = set(range(first, last + 1))
            by = [loss for loss in own if loss["first_offset"] <= last and loss["last_offset"] >= first]
            known = missing.get(log[0])
            rows.append({
                "topic": log[0], "partition": log[1], "topic_id": log[2], "first_offset": first, "last_offset": last,
                "count": len(span), "committed_at_least": len(span & committed),
                "below_high_watermark": len(span & committed),
                "acknowledged": None if known is None else sum(
                    min(count, min(to, last) - max(since, first) + 1)
                    for since, to, count in known.get(log[1], []) if since <= last and to >= first
                ),
                "broker_ids": sorted({loss["broker_id"] for loss in by}),
                "causes": sorted({loss["cause"] for loss in by}),
                "first_us": wall(by[0]), "last_us": wall(by[-1]),
            })  # fmt: skip
    return rows


def _spans(offsets: set[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if spans and spans[-1][1] == offset - 1:
            spans[-1] = (spans[-1][0], offset)
        else:
            spans.append((offset, offset))
    return spans


def _missing(lines: list[Row]) -> dict[str, dict[int, list[tuple[int, int, int]]]]:
    """Return the offset ranges that workloads with acks 1 or all reported as missing in their last report.

    The result maps a topic and a partition to (first offset, last offset, number of missing records in this range).
    """
    last = {line["workload_id"]: line for line in of_type(lines, "workload_progressed")}
    found: dict[str, dict[int, list[tuple[int, int, int]]]] = {}
    for line in last.values():
        if line.get("acks") not in ("1", "all"):
            continue
        own = found.setdefault(line["topic"], {})
        for span in line.get("missing", []):
            own.setdefault(span["partition"], []).append((span["first_offset"], span["last_offset"], span["count"]))
    return found


def transactions(lines: list[Row]) -> list[Row]:
    """Return the rows of `transactions`.

    Lines of a transactional id with the same start time are about one transaction.
    """
    changes: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for line in of_type(lines, "transaction_changed"):
        if line["state"] == "Ongoing" or line["state"].startswith(("Prepare", "Complete")):
            changes[line["transactional_id"], line["started_ms"]].append(line)
    numbers: Counter[str] = Counter()
    rows = []
    for (transactional_id, _), own in changes.items():
        numbers[transactional_id] += 1
        rows.append({"transactional_id": transactional_id, "number": numbers[transactional_id], **_transaction(own)})
    return rows


def _transaction(own: list[Row]) -> Row:
    begun, decided, ended = (
        next((line for line in own if line["state"].startswith(state) and line["after"] != "loaded"), None)
        for state in ("Ongoing", "Prepare", "Complete")
    )
    outcomes = [line["state"] for line in own if line["state"] != "Ongoing"]
    is_aborted = bool(outcomes) and outcomes[0].endswith("Abort")
    return {
        "producer_id": own[0]["producer_id"], "producer_epoch": own[0]["producer_epoch"],
        "from_us": own[0]["started_ms"] * 1000 if begun is None else wall(begun),
        "decided_us": wall(decided), "to_us": wall(ended),
        "outcome": ("aborted" if is_aborted else "committed") if outcomes else None,
        "abort_reason": decided["after"] if is_aborted and decided is not None else None,
        "partitions": sorted({partition for line in own for partition in line["partitions"]}), "markers": None,
        "duration_ms": None if begun is None else ms(begun, ended),
        "decision_ms": None if begun is None else ms(begun, decided),
    }  # fmt: skip
