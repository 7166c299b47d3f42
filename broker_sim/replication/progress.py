"""Journals the progress of a broker's replicas, at most a few times a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.ensemble.ports import Runtime, Timer
from zabka.journal.events import ReplicaProgressed, TopicPartition
from zabka.kafka.ports import Emit

PROGRESS_PERIOD_MS = 250
"""Minimum average interval between ReplicaProgressed events."""
BURST = 4
"""Number of reports that can be written in quick succession after a pause."""


class HostedLog(Protocol):
    """A replica whose progress is reported (`zabka.broker_sim.replication.partition.Partition`)."""

    topic_partition: TopicPartition
    log: PartitionLog


class ProgressReports:
    """Journals the log end offset and high watermark of every replica whose log has changed since the last report.

    If a high watermark advances after a pause, it is reported immediately: the broker may be killed as soon as it has
    acknowledged the records below the high watermark, and the journal must show that these records were committed.
    """

    def __init__(self, broker_id: int, runtime: Runtime, emit: Emit, is_hosted: Callable[[HostedLog], bool]) -> None:
        """Create the progress reports of a broker.

        `is_hosted` is called for each report, so that replicas that this broker no longer hosts are omitted.
        """
        self._broker_id = broker_id
        self._runtime = runtime
        self._emit = emit
        self._is_hosted = is_hosted
        self._moved: dict[TopicPartition, HostedLog] = {}
        self._timer: Timer | None = None
        self._is_due = False
        """Whether the timer is set to write a report immediately."""
        self._spent_ms = 0
        """Time in ms up to which past reports have used the budget of the rate limit.

        Each report advances it by PROGRESS_PERIOD_MS.
        """

    def note(self, replica: HostedLog) -> None:
        """Record that a replica's log end offset or high watermark has changed."""
        self._moved[replica.topic_partition] = replica
        if self._is_due:
            return
        may_report = self._spent_ms <= self._runtime.now().mono_ms + (BURST - 1) * PROGRESS_PERIOD_MS
        if may_report and replica.log.high_watermark > replica.log.reported:
            self.stop()
            self._is_due = True
            self._timer = self._runtime.call_later(0, self.write)
        elif self._timer is None:
            self._timer = self._runtime.call_later(PROGRESS_PERIOD_MS, self.write)

    def stop(self) -> None:
        """Stop the timed reports."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_due = False

    def write(self) -> None:
        """Write a report now."""
        self._timer, self._is_due = None, False
        self._spent_ms = max(self._spent_ms, self._runtime.now().mono_ms) + PROGRESS_PERIOD_MS
        rows: list[tuple[str, int, int, int]] = []
        for (topic, number), replica in self._moved.items():
            if self._is_hosted(replica):
                replica.log.reported = replica.log.high_watermark
                rows.append((topic, number, replica.log.high_watermark, replica.log.end_offset))
        self._moved.clear()
        if rows:
            self._emit(ReplicaProgressed(self._broker_id, rows))
