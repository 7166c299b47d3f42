"""The table `incidents`, for runs with kills, pauses and network partitions of running nodes.

The pipeline links a fault to its effects by the causes in the journal. This code uses times instead: an effect on a
broker is attributed to the latest earlier fault of that broker. Times of decisions (`detected_by`, `to_us`) need the
causes and are not computed here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.plain_tables.availability import Cluster
from tests.plain_tables.controllers import controller_terms
from tests.plain_tables.ensembles import faults
from tests.plain_tables.journals import Row, ms, of_type
from tests.plain_tables.partitions import deletions, end_of, writes_of_lives

RECENT_US = 2_000_000
"""Maximum time in µs after the end of a fault during which the fault explains that a replica lags."""
RETURNED_US = 10_000_000
"""Maximum time in µs after a broker's return until it has truncated its logs."""
WAITING = ("offline", "leader_down")


class Faults:
    """The injected faults in order.

    `of` returns the index of the latest fault that can explain an effect.
    """

    def __init__(self, lines: list[Row]) -> None:
        by_place = {(line["node"], line["node_seq"]): line for line in lines}
        self.rows = [row for row in faults(lines) if row["kind"] in ("kill", "pause", "cut")]
        self.begins = [by_place[row["node"], row["node_seq"]] for row in self.rows]

    def of(self, nodes: tuple[str, ...], at_us: int, within_us: int | None = None) -> int | None:
        """Return the index of the latest fault of these nodes before this time.

        With `within_us`, the fault must be active, or have ended within that time.
        """
        found = None
        for place, (row, begin) in enumerate(zip(self.rows, self.begins, strict=True)):
            is_over = within_us is not None and begin["mono_us"] + row["duration_ms"] * 1000 + within_us < at_us
            if begin["mono_us"] <= at_us and not is_over and {row["source"], row["target"]} & {*nodes}:
                found = place
        return found

    def latest(self, at_us: int) -> int | None:
        """Return the index of the last fault of any node before that time."""
        before = [place for place, begin in enumerate(self.begins) if begin["mono_us"] <= at_us]
        return before[-1] if before else None


def incidents(lines: list[Row]) -> list[Row]:
    """Return the rows of `incidents`, with the columns that can be computed from times alone."""
    injected = Faults(lines)
    effects: dict[tuple[str, int | None], list[tuple[Row, Row]]] = defaultdict(list)
    for name, found in (("outage", _outages), ("removal", _removals), ("loss", _losses), ("expiry", _expiries),
                        ("unclean", _unclean), ("stall", _stalls)):  # fmt: skip
        for place, begin, end in found(lines, injected):
            effects[name, place].append((begin, end))
    rows = []
    for place, (fault, begin) in enumerate(zip(injected.rows, injected.begins, strict=True)):
        own = {name: effects[name, place] for name in ("outage", "removal", "loss", "expiry", "unclean", "stall")}
        rows.append({**_of_fault(fault), **_of_effects(begin, own), **_failover(lines, own["expiry"])})
    return rows


def _of_fault(fault: Row) -> Row:
    source, target = fault["source"], fault["target"]
    return {
        "from_us": fault["from_us"], "kind": fault["kind"], "requester": fault["requester"],
        "target": target if source == target else f"{source} {target}",
        "cause_node": fault["node"], "cause_node_seq": fault["node_seq"],
    }  # fmt: skip


def _of_effects(begin: Row, own: dict[str, list[tuple[Row, Row]]]) -> Row:
    return {
        "expired": sorted({effect["broker"] for effect, _ in own["expiry"]}),
        "expiry_ms": min((ms(begin, effect) or 0 for effect, _ in own["expiry"]), default=None),
        "leaderless": sorted({effect["of"] for effect, _ in own["outage"]}),
        "leaderless_ms": max((ms(since, until) or 0 for since, until in own["outage"]), default=None),
        "elected_uncleanly": sorted({effect["of"] for effect, _ in own["unclean"]}),
        "under_replicated": sorted({effect["of"] for effect, _ in own["removal"]}),
        "stalled": sorted({effect["workload_id"] for effect, _ in own["stall"]}),
        "stall_ms": max((ms(since, until) or 0 for since, until in own["stall"]), default=None),
        "failed": sum(effect["failures"] for effect, _ in own["stall"]),
        # An offset that several replicas have lost counts as one record, as in `records_lost`.
        "lost": len({
            (effect["topic"], effect["partition"], effect.get("topic_id"), offset)
            for effect, _ in own["loss"] for offset in range(effect["first_offset"], effect["last_offset"] + 1)
        }),
    }  # fmt: skip


def _failover(lines: list[Row], expiries: list[tuple[Row, Row]]) -> Row:
    """Return the columns about the controllers that replaced controllers with an expired session."""
    closed = [line for line in of_type(lines, "session_closed") if "/controller" in line["ephemerals"]]
    ended = {line["zxid"] for line in closed for expiry, _ in expiries if line["session_id"] == expiry["session_id"]}
    terms = controller_terms(lines)
    new = [
        term for before, term in pairwise(terms)
        if before["ended_by"] == "session_expired" and any(before["zxid"] < zxid < term["zxid"] for zxid in ended)
    ]  # fmt: skip
    last = new[-1] if new else {}
    return {
        "controller": last.get("broker_id"), "controller_epoch": last.get("controller_epoch"),
        "no_controller_ms": sum(term["gap_before_ms"] for term in new) if new else None,
    }  # fmt: skip


Effects = Iterator[tuple[int | None, Row, Row]]
"""Iterator of effects: the index of the fault, and the first and the last entry of the effect."""


def _outages(lines: list[Row], injected: Faults) -> Effects:
    """Yield the times in which a partition had no running leader. Planned stops and deletions do not count."""
    deleted = deletions(lines)
    for life, writes in writes_of_lives(lines).items():
        end = end_of(life, deleted)
        cluster, write = Cluster(), None
        begin: Row | None = None
        own = {id(line) for line in writes}
        for line in lines:
            cluster.take(line)
            if id(line) in own and (write is None or line["partition_epoch"] > write["partition_epoch"]):
                write = line
            if line is end:
                break
            if write is None:
                continue
            is_down = cluster.state(write) in WAITING
            if is_down and begin is None:
                leader = led_before(write, writes)
                place = injected.of((f"broker-{leader}",), line["mono_us"])
                begin = {**line, "of": f"{life[0]}-{life[1]}", "planned": cluster.stopped.get(leader) == "planned"}
            elif not is_down and begin is not None:
                if not begin["planned"]:
                    yield place, begin, line
                begin = None


def led_before(write: Row, writes: list[Row]) -> int:
    """Return the partition's last leader before this write.

    If there was none, return the leader in this write.
    """
    leaders = [each["leader"] for each in writes if each["partition_epoch"] < write["partition_epoch"]]
    led: int = next((leader for leader in reversed(leaders) if leader >= 0), write["leader"])
    return led


def _removals(lines: list[Row], injected: Faults) -> Effects:
    for (topic, partition, _), writes in writes_of_lives(lines).items():
        for before, line in pairwise(writes):
            if line["cause"] in ("controlled_shutdown", "controller") or _is_being_deleted(line, lines):
                continue
            for replica in [each for each in before["isr"] if each not in line["isr"]]:
                own = injected.of((f"broker-{replica}",), line["mono_us"], RECENT_US)
                place = injected.of((f"broker-{before['leader']}",), line["mono_us"]) if own is None else own
                yield place, {**line, "of": f"{topic}-{partition}"}, line


def _is_being_deleted(line: Row, lines: list[Row]) -> bool:
    requests = [each for each in of_type(lines, "admin_requested") if each["request"] == "DeleteTopics"]
    return any(line["topic"] in each["subjects"] and each["mono_us"] < line["mono_us"] for each in requests)


def _losses(lines: list[Row], injected: Faults) -> Effects:
    for line in of_type(lines, "records_lost"):
        own = injected.of((line["node"],), line["mono_us"], RETURNED_US)
        # If the replica had no fault of its own, its leader was replaced by a broker without these records. So use the
        # latest fault of any node.
        yield injected.latest(line["mono_us"]) if own is None else own, line, line


def _expiries(lines: list[Row], injected: Faults) -> Effects:
    owners = {line["session_id"]: f"broker-{line['broker_id']}" for line in of_type(lines, "broker_registered")}
    for line in of_type(lines, "session_expired"):
        owner = owners.get(line["session_id"])
        if owner is not None:
            yield injected.of((owner,), line["mono_us"]), {**line, "broker": owner}, line


def _unclean(lines: list[Row], injected: Faults) -> Effects:
    for (topic, partition, _), writes in writes_of_lives(lines).items():
        for line in writes:
            if line.get("unclean"):
                place = injected.of((f"broker-{led_before(line, writes)}",), line["mono_us"])
                yield place, {**line, "of": f"{topic}-{partition}"}, line


def _stalls(lines: list[Row], injected: Faults) -> Effects:
    """Yield the times in which workloads waited: consecutive reports with a growing `waited_ms` belong to one wait."""
    reports: dict[str, list[Row]] = defaultdict(list)
    for line in of_type(lines, "workload_progressed"):
        if line.get("waited_ms", -1) >= 0:
            reports[line["workload_id"]].append(line)
    for own in reports.values():
        since: Row | None = None
        for before, line in pairwise([{**own[0], "waited_ms": 0, "failed": 0}, *own]):
            grown_us, failures = 1000 * (line["waited_ms"] - before["waited_ms"]), line["failed"] - before["failed"]
            if grown_us > 0 and since is None:
                since = {**line, "mono_us": line["mono_us"] - grown_us, "failures": 0}
            if since is not None:
                since["failures"] += failures
                if grown_us <= 0:
                    yield _at_middle(since, before, injected), since, before
                    since = None
        if since is not None:
            yield _at_middle(since, own[-1], injected), since, own[-1]


def _at_middle(since: Row, until: Row, injected: Faults) -> int | None:
    """Return the index of the last fault before the middle of this wait."""
    return injected.latest((since["mono_us"] + until["mono_us"]) // 2)
