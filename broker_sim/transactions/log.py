"""Loads transactional ids from a partition of `__transaction_state` (the loading part of TransactionStateManager)."""

from __future__ import annotations

from collections.abc import Callable, Generator

from zabka.broker_sim.record_reader import UnreadableRecord
from zabka.broker_sim.replication.progress import HostedLog
from zabka.broker_sim.slices import SLICE_RECORDS, in_slices
from zabka.broker_sim.transactions.metadata import TransactionMetadata
from zabka.broker_sim.transactions.records import read_key, read_value
from zabka.ensemble.ports import Runtime
from zabka.kafka.record_batch import MAGIC, BatchUnreadable, Record, decode_batch, header_is_sane, read_header


class TransactionLog:
    """The transactional ids, built from the records read so far. The newest record of each id wins."""

    def __init__(self) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        self.unreadable = 0
        """Number of skipped records, which are damaged or of a kind that only newer brokers write."""

    def load_batches(self, data: bytes) -> Generator[None, None, int | None]:
        """Load complete batches of the log. Yield each time that a fixed number of records has been read.

        Other tasks can run while the generator is suspended. Returns the offset after the batches, or None if there are
        none.
        """
        next_offset = None
        seen = position = 0
        while (header := read_header(data, position)) is not None:
            if header.magic != MAGIC or not header_is_sane(header) or position + header.size > len(data):
                break
            try:
                records = decode_batch(data, position, header)
            except BatchUnreadable:
                self.unreadable += 1
                records = []
            for record in records:
                self._take(record)
                seen += 1
                if not seen % SLICE_RECORDS:
                    yield
            next_offset = header.next_offset
            position += header.size
        return next_offset

    def _take(self, record: Record) -> None:
        try:
            transactional_id = read_key(record.key or b"")
            if transactional_id is None:
                self.unreadable += 1
            elif record.value is None:
                self.transactions.pop(transactional_id, None)
            else:
                self.transactions[transactional_id] = read_value(transactional_id, record.value)
        except UnreadableRecord:
            self.unreadable += 1


async def read_transaction_log(
    replica: HostedLog, buffer_bytes: int, runtime: Runtime, goes_on: Callable[[], bool]
) -> TransactionLog | None:
    """Read a partition to its end, one buffer at a time. Return None once `goes_on` returns False.

    `goes_on` is called between two buffers.
    """
    read = TransactionLog()
    offset = replica.log.start_offset
    while offset < replica.log.end_offset:
        data = replica.log.read(offset, buffer_bytes, replica.log.end_offset, True)
        next_offset = await in_slices(read.load_batches(data), runtime, pause_ms=0)
        if next_offset is None:
            break
        offset = next_offset
        # Let other tasks run between two buffers.
        await runtime.sleep(0)
        if not goes_on():
            return None
    return read
