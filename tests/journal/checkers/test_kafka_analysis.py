"""Each anomaly of Jepsen's Kafka workload is reported for histories that contain it, and for no others."""

from __future__ import annotations

import pytest

from zabka.journal.checkers.kafka_analysis import Anomaly, KafkaHistory, Polled, Sent


def history(sent: list[tuple[str, int | None]], *polls: list[tuple[int, str]], end: int | None = None) -> KafkaHistory:
    """Return a history of the records that one producer sent to t-0 and one consumer polled, in order."""
    found = KafkaHistory()
    for number, (value, offset) in enumerate(sent):
        found.sent.append(Sent("p", "t-0", value, 10 * number, 10 * number + 5, offset))
    for records in polls:
        found.polled.append(Polled("c", 1, "t-0", tuple(records)))
    if end is not None:
        found.ends["t-0"] = end
    return found


def anomalies(found: KafkaHistory) -> list[Anomaly]:
    return [each.anomaly for each in found.violations()]


def test_records_read_in_the_order_sent_are_no_anomaly() -> None:
    whole = history([("a", 0), ("b", 1), ("c", None)], [(0, "a")], [(1, "b")], end=2)
    assert anomalies(whole) == []
    assert whole.acknowledged == 2


def test_record_of_unknown_outcome_can_be_present_or_absent() -> None:
    assert anomalies(history([("a", None), ("b", 1)], [(0, "a"), (1, "b")], end=2)) == []
    assert anomalies(history([("a", None), ("b", 0)], [(0, "b")], end=1)) == []


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (history([("a", 0), ("b", 1)], [(1, "b")]), [Anomaly.LOST_WRITE]),
        (history([("a", 0), ("b", 1)], [(0, "a")], end=1), [Anomaly.LOST_WRITE]),
        (history([("a", 0), ("b", 0)], [(0, "b")]), [Anomaly.INCONSISTENT_OFFSET, Anomaly.NONMONOTONIC_SEND]),
        (history([("a", None)], [(0, "a"), (1, "a")]), [Anomaly.DUPLICATE]),
        (history([("a", 0), ("b", 1)], [(0, "a"), (1, "b")], [(1, "b")]), [Anomaly.NONMONOTONIC_POLL]),
        (history([("a", 0), ("b", 1)], [(1, "b"), (0, "a")]), [Anomaly.NONMONOTONIC_POLL]),
        (history([("a", 1), ("b", 0)], [(0, "b"), (1, "a")]), [Anomaly.NONMONOTONIC_SEND]),
        (history([], [(0, "a")]), [Anomaly.UNKNOWN_VALUE]),
    ],
)
def test_anomaly_is_detected(wrong: KafkaHistory, found: list[Anomaly]) -> None:
    assert [each for each in anomalies(wrong) if each is not Anomaly.LOST_WRITE or each in found] == found


def test_poll_that_skips_records_read_by_other_polls_is_detected() -> None:
    wrong = history([("a", 0), ("b", 1), ("c", 2)], [(0, "a")], [(2, "c")])
    wrong.polled.append(Polled("other", 1, "t-0", ((0, "a"), (1, "b"), (2, "c"))))
    assert anomalies(wrong) == [Anomaly.SKIPPED_POLL]


def test_offsets_without_records_do_not_count_as_skipped() -> None:
    assert anomalies(history([("a", 0), ("c", 2)], [(0, "a")], [(2, "c")])) == []


def test_consumer_can_start_a_new_assignment_at_any_offset() -> None:
    again = history([("a", 0), ("b", 1)], [(0, "a"), (1, "b")])
    again.polled.append(Polled("c", 2, "t-0", ((0, "a"), (1, "b"))))
    assert anomalies(again) == []


def test_value_read_from_another_partition_counts_as_unknown() -> None:
    wrong = history([("a", None)])
    wrong.polled.append(Polled("c", 1, "t-1", ((0, "a"),)))
    assert anomalies(wrong) == [Anomaly.UNKNOWN_VALUE]


def test_overlapping_sends_can_be_stored_in_any_order() -> None:
    both = KafkaHistory()
    both.sent += [Sent("p", "t-0", "a", 0, 20, 1), Sent("p", "t-0", "b", 10, 30, 0)]
    assert anomalies(both) == []


def test_losses_of_records_with_acks_1_are_reported_on_request() -> None:
    alone = KafkaHistory()
    alone.sent.append(Sent("p", "t-0", "a", 0, 5, 0, acks=1))
    alone.ends["t-0"] = 0
    assert alone.violations() == []
    assert [found.anomaly for found in alone.violations(acks=(-1, 1))] == [Anomaly.LOST_WRITE]
