"""Counts the lost records of a partition, from the losses that its replicas reported.

Several replicas may lose the same records, so each offset counts once. A topic that is deleted and created again uses
the same offsets again; its topic id distinguishes it from the earlier topic. `api/web/losses.js` does the same in the
dashboard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zabka.journal.cluster_state import Loss, PartitionView, RoleView

EPOCHS_MAX = 100
"""Maximum number of leader epochs for which a partition's highest high watermark is stored."""


class LostRecords(NamedTuple):
    """Records of a partition that a replica has lost, and how many of them were certainly committed."""

    records: int = 0
    committed_at_least: int = 0


def note_report(partition: PartitionView, role: RoleView, high_watermark: int) -> None:
    """Record the high watermark that a replica reported in its role as leader or follower.

    In a new leader epoch, a follower first has the high watermark of an earlier one. Only the current leader can raise
    it. Therefore, only a higher value proves that records were committed in this leader epoch.
    """
    before, role.high_watermark = role.high_watermark, high_watermark
    if role.is_leader or (before is not None and high_watermark > before):
        note_reached(partition, role.leader_epoch, high_watermark)


def note_reached(partition: PartitionView, leader_epoch: int, high_watermark: int) -> None:
    """Record that a replica's high watermark reached this offset in that leader epoch."""
    reached = partition.reached
    reached[leader_epoch] = max(high_watermark, reached.get(leader_epoch, 0))
    if len(reached) > EPOCHS_MAX:
        del reached[min(reached)]


def lost_by_partition(losses: Iterable[Loss], topic_ids: Mapping[str, str]) -> dict[str, LostRecords]:
    """Return the lost records of each partition that lost any, by partition name.

    `topic_ids` maps the names of existing topics to their ids. Losses of deleted topics with the same names are
    ignored.
    """
    by_name: dict[str, list[Loss]] = {}
    for loss in losses:
        if not loss.topic_id or loss.topic_id == topic_ids.get(loss.topic, loss.topic_id):
            by_name.setdefault(f"{loss.topic}-{loss.partition}", []).append(loss)
    return {name: LostRecords(_records(found), committed_at_least(found)) for name, found in by_name.items()}


def committed_records_lost(losses: Iterable[Loss]) -> int:
    """Return a lower bound for the number of committed records that were lost, in all topics including deleted ones."""
    by_log: dict[tuple[str, int, str], list[Loss]] = {}
    for loss in losses:
        by_log.setdefault((loss.topic, loss.partition, loss.topic_id), []).append(loss)
    return sum(map(committed_at_least, by_log.values()))


def committed_at_least(losses: Iterable[Loss]) -> int:
    """Return a lower bound for how many of these lost records of one partition were committed."""
    return covered([(loss.first_offset, loss.first_offset + loss.committed_at_least) for loss in losses])


def _records(losses: Iterable[Loss]) -> int:
    return covered([(loss.first_offset, loss.last_offset + 1) for loss in losses])


def covered(spans: list[tuple[int, int]]) -> int:
    """Return how many offsets are in at least one of these ranges. The end of a range is exclusive."""
    total = end = 0
    for first, after in sorted(spans):
        total += max(0, after - max(first, end))
        end = max(end, after)
    return total
