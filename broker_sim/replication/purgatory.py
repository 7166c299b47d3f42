"""Requests that wait: a produce for replication, a fetch for data.

There is no polling. A waiting request is checked after each event of one of its partitions, and is completed at the
latest when its timer expires (Kafka's DelayedOperationPurgatory, DelayedProduce and DelayedFetch).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from kio.schema.errors import ErrorCode

from zabka.broker_sim.logs.guarded_directory import LogDirFailed
from zabka.broker_sim.ports import FetchParams, FetchPartition
from zabka.broker_sim.replication.fetch_answers import must_answer
from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.replication.partition_host import Appended
from zabka.ensemble.ports import Runtime, Timer
from zabka.journal.events import TopicPartition


class Delayed(Protocol):
    """A waiting request. `is_ready_after` can be called any number of times; `finish` is called once."""

    def is_ready_after(self, key: TopicPartition) -> bool:
        """Return whether the operation can be completed. Called after an event of its partition `key`."""
        ...

    def finish(self, touched: Collection[TopicPartition]) -> None:
        """Send the response with the current result. `touched` are the partitions that had an event since `park`."""
        ...


class _Entry:
    __slots__ = ("keys", "operation", "timer", "touched")

    def __init__(self, operation: Delayed, keys: Sequence[TopicPartition]) -> None:
        self.operation = operation
        self.keys = keys
        self.timer: Timer | None = None
        self.touched: dict[TopicPartition, None] = {}


class Purgatory:
    """Waiting operations, keyed by the partitions that they wait for.

    Within `with purgatory:`, operations are checked only at the end. If several partitions change together, an
    operation that waits for them is completed once (Kafka's DelayedActionQueue).
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._held: dict[TopicPartition, None] | None = None
        self._watchers: dict[TopicPartition, dict[_Entry, None]] = {}

    def __len__(self) -> int:
        return len({entry for entries in self._watchers.values() for entry in entries})

    def park(self, operation: Delayed, keys: Sequence[TopicPartition], timeout_ms: int) -> None:
        """Store an operation until it is ready, or until `timeout_ms` have passed."""
        entry = _Entry(operation, keys)
        for key in keys:
            watching = self._watchers.get(key)
            if watching is None:
                self._watchers[key] = {entry: None}
            else:
                watching[entry] = None
        entry.timer = self._runtime.call_later(max(0, timeout_ms), lambda: self._end(entry))

    def __enter__(self) -> None:
        assert self._held is None, "held already"
        self._held = {}

    def __exit__(self, *_: object) -> None:
        held, self._held = self._held, None
        if held:
            self._wake(held)

    def wake(self, key: TopicPartition) -> None:
        """Check the operations that wait for this partition, and complete those that are ready."""
        if key in self._watchers:
            if self._held is None:
                self._wake((key,))
            else:
                self._held[key] = None

    def _wake(self, keys: Iterable[TopicPartition]) -> None:
        woken = [(entry, key) for key in keys for entry in self._watchers.get(key, ())]
        for entry, key in woken:
            entry.touched[key] = None
        for entry, key in woken:
            if entry.timer is not None and entry.operation.is_ready_after(key):
                self._end(entry)

    def close(self) -> None:
        """Complete all operations with their current results."""
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
        entry.operation.finish(entry.touched)


class ProduceRow:
    """One partition of a produce request: the result of the append, and the response's error once it is known."""

    __slots__ = ("appended", "error", "leader_epoch", "partition", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, partition: Partition | None, appended: Appended) -> None:
        self.topic_partition = topic_partition
        self.partition = partition
        self.appended = appended
        self.leader_epoch = -1 if partition is None else partition.leader_epoch
        self.error: int | None = appended.error or None


def _decide(row: ProduceRow) -> bool:
    """Determine a partition's result if possible. Return whether it is known."""
    if row.error is None and row.partition is not None:
        row.error = row.partition.acks_all_state(row.appended.required_offset, row.leader_epoch)
    return row.error is not None


class DelayedProduce:
    """A produce with acks=all that has appended its records and waits for the high watermark."""

    __slots__ = ("_answer", "_waiting", "rows")

    def __init__(self, rows: list[ProduceRow], answer: Callable[[list[ProduceRow]], None]) -> None:
        self.rows = rows
        self._answer = answer
        self._waiting: dict[TopicPartition, list[ProduceRow]] = {}
        for row in rows:
            if not _decide(row):
                self._waiting.setdefault(row.topic_partition, []).append(row)

    def waits_for(self) -> list[TopicPartition]:
        """Return the partitions that still wait for replication. If none, the response can be sent."""
        return list(self._waiting)

    def is_ready_after(self, key: TopicPartition) -> bool:
        """Return whether all partitions have an error or have replicated the records to the ISR."""
        if all(_decide(row) for row in self._waiting.get(key, ())):
            self._waiting.pop(key, None)
        return not self._waiting

    def finish(self, touched: Collection[TopicPartition]) -> None:
        """Send the response. Partitions that still wait get the error REQUEST_TIMED_OUT."""
        for row in self.rows:
            if row.error is None:
                row.error = ErrorCode.request_timed_out
        self._answer(self.rows)


def reads_older_segment(partition: Partition, requested: FetchPartition, params: FetchParams) -> bool:
    """Return whether the fetch begins in an older segment than the segment that contains its readable end.

    A read returns bytes of one segment only, and an older segment does not grow. So waiting would not help, and the
    fetch is completed immediately with the current data (DelayedFetch, case F).
    """
    end = partition.readable_end(params)
    return end > requested.fetch_offset and partition.log.lies_in_older_segment(requested.fetch_offset, end)


class DelayedFetch:
    """A fetch that waits because it found too little data and nothing that must be sent immediately.

    After an event of a partition, only the data of that partition are counted again. Kafka counts all partitions each
    time.
    """

    __slots__ = ("_answer", "_bytes", "_bytes_of", "_find", "_params", "_requested")

    def __init__(
        self,
        params: FetchParams,
        requested: Sequence[FetchPartition],
        find: Callable[[TopicPartition], Partition | None],
        answer: Callable[[Collection[TopicPartition]], None],
    ) -> None:
        self._params = params
        self._requested = {row.topic_partition: row for row in requested}
        self._find = find
        self._answer = answer
        self._bytes = 0
        self._bytes_of: dict[TopicPartition, int] = {}

    def waits_for(self) -> list[TopicPartition]:
        """Return the partitions that this fetch waits for."""
        return list(self._requested)

    def is_ready_after(self, key: TopicPartition) -> bool:
        """Return whether the fetch can be completed.

        It can be completed if there are enough bytes, or if waiting is pointless: the fetch's epoch is fenced, the
        follower's log has diverged, or this broker's log was truncated below the fetch offset.
        """
        requested = self._requested[key]
        partition = self._find(key)
        if partition is None or must_answer(partition, requested, self._params.leader_only):
            return True
        if partition.log.end_offset < requested.fetch_offset:
            return True
        if partition.readable_end(self._params) <= requested.fetch_offset or self._is_held_back(partition):
            # Records that were counted earlier may no longer be readable: a follower's high watermark can decrease, and
            # throttles can change.
            self._bytes -= self._bytes_of.pop(key, 0)
            return False
        min_bytes = self._params.min_bytes
        if min_bytes <= 1 or reads_older_segment(partition, requested, self._params):
            return True
        try:
            return self._count(key) >= min_bytes
        except LogDirFailed:
            # Complete the fetch, so that the error is sent to the fetcher and not raised in the code that called `wake`
            # (DelayedFetch, case G).
            return True

    def _count(self, key: TopicPartition) -> int:
        """Return the number of bytes that are now available to the fetch in all its partitions.

        Called after an event of partition `key`.
        """
        for each in (key,) if self._bytes_of else self._requested:
            found = self._available(self._requested[each])
            self._bytes += found - self._bytes_of.get(each, 0)
            self._bytes_of[each] = found
        return self._bytes

    def _available(self, requested: FetchPartition) -> int:
        partition = self._find(requested.topic_partition)
        end = -1 if partition is None else partition.readable_end(self._params)
        if partition is None or end <= requested.fetch_offset or self._is_held_back(partition):
            return 0
        return min(requested.max_bytes, partition.log.bytes_between(requested.fetch_offset, end))

    def _is_held_back(self, partition: Partition) -> bool:
        follower_id = self._params.replica_id
        return follower_id >= 0 and bool(partition.settings.leader_throttled) and partition.is_held_back(follower_id)

    def finish(self, touched: Collection[TopicPartition]) -> None:
        """Read the `touched` partitions again and send the response."""
        self._answer(touched)
