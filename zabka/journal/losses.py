"""How many records a partition has lost, from the losses that its replicas reported.

Several replicas may lose the same records, so each offset counts once.  `api/web/losses.js` does the same on the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zabka.journal.cluster_state import Loss


class LostRecords(NamedTuple):
    """Records of a partition that are gone from a replica, and how many of them were committed at least."""

    records: int = 0
    committed_at_least: int = 0


def lost_by_partition(losses: Iterable[Loss]) -> dict[str, LostRecords]:
    """Return the lost records of each partition that has any, by the partition's name."""
    spans: dict[str, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    for loss in losses:
        lost, committed = spans.setdefault(f"{loss.topic}-{loss.partition}", ([], []))
        lost.append((loss.first_offset, loss.last_offset + 1))
        committed.append((loss.first_offset, loss.first_offset + loss.committed_at_least))
    return {name: LostRecords(_covered(lost), _covered(committed)) for name, (lost, committed) in spans.items()}


def _covered(spans: list[tuple[int, int]]) -> int:
    """Return how many offsets lie in at least one of these spans; each is from its first offset to before its end."""
    total = end = 0
    for first, after in sorted(spans):
        total += max(0, after - max(first, end))
        end = max(end, after)
    return total
