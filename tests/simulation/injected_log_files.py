"""Injected bugs in how a broker writes, flushes and reads its log files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from tests.simulation.injecting import broken
from zabka.broker_sim.logs.file_log_directory import DiskLogFile
from zabka.broker_sim.logs.segment import Damage, Segment
from zabka.kafka.record_batch import BatchHeader


@contextmanager
def a_torn_tail_is_trusted() -> Iterator[None]:
    """Injected bug: a batch that is incomplete after a power loss is accepted if its header is valid."""
    recover = Segment.recover

    def without_checksums(
        self: Segment, check: bool, see: Callable[[BatchHeader], None], epoch: int = -1
    ) -> Damage | None:
        return recover(self, False, see, epoch)

    with broken(Segment, recover=without_checksums):
        yield


@contextmanager
def a_flush_is_not_awaited() -> Iterator[None]:
    """Injected bug: neither a full segment nor the last segment of a stopping broker is flushed."""
    with broken(DiskLogFile, flush=lambda self: None):
        yield


@contextmanager
def a_byte_changes_on_its_way_to_the_file() -> Iterator[None]:
    """Injected bug: in one of forty appends, the last byte is changed in the file. The batch in memory is correct."""
    append, numbers = DiskLogFile.append, count(1)

    def mistaken(self: DiskLogFile, data: bytes) -> int:
        return append(self, data if next(numbers) % 40 else data[:-1] + bytes([data[-1] ^ 1]))

    with broken(DiskLogFile, append=mistaken):
        yield
