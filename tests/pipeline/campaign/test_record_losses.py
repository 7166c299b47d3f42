"""Acknowledged records that a campaign counts as lost."""

from __future__ import annotations

import msgspec
import pytest

from zabka.journal import events as e
from zabka.journal.events import Entry, Event
from zabka.pipeline.campaign.record_losses import RecordLosses


def losses(*events: Event) -> dict[str, int]:
    found = RecordLosses()
    for number, event in enumerate(events, 1):
        found.see(Entry("world", number, number, number, event))
    return found.lost()


def acknowledged(first: int, last: int) -> list[Event]:
    """Return a batch that broker 1 appended and acknowledged."""
    return [
        e.RecordsAppended(1, "t", 0, 0, first, last, first),
        e.RecordsAcknowledged(1, "t", 0, 0, first, last, -1, first),
    ]


def fetched(first: int, last: int) -> e.RecordsReplicated:
    return e.RecordsReplicated(2, "t", 0, 0, first, last, first)


def leads(broker: int, epoch: int, end: int, start: int = 0) -> Event:
    return e.LeadershipTaken(broker, "t", 0, epoch, end, 0, start)


def compacted(last: int) -> Event:
    return e.LogCompacted(1, "t", 0, 0, last, 700, 100)


WRITTEN = [leads(1, 0, 0), *acknowledged(0, 1), *acknowledged(2, 4), *acknowledged(5, 5)]
THINNED = msgspec.structs.replace(fetched(2, 4), checksum=99, compacted=True)


def test_acknowledged_record_missing_on_the_last_leader_is_lost() -> None:
    assert losses(*WRITTEN) == {"t-0": 0}
    assert losses(*WRITTEN, fetched(0, 1), fetched(2, 4), leads(2, 1, 5)) == {"t-0": 1}
    assert losses(*WRITTEN, leads(2, 1, 0)) == {"t-0": 6}


def test_record_deleted_by_retention_is_not_lost() -> None:
    assert losses(*WRITTEN, fetched(5, 5), leads(2, 1, 6, start=5)) == {"t-0": 0}
    assert losses(*WRITTEN, fetched(5, 5), leads(2, 1, 6, start=2)) == {"t-0": 3}


@pytest.mark.parametrize(("compacted_to", "lost"), [(4, 0), (1, 3), (-1, 5)])
def test_record_possibly_removed_by_compaction_is_not_lost(compacted_to: int, lost: int) -> None:
    """In the log, some records of the batch with offsets 2 to 4 remain, and no record of the batch with offsets 0 to
    1."""
    assert losses(*WRITTEN, compacted(compacted_to), THINNED, fetched(5, 5), leads(2, 1, 6)) == {"t-0": lost}


def test_compaction_does_not_explain_other_record_losses() -> None:
    other = msgspec.structs.replace(THINNED, compacted=False)
    assert losses(*WRITTEN, compacted(4), other, fetched(5, 5), leads(2, 1, 6)) == {"t-0": 3}
    assert losses(*WRITTEN, compacted(4), leads(2, 1, 0)) == {"t-0": 6}
