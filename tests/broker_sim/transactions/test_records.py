"""Records of `__transaction_state`, compared with bytes computed by hand.

The schemas are TransactionLogKey.json and TransactionLogValue.json.
"""

from __future__ import annotations

import pytest

from zabka.broker_sim.record_reader import UnreadableRecord
from zabka.broker_sim.transactions.metadata import TransactionMetadata, TransactionState, Transition
from zabka.broker_sim.transactions.records import read_key, read_value, transaction_key, transaction_value
from zabka.journal.events import TopicPartition

ONGOING = Transition(
    state=TransactionState.ONGOING,
    producer_id=4_000,
    last_producer_id=-1,
    producer_epoch=5,
    last_producer_epoch=4,
    timeout_ms=60_000,
    partitions=(TopicPartition("a", 0), TopicPartition("b", 7), TopicPartition("a", 2)),
    start_ms=1,
    update_ms=2,
)
ONGOING_V0 = bytes.fromhex(
    "0000"  # version
    "0000000000000fa0" "0005"  # producer id, epoch
    "0000ea60" "01"  # timeout, Ongoing
    "00000002"  # two topics
    "0001" "61" "00000002" "00000000" "00000002"
    "0001" "62" "00000001" "00000007"
    "0000000000000002" "0000000000000001"  # last update, start
)  # fmt: skip
ONGOING_V1 = bytes.fromhex(
    "0001"
    "0000000000000fa0" "0005" "0000ea60" "01"
    "03"  # two topics, plus one
    "02" "61" "03" "00000000" "00000002" "00"
    "02" "62" "02" "00000007" "00"
    "0000000000000002" "0000000000000001"
    "00"
)  # fmt: skip
EMPTY_V0 = bytes.fromhex("00000000000000000fa000050000ea6000ffffffff0000000000000002" + "ff" * 8)
COMPLETE_ABORT_V0 = bytes.fromhex("00000000000000000fa000050000ea60050000000000000000000000020000000000000001")


def values(metadata: TransactionMetadata) -> tuple[object, ...]:
    return (
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.timeout_ms,
        metadata.state,
        sorted(metadata.partitions),
        metadata.update_ms,
        metadata.start_ms,
    )


def test_record_key_contains_version_0_and_transactional_id() -> None:
    assert transaction_key("tx-1") == bytes.fromhex("0000000474782d31")
    assert read_key(bytes.fromhex("0000000474782d31")) == "tx-1"


def test_record_key_of_another_version_has_no_transactional_id() -> None:
    assert read_key(bytes.fromhex("0001000474782d31")) is None


def test_record_value_is_encoded_in_version_0() -> None:
    assert transaction_value(ONGOING) == ONGOING_V0


def test_transaction_value_in_empty_state_has_null_partitions() -> None:
    empty = ONGOING._replace(state=TransactionState.EMPTY, partitions=(), start_ms=-1)
    assert transaction_value(empty) == EMPTY_V0


def test_value_in_complete_state_has_an_empty_partition_array() -> None:
    complete = ONGOING._replace(state=TransactionState.COMPLETE_ABORT, partitions=())
    assert transaction_value(complete) == COMPLETE_ABORT_V0


@pytest.mark.parametrize("data", [ONGOING_V0, ONGOING_V1])
def test_transaction_values_of_both_versions_are_decoded(data: bytes) -> None:
    partitions = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 7)]
    read = read_value("tx-1", data)
    assert values(read) == (4_000, 5, 60_000, TransactionState.ONGOING, partitions, 2, 1)
    assert (read.transactional_id, read.last_producer_id, read.last_producer_epoch) == ("tx-1", -1, -1)


def test_null_and_empty_arrays_are_decoded() -> None:
    assert values(read_value("t", EMPTY_V0)) == (4_000, 5, 60_000, TransactionState.EMPTY, [], 2, -1)
    assert values(read_value("t", COMPLETE_ABORT_V0)) == (4_000, 5, 60_000, TransactionState.COMPLETE_ABORT, [], 2, 1)


@pytest.mark.parametrize(
    "data",
    [
        ONGOING_V0[:-1],
        b"\x00\x02" + ONGOING_V0[2:],
        EMPTY_V0[:16] + b"\x08" + EMPTY_V0[17:],
        EMPTY_V0[:16] + b"\xff" + EMPTY_V0[17:],
    ],
    ids=["cut short", "version 2", "state 8", "state -1"],
)
def test_invalid_values_raise_unreadable_record(data: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        read_value("t", data)
