"""The tables `partition_leaderships`, `isr_changes` and `isr_membership`."""

from __future__ import annotations

from collections import defaultdict

from tests.plain_tables.journals import Row, ms, of_type, wall

Life = tuple[str, int, int]
"""Identifies a partition: topic, partition, and how often it was deleted and created again before."""


def writes_of_lives(lines: list[Row]) -> dict[Life, list[Row]]:
    """Return the writes of each partition's state in zxid order.

    If two lines are about the same write, the line of the election is used.
    """
    found: dict[tuple[str, int], dict[tuple[int, int], Row]] = defaultdict(dict)
    for line in of_type(lines, "leader_elected", "isr_changed"):
        own = found[line["topic"], line["partition"]]
        key = (line["zxid"], line["partition_epoch"])
        if key not in own or line["type"] == "leader_elected":
            own[key] = line
    lives: dict[Life, list[Row]] = {}
    for (topic, partition), own in sorted(found.items()):
        life = -1
        for _, line in sorted(own.items()):
            # A state znode with version 0 shows that the partition was created (again).
            life += line["partition_epoch"] == 0
            lives.setdefault((topic, partition, max(life, 0)), []).append(line)
    return lives


def deletions(lines: list[Row]) -> dict[str, list[Row]]:
    """Return the lines about deletions, in order, keyed by topic."""
    found: dict[str, list[Row]] = defaultdict(list)
    for line in of_type(lines, "topic_deleted"):
        found[line["topic"]].append(line)
    return found


def end_of(life: Life, deleted: dict[str, list[Row]]) -> Row | None:
    """Return the deletion that ended this partition, or None if it still exists."""
    own = deleted.get(life[0], [])
    return own[life[2]] if life[2] < len(own) else None


def _named(life: Life) -> Row:
    return {"topic": life[0], "partition": life[1], "life": life[2]}


def partition_leaderships(lines: list[Row]) -> list[Row]:
    """Return the rows of `partition_leaderships`: one for each leader election of each partition."""
    deleted, rows = deletions(lines), []
    for life, writes in writes_of_lives(lines).items():
        elected = of_type(writes, "leader_elected")
        for line, following in zip(elected, [*elected[1:], end_of(life, deleted)], strict=True):
            copied = ("leader", "leader_epoch", "unclean", "cause", "isr", "replicas", "partition_epoch",
                      "controller_epoch", "zxid")  # fmt: skip
            rows.append({
                **_named(life), **{name: line[name] for name in copied}, "from_us": wall(line),
                "to_us": wall(following), "duration_ms": ms(line, following),
            })  # fmt: skip
    return rows


def isr_changes(lines: list[Row]) -> list[Row]:
    """Return the rows of `isr_changes`: one for each write that changed an ISR."""
    rows = []
    proposals = of_type(lines, "isr_proposed")
    for life, writes in writes_of_lives(lines).items():
        before: list[int] = []
        for line in writes:
            if set(line["isr"]) != set(before):
                copied = ("isr", "cause", "leader", "leader_epoch", "partition_epoch", "zxid")
                rows.append({
                    **_named(life), **{name: line[name] for name in copied}, "at_us": wall(line), "isr_before": before,
                    "removed": [each for each in before if each not in line["isr"]],
                    "added": [each for each in line["isr"] if each not in before],
                    "evidence": _evidence(line, proposals),
                })  # fmt: skip
            before = line["isr"]
    return rows


def _evidence(line: Row, proposals: list[Row]) -> list[Row] | None:
    """Return the recorded state of the replicas that joined or left the ISR.

    The leader recorded it in the write itself, or in the last matching proposal before the write.
    """
    if line.get("moved"):
        return list(line["moved"])
    same = ("topic", "partition", "leader_epoch", "cause")
    led = [
        each
        for each in proposals
        if all(each[name] == line[name] for name in same)
        and each["upon"] == line["partition_epoch"] - 1
        and set(each["isr"]) == set(line["isr"])
    ]
    return list(led[-1]["moved"]) if led else None


def isr_membership(lines: list[Row]) -> list[Row]:
    """Return the rows of `isr_membership`: the periods in which each replica was an ISR member."""
    deleted, rows = deletions(lines), []
    for life, writes in writes_of_lives(lines).items():
        since: dict[int, Row] = {}
        spans: list[tuple[int, Row, Row | None, str | None]] = []
        for line in writes:
            for replica in [each for each in since if each not in line["isr"]]:
                spans.append((replica, since.pop(replica), line, line["cause"]))
            for replica in line["isr"]:
                since.setdefault(replica, line)
        end = end_of(life, deleted)
        spans += [(replica, line, end, None if end is None else "topic_deleted") for replica, line in since.items()]
        rows += [
            {
                **_named(life), "replica": replica, "from_us": wall(begin), "to_us": wall(until),
                "duration_ms": ms(begin, until), "ended_by": ended_by, "from_zxid": begin["zxid"],
            }
            for replica, begin, until, ended_by in spans
        ]  # fmt: skip
    return rows
