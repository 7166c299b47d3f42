"""A small log of string records, its compaction, and a compaction that is paused partway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.replication.replication_cluster import TP
from tests.kafka.produced import headers_of
from tests.virtual_time.runtime import SimRuntime, run_task
from zabka.broker_sim.configs.replica_config import CompactionSettings
from zabka.broker_sim.logs.cleaner import compact
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.segment import Segment
from zabka.broker_sim.ports import LogDirectory
from zabka.kafka.record_batch import Record, build_batch, decode_records, split_batches
from zabka.simulation.engine.scheduler import Scheduler

NO_LAG = CompactionSettings(dirty_ratio_min=0.0, lag_min_ms=0, lag_max_ms=1 << 60, tombstone_ms=1_000)


def a_log(segment_bytes: int = 100, directory: LogDirectory | None = None, **more: Any) -> PartitionLog:
    return PartitionLog(directory or MemoryLogDirectory(), TP, segment_bytes=segment_bytes, **more)


def append(log: PartitionLog, *records: tuple[str | None, str | None], at_ms: int = 0, **options: Any) -> None:
    rows = [Record(k if k is None else k.encode(), v if v is None else v.encode(), at_ms) for k, v in records]
    data = build_batch(rows, **options)
    log.append_as_leader(data, headers_of(data), 0)
    log.high_watermark = log.end_offset


def read_all(log: PartitionLog) -> list[tuple[int, str | None, str | None]]:
    found = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, log.end_offset, True)
        if not data:
            break
        for record in decode_records(data, offset):
            key, value = record.key, record.value
            found.append((record.offset, key and key.decode(), value if value is None else value.decode()))
        headers = split_batches(data)
        assert headers
        offset = headers[-1].next_offset
    return found


def ignore_progress(segment: Segment, bytes_after: int) -> None:
    """Ignore the progress of a compaction."""


def run_compaction(log: PartitionLog, settings: CompactionSettings = NO_LAG, after_ms: int = 0) -> None:
    """Run one compaction, starting `after_ms` after the start of virtual time."""
    scheduler = Scheduler()
    scheduler.run_until(after_ms * 1_000)
    runtime = SimRuntime(scheduler, Random(1))
    run_task(scheduler, runtime, compact(log, settings, runtime, ignore_progress))
    runtime.stop()


@contextmanager
def paused_compaction(log: PartitionLog, steps: int) -> Iterator[None]:
    """Run `steps` steps of a compaction, then the body of the `with` statement, then the remaining steps."""
    scheduler = Scheduler()
    runtime = SimRuntime(scheduler, Random(1))
    task = runtime.spawn(compact(log, NO_LAG, runtime, ignore_progress), "compact")
    for _ in range(steps):
        scheduler.step()
    assert not task.done()
    yield
    scheduler.run_until(10_000_000)
    runtime.stop()
    assert task.done()
