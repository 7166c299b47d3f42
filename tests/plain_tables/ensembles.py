"""The tables `sessions`, `elections` and `faults`."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from tests.plain_tables.journals import NOT_RUNNING, Row, ms, of_type, wall

PHASES = ("ELECTION", "DISCOVERY", "SYNCHRONIZATION")
ACTIONS = ("kill", "stop", "restart", "pause")


def sessions(lines: list[Row]) -> list[Row]:
    """Return the rows of `sessions`: when each client session was created and closed or expired."""
    created: dict[int, dict[str, Row]] = defaultdict(dict)
    closed: dict[int, dict[str, Row]] = defaultdict(dict)
    expired: dict[int, Row] = {}
    for line in of_type(lines, "session_created", "session_closed", "session_expired"):
        if line["type"] == "session_expired":
            expired[line["session_id"]] = line
        else:
            reports = created if line["type"] == "session_created" else closed
            reports[line["session_id"]].setdefault(line["node"], line)
    rows = []
    for session_id in sorted({*created, *closed}):
        begun, ended = created[session_id], closed[session_id]
        first, last = (next(iter(reports.values()), None) for reports in (begun, ended))
        lengths = [line["mono_us"] - begun[peer]["mono_us"] for peer, line in ended.items() if peer in begun]
        expiry = expired.get(session_id)
        rows.append({
            "session_id": session_id, "timeout_ms": None if first is None else first["timeout_ms"],
            "from_us": wall(first), "to_us": wall(last),
            "duration_ms": int(median(lengths) // 1000) if lengths else None,
            "ended_by": None if last is None else "closed" if expiry is None else "expired",
            "heard_ms_ago": None if expiry is None else expiry["heard_ms_ago"],
            "ephemerals": None if last is None else last["ephemerals"],
            "created_zxid": None if first is None else first["zxid"],
            "closed_zxid": None if last is None else last["zxid"],
        })  # fmt: skip
    return rows


def elections(lines: list[Row]) -> list[Row]:
    """Return the rows of `elections`: the periods in which a peer had no leader."""
    rows: list[Row] = []
    for peer in sorted({line["node"] for line in of_type(lines, "peer_state_changed")}):
        own = [line for line in lines if line["node"] == peer]
        period: list[Row] = []
        for line in sorted(own, key=lambda line: line["node_seq"]):
            if line["type"] in ("node_started", "node_stopped"):
                if period:
                    rows.append(_period(period, line))
                period = []
            elif line["type"] == "peer_state_changed":
                if line["state"] == "LOOKING" or period:
                    period.append(line)
                if period and line["phase"] == "BROADCAST":
                    rows.append(_period(period, None))
                    period = []
        if period:
            rows.append(_period(period, None))
    return rows


def _period(period: list[Row], end: Row | None) -> Row:
    """Return the row for one period without a leader.

    `end` is the entry that ended the peer. If the peer was killed, `end` is the next start of that peer.
    """
    first, last = period[0], period[-1]
    is_done = last["phase"] == "BROADCAST"
    bounds = [*period[1:], *([end] if end is not None and end["type"] == "node_stopped" else [])]
    spent: dict[str, int | None] = dict.fromkeys(PHASES)
    for place, line in enumerate(period):
        if line["phase"] in PHASES:
            total = spent[line["phase"]] or 0
            ends = place < len(bounds)
            spent[line["phase"]] = total + bounds[place]["mono_us"] - line["mono_us"] if ends else None
    return {
        "peer": first["node"], "first_seq": first["node_seq"], "from_us": wall(first),
        "to_us": wall(last) if is_done else None,
        **{f"{phase.lower()}_ms": None if us is None else us // 1000 for phase, us in spent.items()},
        "total_ms": ms(first, last) if is_done else None,
        "rounds": len({line["round"] for line in period if line["state"] == "LOOKING"}),
        "state": last["state"] if is_done else None, "leader_id": last["leader_id"] if is_done else None,
        "epoch": last["current_epoch"] if is_done else None,
    }  # fmt: skip


def faults(lines: list[Row]) -> list[Row]:
    """Return the rows of `faults`: kills, stops, restarts and pauses of processes, and link faults."""
    rows = []
    for place, line in enumerate(lines):
        after = [later for later in lines[place + 1 :] if later["node"] == line["node"]]
        of_process = line["type"] == "process_changed" and line["process"] != "running" and line["action"] in ACTIONS
        if of_process:
            changes = [each for each in of_type(after, "process_changed") if each["target"] == line["target"]]
        elif line["type"] == "fault_injected":
            changes = [each for each in of_type(after, "fault_removed") if each["fault_id"] == line["fault_id"]]
        else:
            continue
        end = changes[0] if changes else None
        rows.append({
            "node": line["node"], "fault_id": line.get("fault_id"), "kind": line.get("kind", line.get("action")),
            "source": line.get("source", line["target"]), "target": line["target"],
            "both_ways": line.get("both_ways"), "delay_ms": line.get("delay_ms") if not of_process else None,
            "requester": line.get("requester") or None, "from_us": wall(line), "to_us": wall(end),
            "duration_ms": ms(line, end), "node_seq": line["node_seq"],
        })  # fmt: skip
    return rows


def is_stopped(line: Row) -> bool:
    """Return whether a process no longer runs after this entry."""
    return line["type"] == "process_changed" and line["process"] in NOT_RUNNING
