"""Which records a consumer with isolation.level=read_committed gets."""

from __future__ import annotations

import pytest

from zabka.kafka.end_transaction_marker import EndTransactionMarker, marker_batch
from zabka.kafka.read_committed import committed_records
from zabka.kafka.record_batch import TRANSACTIONAL, BatchUnreadable, Record, build_batch
from zabka.kafka.wire.data_messages import AbortedTransaction

ONE, OTHER = 1, 2


def at(offset: int, data: bytes) -> bytes:
    """Return the batch with this base offset, which its checksum does not cover."""
    return offset.to_bytes(8) + data[8:]


def batch(offset: int, *values: str, producer: int = -1) -> bytes:
    attributes = TRANSACTIONAL if producer >= 0 else 0
    records = [Record(None, value.encode(), 5) for value in values]
    data = build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=0, attributes=attributes)
    return at(offset, data)


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    return at(offset, marker_batch(producer, 0, EndTransactionMarker(commit, 0), 5))


def values(data: bytes, *aborted: AbortedTransaction, from_offset: int = 0) -> list[str]:
    return [(record.value or b"").decode() for record in committed_records(data, from_offset, aborted)]


def test_records_of_an_aborted_transaction_are_skipped() -> None:
    data = batch(0, "a", producer=ONE) + batch(1, "b", producer=OTHER) + marker(2, ONE, commit=False)
    data += batch(3, "c", producer=ONE) + marker(4, ONE, commit=True) + marker(5, OTHER, commit=True)
    assert values(data, AbortedTransaction(ONE, 0)) == ["b", "c"]


def test_records_before_the_first_aborted_offset_are_returned() -> None:
    data = batch(0, "a", producer=ONE) + marker(1, ONE, commit=True)
    data += batch(2, "b", producer=ONE) + marker(3, ONE, commit=False)
    assert values(data, AbortedTransaction(ONE, 2)) == ["a"]


def test_two_aborted_transactions_of_one_producer_are_skipped() -> None:
    data = batch(0, "a", producer=ONE) + marker(1, ONE, commit=False)
    data += batch(2, "b", producer=ONE) + marker(3, ONE, commit=False) + batch(4, "c")
    assert values(data, AbortedTransaction(ONE, 2), AbortedTransaction(ONE, 0)) == ["c"]


def test_records_without_a_transaction_are_never_skipped() -> None:
    assert values(batch(0, "a", "b") + batch(2, "c"), from_offset=1) == ["b", "c"]


def test_damaged_batch_raises_an_error() -> None:
    data = bytearray(batch(0, "a"))
    data[-1] ^= 1
    with pytest.raises(BatchUnreadable):
        values(bytes(data))
