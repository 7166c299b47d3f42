"""Durations of the stages of writing a group of transactions (SyncRequestProcessor, AckRequestProcessor).

The durations are recorded after the fsync, when everything that waited for it has been notified. They are measured for
the last transaction of a group, because the group's other transactions arrived together with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.ensemble.summary import Summary

NANOS_PER_MS = 1_000_000


class StageTimes:
    """Statistics of the duration of each stage of writing transactions.

    `learning` is True if the transactions come from a leader on another server.
    """

    __slots__ = ("acknowledged_ms", "learning", "process_ms", "proposed_ms", "queue_ms", "queue_sizes", "whole_ms")

    def __init__(self) -> None:
        self.learning = False
        self.queue_sizes = Summary()
        """Number of submissions still in the queue when a group is done."""
        self.queue_ms = Summary()
        """Time that a submission (the disk effects of a turn) waits in the queue."""
        self.process_ms = Summary()
        """Time for writing a group, without its fsync."""
        self.whole_ms = Summary()
        """Time from a submission until it is durable."""
        self.proposed_ms = Summary()
        """Time from when the leader created a transaction until it arrived here, measured with the wall clocks."""
        self.acknowledged_ms = Summary()
        """Time from the creation of a transaction until this server has stored it durably and acknowledged it."""

    def note(
        self, txns: int, waits_ns: Sequence[int], *, process_ns: int, sync_ns: int, queued: int, made_ms: int,
        wall_ms: int,
    ) -> None:  # fmt: skip
        """Record the times of a group that was written and synced.

        `waits_ns` contains the queueing time of each submission; the group's last transaction was created at `made_ms`
        and is durable at `wall_ms`, both by wall clocks.
        """
        rest_ns = process_ns + sync_ns
        self.queue_sizes.add(queued)
        for wait_ns in waits_ns:
            self.queue_ms.add(wait_ns // NANOS_PER_MS)
            self.whole_ms.add((wait_ns + rest_ns) // NANOS_PER_MS)
        self.process_ms.add(process_ns // NANOS_PER_MS, txns)
        age_ms = max(wall_ms - made_ms, 0)
        self.acknowledged_ms.add(age_ms, txns)
        if self.learning:
            self.proposed_ms.add(max(age_ms - (waits_ns[-1] + rest_ns) // NANOS_PER_MS, 0), txns)
