"""Anomalies in what clients of a Kafka cluster observed, as Jepsen's kafka workload defines them.

A history contains the acknowledgement of each sent record, and the records that consumers polled. Every value is sent
only once, so a value identifies its send. This module is pure; it accepts simulated and live histories.

lost write          an acknowledged value was never polled, though polls went beyond its offset, or to the log's end
inconsistent offset one offset of a partition had two values, in polls or acknowledgements
duplicate           one value was polled at two offsets of a partition, or in two partitions
nonmonotonic poll   a consumer polled offsets that it had already polled in the same assignment
skipped poll        a consumer's next poll omitted known records
nonmonotonic send   a producer sent a record after an earlier one was acknowledged,
                    and the later record got a lower offset
unknown value       a polled value was never sent, or was sent to another partition
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

ACKS_ALL = -1


class Anomaly(StrEnum):
    """The kinds of anomalies in a history."""

    LOST_WRITE = "lost write"
    INCONSISTENT_OFFSET = "inconsistent offset"
    DUPLICATE = "duplicate"
    NONMONOTONIC_POLL = "nonmonotonic poll"
    SKIPPED_POLL = "skipped poll"
    NONMONOTONIC_SEND = "nonmonotonic send"
    UNKNOWN_VALUE = "unknown value"


class Sent(NamedTuple):
    """A record that a producer sent. `offset` is None if the result is unknown: the record may be in the log."""

    producer: str
    partition: str
    value: str
    began_us: int
    ended_us: int
    offset: int | None
    acks: int = ACKS_ALL


class Polled(NamedTuple):
    """Records of one partition that one poll of a consumer returned.

    `assignment` is incremented when the consumer is assigned the partition again or seeks in it. Later polls then do
    not have to continue at the position of earlier polls.
    """

    consumer: str
    assignment: int
    partition: str
    records: tuple[tuple[int, str], ...]


class Read(NamedTuple):
    """Start offset of a poll, and the high watermark in the poll's response."""

    partition: str
    began_us: int
    high_watermark: int


class Found(NamedTuple):
    """An anomaly in one partition of a history."""

    anomaly: Anomaly
    partition: str
    detail: str

    def __str__(self) -> str:
        return f"{self.anomaly}: {self.partition}: {self.detail}"


class KafkaHistory:
    """A growing history of sends and polls."""

    __slots__ = ("ends", "polled", "reads", "sent")

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.polled: list[Polled] = []
        self.reads: list[Read] = []
        self.ends: dict[str, int] = {}
        """The log end offset of each partition after all sends, for partitions that were polled up to that offset."""

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged records."""
        return sum(sent.offset is not None for sent in self.sent)

    def violations(self, acks: Iterable[int] = (ACKS_ALL,)) -> list[Found]:
        """Return all anomalies. A loss is an anomaly only if the record was acknowledged with one of `acks`.

        With acks=1 only the leader has to store a record. If the leader is lost, other records can get the same
        offsets.
        """
        shown = _by_offset(self.polled)
        binding = tuple(acks)
        acknowledged = [sent for sent in self.sent if sent.acks in binding]
        known = _with_acknowledged(shown, acknowledged)
        sent_to = {sent.value: sent.partition for sent in self.sent}
        return [
            *_inconsistent(known),
            *_duplicates(shown),
            *_unknown(shown, sent_to),
            *_lost(acknowledged, shown, self.ends),
            *_polls(self.polled, known),
            *_sends(acknowledged),
        ]


_Offsets = dict[str, dict[int, dict[str, None]]]


def _by_offset(polled: Iterable[Polled]) -> _Offsets:
    shown: _Offsets = {}
    for poll in polled:
        offsets = shown.setdefault(poll.partition, {})
        for offset, value in poll.records:
            offsets.setdefault(offset, {})[value] = None
    return shown


def _with_acknowledged(shown: _Offsets, sent: Iterable[Sent]) -> _Offsets:
    known: _Offsets = {name: {at: dict(values) for at, values in offsets.items()} for name, offsets in shown.items()}
    for one in sent:
        if one.offset is not None and one.offset >= 0:
            known.setdefault(one.partition, {}).setdefault(one.offset, {})[one.value] = None
    return known


def _inconsistent(known: _Offsets) -> Iterator[Found]:
    for partition, offsets in known.items():
        for offset, values in offsets.items():
            if len(values) > 1:
                yield Found(Anomaly.INCONSISTENT_OFFSET, partition, f"offset {offset} is {' and '.join(values)}")


def _duplicates(shown: _Offsets) -> Iterator[Found]:
    places: dict[str, dict[tuple[str, int], None]] = {}
    for partition, offsets in shown.items():
        for offset, values in offsets.items():
            for value in values:
                places.setdefault(value, {})[partition, offset] = None
    for value, found in places.items():
        if len(found) > 1:
            where = " and ".join(f"{partition} offset {offset}" for partition, offset in found)
            yield Found(Anomaly.DUPLICATE, next(iter(found))[0], f"{value} stands at {where}")


def _unknown(shown: _Offsets, sent_to: Mapping[str, str]) -> Iterator[Found]:
    for partition, offsets in shown.items():
        for offset, values in offsets.items():
            for value in values:
                if sent_to.get(value) != partition:
                    yield Found(
                        Anomaly.UNKNOWN_VALUE, partition, f"offset {offset} is {value}, which nobody sent there"
                    )


def _lost(sent: Iterable[Sent], shown: _Offsets, ends: Mapping[str, int]) -> Iterator[Found]:
    for one in sent:
        if one.offset is None:
            continue
        offsets = shown.get(one.partition, {})
        if one.value in offsets.get(one.offset, {}):
            continue
        beyond = max(offsets, default=-1) > one.offset
        if beyond or one.partition in ends:
            until = "polls went beyond it" if beyond else f"the log ends at {ends[one.partition]}"
            yield Found(
                Anomaly.LOST_WRITE,
                one.partition,
                f"{one.value}, acknowledged at {one.offset}, was never polled; {until}",
            )


def _polls(polled: Iterable[Polled], known: _Offsets) -> Iterator[Found]:
    last: dict[tuple[str, int, str], int] = {}
    for poll in polled:
        key = poll.consumer, poll.assignment, poll.partition
        offsets = [offset for offset, _ in poll.records]
        before = [last[key]] if key in last else []
        for earlier, later in pairwise([*before, *offsets]):
            if later <= earlier:
                yield Found(
                    Anomaly.NONMONOTONIC_POLL, poll.partition, f"{poll.consumer} polled {later} behind {earlier}"
                )
            between = next((at for at in range(earlier + 1, later) if at in known.get(poll.partition, {})), None)
            if between is not None:
                yield Found(
                    Anomaly.SKIPPED_POLL,
                    poll.partition,
                    f"{poll.consumer} went from {earlier} to {later}, past {between}",
                )
        if offsets:
            last[key] = offsets[-1]


def _sends(sent: Iterable[Sent]) -> Iterator[Found]:
    highest: dict[tuple[str, str], Sent] = {}
    for one in sorted(sent, key=lambda each: each.began_us):
        if one.offset is None or one.offset < 0:
            continue
        former = highest.get((one.producer, one.partition))
        if former is None or former.offset is None:
            highest[one.producer, one.partition] = one
        elif one.began_us >= former.ended_us:
            if one.offset <= former.offset:
                yield Found(
                    Anomaly.NONMONOTONIC_SEND,
                    one.partition,
                    f"{one.producer} sent {one.value} behind {former.value}; they got {one.offset} and {former.offset}",
                )
            else:
                highest[one.producer, one.partition] = one
