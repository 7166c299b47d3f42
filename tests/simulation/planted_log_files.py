"""Mistakes in how a broker keeps its logs, planted where files are written, flushed and read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from tests.simulation.planting import broken
from zabka.broker_sim.logs.file_log_directory import DiskLogFile
from zabka.broker_sim.logs.segment import Damage, Segment
from zabka.kafka.record_batch import BatchHeader


@contextmanager
def a_torn_tail_is_trusted() -> Iterator[None]:
    """What a power cut has left of a batch counts, if only its header makes sense."""
    recover = Segment.recover

    def without_checksums(
        self: Segment, check: bool, see: Callable[[BatchHeader], None], epoch: int = -1
    ) -> Damage | None:
        return recover(self, False, see, epoch)

    with broken(Segment, recover=without_checksums):
        yield


@contextmanager
def a_flush_is_not_awaited() -> Iterator[None]:
    """A segment that is full, or whose broker stops, is left to the kernel."""
    with broken(DiskLogFile, flush=lambda self: None):
        yield


@contextmanager
def a_byte_changes_on_its_way_to_the_file() -> Iterator[None]:
    """The last one, in one of forty appends; what memory holds is whole."""
    append, numbers = DiskLogFile.append, count(1)

    def mistaken(self: DiskLogFile, data: bytes) -> int:
        return append(self, data if next(numbers) % 40 else data[:-1] + bytes([data[-1] ^ 1]))

    with broken(DiskLogFile, append=mistaken):
        yield
