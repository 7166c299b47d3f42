"""Computes the measures of one run: a fold over its journal, and over the results that clients recorded, if any.

A journal contains what nodes did. Without the clients' results, sends without a reply, waiting times and stale reads
are None. All times are `mono_us` of the journal, which in a simulated run is one clock for all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zabka.journal.checkers.kafka_analysis import KafkaHistory
from zabka.journal.events import Entry
from zabka.pipeline.campaign.clients import ClientView, client_views, stale_reads
from zabka.pipeline.campaign.evictions import TAKES as OF_EVICTIONS
from zabka.pipeline.campaign.evictions import Evictions
from zabka.pipeline.campaign.failovers import TAKES as OF_FAILOVERS
from zabka.pipeline.campaign.failovers import Failover, Failovers
from zabka.pipeline.campaign.lives import TAKES as OF_LIVES
from zabka.pipeline.campaign.lives import Lives
from zabka.pipeline.campaign.partition_times import TAKES as OF_PARTITION_TIMES
from zabka.pipeline.campaign.partition_times import PartitionClock, PartitionTimes, Window
from zabka.pipeline.campaign.record_losses import TAKES as OF_RECORD_LOSSES
from zabka.pipeline.campaign.record_losses import RecordLosses

_TAKEN = OF_LIVES | OF_PARTITION_TIMES | OF_FAILOVERS | OF_RECORD_LOSSES | OF_EVICTIONS
"""Event types that the measures need. Nine of ten entries have other types and are skipped."""


class Asked(msgspec.Struct, frozen=True):
    """Parameters of the measures: the window, and the conditions under which a partition accepts writes."""

    window: Window
    min_insync_replicas: int = 1
    acks: int = -1


class Measures(msgspec.Struct):
    """Measures of one run: times within the window, failovers that began within it, and losses of the whole run."""

    window: Window
    partitions: list[PartitionTimes]
    failovers: list[Failover]
    acknowledged_records: int
    lost_records: dict[str, int]
    sessions_expired: int
    false_expiries: int
    isr_evictions: int
    false_isr_evictions: int
    clients: list[ClientView] | None
    stale_reads: int | None
    polls: int | None


def measure(entries: Iterable[Entry], asked: Asked, clients: KafkaHistory | None = None) -> Measures:
    """Compute the measures from the entries of a full journal in order.

    `clients` is the history that the clients recorded, if available.
    """
    lives = Lives()
    clock = PartitionClock(asked.window, lives, asked.min_insync_replicas, asked.acks)
    failovers, losses, evictions = Failovers(clock), RecordLosses(), Evictions(asked.window, lives)
    last_us = 0
    for entry in entries:
        last_us = max(last_us, entry.mono_us)
        stood_still = lives.stands_still(entry.node)
        if type(entry.event) not in _TAKEN and not stood_still:
            continue
        clock.before(entry)
        stopped = lives.see(entry)
        if stopped is not None:
            failovers.lost(*stopped, entry.mono_us)
        elif stood_still:
            failovers.went_on(entry.node)
        clock.see(entry)
        failovers.see(entry)
        losses.see(entry)
        evictions.see(entry)
    stale, polls = (None, None) if clients is None else stale_reads(clients)
    return Measures(
        window=asked.window,
        partitions=clock.close(max(last_us, asked.window.end_us)),
        failovers=[f for f in failovers.found if asked.window.begin_us <= f.began_us < asked.window.end_us],
        acknowledged_records=sum(losses.acknowledged().values()),
        lost_records={name: count for name, count in losses.lost().items() if count},
        sessions_expired=evictions.sessions,
        false_expiries=evictions.false_sessions,
        isr_evictions=evictions.from_isr,
        false_isr_evictions=evictions.false_from_isr,
        clients=None if clients is None else client_views(clients, asked.window),
        stale_reads=stale,
        polls=polls,
    )
