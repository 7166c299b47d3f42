"""Requests that wait: produce for the ISR, fetch for data.

Nothing is polled.  An operation is looked at when something happened to one of its partitions, and ends on its timer
at the latest (Kafka's DelayedOperationPurgatory, DelayedProduce and DelayedFetch).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kio.schema.errors import ErrorCode

from broker_sim.partition import Partition
from broker_sim.partition_host import Appended
from broker_sim.ports import FetchParams, FetchPartition
from ensemble.ports import Runtime, Timer
from journal.events import TopicPartition


class Delayed(Protocol):
    """A request that waits.  `is_ready` may be asked any number of times, `finish` is called once."""

    def is_ready(self) -> bool:
        """Can it be answered now?"""
        ...

    def finish(self) -> None:
        """Answer, with what there is."""
        ...


class _Entry:
    __slots__ = ("keys", "operation", "timer")

    def __init__(self, operation: Delayed, keys: Sequence[TopicPartition]) -> None:
        self.operation = operation
        self.keys = keys
        self.timer: Timer | None = None


class Purgatory:
    """Waiting operations by the partitions that they watch."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._watchers: dict[TopicPartition, dict[_Entry, None]] = {}

    def __len__(self) -> int:
        return len({entry for entries in self._watchers.values() for entry in entries})

    def park(self, operation: Delayed, keys: Sequence[TopicPartition], timeout_ms: int) -> None:
        """Keep an operation that is not ready until it is, or until `timeout_ms` have passed."""
        entry = _Entry(operation, keys)
        for key in keys:
            self._watchers.setdefault(key, {})[entry] = None
        entry.timer = self._runtime.call_later(max(0, timeout_ms), lambda: self._end(entry))

    def wake(self, key: TopicPartition) -> None:
        """Something happened to that partition: answer those who can be answered."""
        entries = self._watchers.get(key)
        if entries:
            for entry in list(entries):
                if entry.operation.is_ready():
                    self._end(entry)

    def close(self) -> None:
        """Answer everybody with what there is."""
        for key in list(self._watchers):
            for entry in list(self._watchers.get(key, ())):
                self._end(entry)

    def _end(self, entry: _Entry) -> None:
        if entry.timer is None:
            return
        entry.timer.cancel()
        entry.timer = None
        for key in entry.keys:
            entries = self._watchers.get(key)
            if entries is not None:
                entries.pop(entry, None)
                if not entries:
                    del self._watchers[key]
        entry.operation.finish()


class ProduceRow:
    """One partition of a produce: what the append gave, and the answer's error once it is known."""

    __slots__ = ("appended", "error", "leader_epoch", "partition", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, partition: Partition | None, appended: Appended) -> None:
        self.topic_partition = topic_partition
        self.partition = partition
        self.appended = appended
        self.leader_epoch = -1 if partition is None else partition.leader_epoch
        self.error: int | None = appended.error or None


class DelayedProduce:
    """A produce with acks=all whose records are appended and wait for the high watermark."""

    __slots__ = ("_answer", "rows")

    def __init__(self, rows: list[ProduceRow], answer: Callable[[list[ProduceRow]], None]) -> None:
        self.rows = rows
        self._answer = answer

    def is_ready(self) -> bool:
        """Has every partition its replicas, or an error?"""
        ready = True
        for row in self.rows:
            if row.error is None and row.partition is not None:
                row.error = row.partition.acks_all_state(row.appended.required_offset)
                ready = ready and row.error is not None
        return ready

    def finish(self) -> None:
        """Answer; what still waits has timed out."""
        for row in self.rows:
            if row.error is None:
                row.error = ErrorCode.request_timed_out
        self._answer(self.rows)


class DelayedFetch:
    """A fetch that found less than it wants."""

    __slots__ = ("_answer", "_find", "_params", "_wanted")

    def __init__(
        self,
        params: FetchParams,
        wanted: Sequence[FetchPartition],
        find: Callable[[TopicPartition], Partition | None],
        answer: Callable[[], None],
    ) -> None:
        self._params = params
        self._wanted = wanted
        self._find = find
        self._answer = answer

    def is_ready(self) -> bool:
        """Enough bytes now, or something that the fetcher must hear at once: fenced, diverged, truncated?"""
        available = 0
        is_follower = self._params.replica_id >= 0
        for wanted in self._wanted:
            partition = self._find(wanted.topic_partition)
            if partition is None or partition.must_answer(wanted):
                return True
            if partition.log.end_offset < wanted.fetch_offset:
                return True
            end = partition.readable_end(is_follower)
            if end > wanted.fetch_offset:
                if self._params.min_bytes <= 1:
                    return True
                available += min(wanted.max_bytes, partition.log.bytes_between(wanted.fetch_offset, end))
        return available >= self._params.min_bytes

    def finish(self) -> None:
        """Read again and answer."""
        self._answer()
