"""Figures of a run: numbers that are computed from its measures and used to compare settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zabka.pipeline.campaign.clients import nearest_rank
from zabka.pipeline.campaign.failovers import CONTROLLER, ELECTED, PARTITION
from zabka.pipeline.campaign.measures import Measures


class Figure(NamedTuple):
    """A figure: its title, its unit, whether a high or low value is better, and how it is computed."""

    title: str
    unit: str
    more_is_better: bool
    of: Callable[[Measures], float | None]
    failovers: Callable[[Measures], list[float]] | None = None
    """Returns the durations of the failovers from which the figure is computed."""


def _share(measures: Measures, field: str) -> float | None:
    total = sum(times.window_us for times in measures.partitions)
    return 100 * sum(getattr(times, field) for times in measures.partitions) / total if total else None


def _answered(measures: Measures) -> float | None:
    sent = sum(view.sent for view in measures.clients or ())
    return 100 * sum(view.acknowledged for view in measures.clients or ()) / sent if sent else None


def _serving(measures: Measures) -> float | None:
    window_ms = (measures.window.end_us - measures.window.begin_us) / 1000
    views = measures.clients or ()
    return 100 * (1 - sum(view.waited_ms for view in views) / (window_ms * len(views))) if views else None


def _times(kind: str) -> Callable[[Measures], list[float]]:
    def of(measures: Measures) -> list[float]:
        return sorted(
            f.total_ms
            for f in measures.failovers
            if f.kind == kind and f.ended_by == ELECTED and f.total_ms is not None
        )

    return of


def _mean(times: Callable[[Measures], list[float]]) -> Callable[[Measures], float | None]:
    def of(measures: Measures) -> float | None:
        found = times(measures)
        return sum(found) / len(found) if found else None

    return of


def _worst(times: Callable[[Measures], list[float]]) -> Callable[[Measures], float | None]:
    return lambda measures: max(times(measures), default=None)


def _p50(times: Callable[[Measures], list[float]]) -> Callable[[Measures], float | None]:
    return lambda measures: nearest_rank(times(measures), 0.5)


def _latency(measures: Measures) -> float | None:
    return max(
        (view.latency_p99_ms for view in measures.clients or () if view.latency_p99_ms is not None), default=None
    )


def _silence(measures: Measures) -> float | None:
    return max((view.silence_ms for view in measures.clients or ()), default=None)


_PARTITIONS, _CONTROLLERS = _times(PARTITION), _times(CONTROLLER)
FIGURES: dict[str, Figure] = {
    "client_availability": Figure("time without a write that waited for over a second or failed", "%", True, _serving),
    "acknowledged_share": Figure("sends that were acknowledged", "%", True, _answered),
    "availability": Figure(
        "time in which partitions could take records", "%", True, lambda m: _share(m, "writable_us")
    ),
    "under_replicated": Figure(
        "time in which partitions were short of replicas", "%", False, lambda m: _share(m, "under_replicated_us")
    ),
    "under_min_isr": Figure(
        "time in which an ISR was below min.insync.replicas", "%", False, lambda m: _share(m, "under_min_isr_us")
    ),
    "failover_ms": Figure("failover of a partition, mean", "ms", False, _mean(_PARTITIONS), _PARTITIONS),
    "failover_worst_ms": Figure("failover of a partition, worst", "ms", False, _worst(_PARTITIONS), _PARTITIONS),
    "controller_failover_ms": Figure(
        "failover of the controller, median", "ms", False, _p50(_CONTROLLERS), _CONTROLLERS
    ),
    "lost_records": Figure(
        "acknowledged records that were lost", "records", False, lambda m: float(sum(m.lost_records.values()))
    ),
    "false_expiries": Figure(
        "sessions that expired though the broker lived", "a run", False, lambda m: float(m.false_expiries)
    ),
    "false_isr_evictions": Figure(
        "replicas that left an ISR by lag though the broker lived", "a run", False,
        lambda m: float(m.false_isr_evictions),
    ),
    "stale_reads": Figure(
        "reads older than what was acknowledged", "a run", False,
        lambda m: None if m.stale_reads is None else float(m.stale_reads),
    ),
    "latency_p99_ms": Figure("waiting time for an acknowledgement, 99th percentile", "ms", False, _latency),
    "silence_ms": Figure("longest time without an acknowledgement", "ms", False, _silence),
}  # fmt: skip
"""Figures by the names that a campaign's file uses."""


def figures(measures: Measures) -> dict[str, float | None]:
    """Return the value of every figure for a run.

    A value is None if the run cannot have it, such as a failover time without failovers.
    """
    return {name: figure.of(measures) for name, figure in FIGURES.items()}
