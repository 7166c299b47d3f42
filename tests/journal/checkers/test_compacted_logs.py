"""Compaction is reported in the journal, so that the records that it removed do not count as a violation.

Any other record that is missing from a log is still a violation.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.journal.checkers.test_invariants import (
    IN_SYNC,
    acknowledged,
    appended,
    disk_replaced,
    elected,
    leads,
    replicated,
    violated,
)
from zabka.journal import events as e
from zabka.journal.checkers.record_invariants import CommittedRecordsSurvive
from zabka.journal.checkers.replication_invariants import HighWatermarkWithinLog, LogsMatch
from zabka.journal.events import Event

Rows = list[tuple[str, Event]]

THREE_RECORDS: Rows = [
    *IN_SYNC,
    ("broker-1", appended(1, 1, 2)),
    ("broker-2", replicated(2, 1, 2)),
    ("broker-1", acknowledged(1, 1, 2)),
    ("broker-1", appended(1, 3, 3)),
    ("broker-2", replicated(2, 3, 3)),
    ("broker-1", acknowledged(1, 3, 3)),
]
"""Brokers 1 and 2 have three acknowledged batches: offset 0, offsets 1 to 2, and offset 3."""


def compacted(broker: int, first: int, last: int) -> tuple[str, Event]:
    return f"broker-{broker}", e.LogCompacted(broker, "t", 0, first, last, 700, 100)


def fetched_thinned(broker: int, first: int, last: int) -> tuple[str, Event]:
    """Return the event of a broker that fetches a batch without the records that compaction has removed."""
    thinned = msgspec.structs.replace(replicated(broker, first, last), checksum=99, compacted=True)
    return f"broker-{broker}", thinned


def fetched(broker: int, first: int, last: int) -> tuple[str, Event]:
    return f"broker-{broker}", replicated(broker, first, last)


def rebuilt(*rows: tuple[str, Event]) -> Rows:
    """Return a history in which broker 2 loses its disk and becomes leader with a compacted log.

    Broker 1 compacts its log up to offset 2. Broker 2 fetches that log, joins the ISR and is elected. The events in
    `rows` follow.
    """
    return [
        *THREE_RECORDS,
        compacted(1, 0, 2),
        ("broker-1", e.IsrChanged("t", 0, [1], 1, 0, 1, "lag", zxid=11)),
        *disk_replaced(2),
        *rows,
        ("broker-1", e.IsrChanged("t", 0, [1, 2], 1, 0, 2, "caught_up", zxid=12)),
        ("broker-3", elected(2, 1, [2], 3, zxid=13)),
        ("broker-2", leads(2, 1, 4)),
    ]


def test_replica_rebuilt_from_a_compacted_log_can_lead() -> None:
    assert violated(rebuilt(fetched_thinned(2, 1, 2), fetched(2, 3, 3))) == []


def test_batch_that_differs_without_compaction_is_reported() -> None:
    other = msgspec.structs.replace(replicated(2, 1, 2), checksum=99)
    found = violated(rebuilt(("broker-2", other), fetched(2, 3, 3)))
    assert found == [LogsMatch.name, CommittedRecordsSurvive.name]


def test_missing_record_after_the_compacted_part_is_reported() -> None:
    rows = rebuilt(fetched_thinned(2, 1, 2), ("broker-2", replicated(2, 4, 4)))
    *before, (node, _) = rows
    assert violated([*before, (node, leads(2, 1, 5))]) == [CommittedRecordsSurvive.name]


@pytest.mark.parametrize("end", [0, 1, 3])
def test_missing_record_at_the_log_end_is_reported(end: int) -> None:
    *before, (node, _) = rebuilt()
    assert violated([*before, (node, leads(2, 1, end))]) == [CommittedRecordsSurvive.name]


def test_partial_batch_without_compaction_is_reported() -> None:
    rows = [row for row in rebuilt(fetched_thinned(2, 1, 2), fetched(2, 3, 3)) if type(row[1]) is not e.LogCompacted]
    assert violated(rows) == [CommittedRecordsSurvive.name]


def test_compaction_does_not_explain_losses_of_a_recreated_topic() -> None:
    without_event = [
        row for row in rebuilt(fetched_thinned(2, 1, 2), fetched(2, 3, 3)) if type(row[1]) is not e.LogCompacted
    ]
    rows = [*THREE_RECORDS, compacted(1, 0, 2), ("broker-3", e.TopicDeleted("t")), *without_event]
    assert violated(rows) == [CommittedRecordsSurvive.name]


def test_replica_with_a_whole_batch_can_lead_after_partial_one() -> None:
    """A replica with a complete batch can become leader although the batch was committed incomplete.

    The former leader committed the batch without some of its records, because it had rebuilt its log from a compacted
    log.
    """
    *rows, _, _, _ = rebuilt(fetched_thinned(2, 1, 2), fetched(2, 3, 3))
    unclean = [
        ("broker-3", elected(2, 1, [2], 2, zxid=13, unclean=True)),
        ("broker-2", leads(2, 1, 4)),
        ("broker-2", e.HighWatermarkMoved(2, "t", 0, 1, 4, True)),
        ("broker-2", e.IsrChanged("t", 0, [2, 1], 2, 1, 3, "caught_up", zxid=14)),
        ("broker-3", elected(1, 2, [1], 4, zxid=15)),
    ]
    assert violated([*rows, *unclean, ("broker-1", leads(1, 2, 4))]) == []
    assert violated([*rows, *unclean, ("broker-1", leads(1, 2, 1))]) == [CommittedRecordsSurvive.name]


@pytest.mark.parametrize(("begins_at", "found"), [(9, []), (-1, [HighWatermarkWithinLog.name])])
def test_log_truncated_to_the_leaders_start_offset_ends_there(begins_at: int, found: list[str]) -> None:
    begun = e.LogTruncated(2, "t", 0, 4, 0, 0, cause="leader_start", begins_at=begins_at)
    mark = e.HighWatermarkMoved(2, "t", 0, 0, 9, False)
    assert violated([*THREE_RECORDS, ("broker-2", begun), ("broker-2", mark)]) == found
