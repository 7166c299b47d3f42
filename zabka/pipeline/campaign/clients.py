"""What clients observe: replies, waiting times, and reads that do not show an acknowledged record."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from zabka.journal.checkers.kafka_analysis import ACKS_ALL, KafkaHistory, Sent
from zabka.kafka.client.waiting import SLOW_MS, united
from zabka.pipeline.campaign.partition_times import Window


class ClientView(msgspec.Struct):
    """Results of one producer, identified by its topic. Only sends that began within the window count.

    `refused` is the number of sends without an acknowledgement; their records may be in the log nevertheless. The
    latencies are those of acknowledged sends, or None if no send was acknowledged. `silence_ms` is the longest time
    without any acknowledgement. `waited_ms` is the time in which the producer wanted to write and could not
    (`zabka.kafka.client.waiting`). It measures an outage better than the share of failed sends, because a waiting
    producer sends nothing else.
    """

    topic: str
    sent: int
    acknowledged: int
    refused: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    silence_ms: float
    waited_ms: float


def client_views(history: KafkaHistory, window: Window) -> list[ClientView]:
    """Return the results of each topic's producer."""
    by_topic: dict[str, list[Sent]] = {}
    for sent in history.sent:
        if window.begin_us <= sent.began_us < window.end_us:
            by_topic.setdefault(sent.partition.rpartition("-")[0], []).append(sent)
    return [_view(topic, sent, window) for topic, sent in by_topic.items()]


def _view(topic: str, sent: list[Sent], window: Window) -> ClientView:
    answered = [one for one in sent if one.offset is not None]

    waited = [(window.clip(one.began_us), window.clip(one.ended_us)) for one in sent if _kept_waiting(one)]
    latencies_ms = sorted((one.ended_us - one.began_us) / 1000 for one in answered)
    moments = [window.begin_us, *sorted(min(one.ended_us, window.end_us) for one in answered), window.end_us]
    return ClientView(
        topic=topic,
        sent=len(sent),
        acknowledged=len(answered),
        refused=len(sent) - len(answered),
        latency_p50_ms=nearest_rank(latencies_ms, 0.5),
        latency_p99_ms=nearest_rank(latencies_ms, 0.99),
        silence_ms=max(after - before for before, after in pairwise(moments)) / 1000,
        waited_ms=united(waited) / 1000,
    )


def _kept_waiting(one: Sent) -> bool:
    return one.offset is None or one.ended_us - one.began_us > SLOW_MS * 1000


def nearest_rank(ordered: list[float], share: float) -> float | None:
    """Return the nearest-rank percentile: the smallest value that at least `share` of all values do not exceed.

    Return None for an empty list.
    """
    if not ordered:
        return None
    rank = -int(-share * len(ordered) // 1)
    return ordered[max(0, min(len(ordered), rank) - 1)]


def stale_reads(history: KafkaHistory) -> tuple[int, int]:
    """Return the number of stale polls, and the number of all polls.

    A poll is stale if its high watermark is below a record that had been acknowledged (acks=all) before the poll began.
    Kafka allows stale polls from a former leader that does not know yet that another leader was elected, and from a new
    leader until its high watermark has caught up.
    """
    ends: dict[str, list[tuple[int, int]]] = {}
    for partition, acknowledged in _by_partition(history.sent).items():
        highest, steps = -1, []
        for at_us, offset in sorted(acknowledged):
            if offset > highest:
                highest = offset
                steps.append((at_us, highest))
        ends[partition] = steps
    stale = 0
    places = dict.fromkeys(ends, 0)
    for read in sorted(history.reads, key=lambda read: read.began_us):
        steps = ends.get(read.partition, [])
        place = places.get(read.partition, 0)
        while place < len(steps) and steps[place][0] <= read.began_us:
            place += 1
        places[read.partition] = place
        stale += place > 0 and read.high_watermark <= steps[place - 1][1]
    return stale, len(history.reads)


def _by_partition(sent: Iterable[Sent]) -> dict[str, list[tuple[int, int]]]:
    acknowledged: dict[str, list[tuple[int, int]]] = {}
    for one in sent:
        if one.offset is not None and one.acks == ACKS_ALL:
            acknowledged.setdefault(one.partition, []).append((one.ended_us, one.offset))
    return acknowledged
