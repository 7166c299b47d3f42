"""Records of `__transaction_state`: keys and values in Kafka's own formats (TransactionLogKey, TransactionLogValue).

Every key and value begins with its version. Values are written in version 0, as Kafka does in ZooKeeper mode, and read
in versions 0 and 1 (the flexible one).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from zabka.broker_sim.record_reader import RecordReader, UnreadableRecord
from zabka.broker_sim.transactions.metadata import STATES, TransactionMetadata, TransactionState, Transition
from zabka.journal.events import TopicPartition

_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")
_HEAD, _TIMES = struct.Struct(">hqhib"), struct.Struct(">qq")
_KEY_VERSION, _VALUE_VERSION, _FLEXIBLE = 0, 0, 1


def _string(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def transaction_key(transactional_id: str) -> bytes:
    """Encode the record key of a transactional id."""
    return _SHORT.pack(_KEY_VERSION) + _string(transactional_id)


def transaction_value(to: Transition) -> bytes:
    """Encode the record value of a transactional id after a transition."""
    head = _HEAD.pack(_VALUE_VERSION, to.producer_id, to.producer_epoch, to.timeout_ms, STATES.index(to.state))
    partitions = _INT.pack(-1) if to.state is TransactionState.EMPTY else _partitions(to.partitions)
    return head + partitions + _TIMES.pack(to.update_ms, to.start_ms)


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    rows = (
        _string(topic) + _INT.pack(len(numbers)) + b"".join(map(_INT.pack, numbers))
        for topic, numbers in by_topic.items()
    )
    return _INT.pack(len(by_topic)) + b"".join(rows)


def read_key(data: bytes) -> str | None:
    """Decode the transactional id in a record key. Return None for kinds of records that only newer brokers write.

    Raises UnreadableRecord.
    """
    reader = RecordReader(data)
    return reader.string() if reader.int16() == _KEY_VERSION else None


def read_value(transactional_id: str, data: bytes) -> TransactionMetadata:
    """Decode the state of a transactional id from a record value. Raises UnreadableRecord."""
    reader = RecordReader(data)
    version = reader.int16()
    if not 0 <= version <= _FLEXIBLE:
        raise UnreadableRecord(f"a value of version {version}")
    reader.flexible = version >= _FLEXIBLE
    producer_id, producer_epoch = reader.int64(), reader.int16()
    timeout_ms, state_id = reader.int32(), reader.int8()
    if not 0 <= state_id < len(STATES):
        raise UnreadableRecord(f"a state with id {state_id}")
    partitions = [row for _ in range(reader.nullable_count() or 0) for row in _read_topic(reader)]
    update_ms, start_ms = reader.int64(), reader.int64()
    reader.skip_tagged_fields()
    return TransactionMetadata(
        transactional_id,
        producer_id,
        timeout_ms,
        update_ms,
        producer_epoch=producer_epoch,
        state=STATES[state_id],
        partitions=partitions,
        start_ms=start_ms,
    )


def _read_topic(reader: RecordReader) -> list[TopicPartition]:
    topic = reader.string()
    partitions = [TopicPartition(topic, reader.int32()) for _ in range(reader.count())]
    reader.skip_tagged_fields()
    return partitions
