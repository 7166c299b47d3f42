"""Metrics in two text formats: `mntr` (MonitorCommand) and Prometheus (text format 0.0.4).

Counters have their plain names, without `_total`, as in ZooKeeper's exporter.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

from zabka.ensemble.server.operator.metrics import Readings
from zabka.ensemble.server.operator.server_facts import resident_bytes
from zabka.ensemble.summary import Summary

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_BASIC = (0.5,)
_DETAILED = (0.5, 0.9, 0.99)
_STARTED_S = time.time()


def monitor_rows(readings: Readings) -> Iterator[tuple[str, float | str]]:
    """Yield (name, value) of every metric, as in the output of `mntr` and of the admin command `monitor`."""
    yield from readings.texts.items()
    yield from readings.gauges.items()
    for name, by_label in readings.by_namespace.items():
        for label, value in by_label.items():
            yield f"{label}_{name}", value
    yield from readings.counters.items()
    for name, counts in readings.counted_by_namespace.items():
        for label, count in counts.items():
            yield f"{label}_{name}", count
    for name, summary in readings.summaries.items():
        yield from _summary_rows(name, summary)
    for name, summary in readings.detailed.items():
        yield from _summary_rows(name, summary)
        for prefix, share in _QUANTILES.items():
            yield f"{prefix}_{name}", summary.quantile(share)


def _summary_rows(name: str, summary: Summary) -> Iterator[tuple[str, float | str]]:
    yield f"avg_{name}", summary.average
    yield f"min_{name}", summary.minimum
    yield f"max_{name}", summary.maximum
    yield f"cnt_{name}", summary.count
    yield f"sum_{name}", summary.total


def prometheus_text(readings: Readings, *, process: bool) -> str:
    """Return all numeric metrics in Prometheus's text format; with `process`, also the metrics of the process."""
    lines: list[str] = []
    for name, value in readings.gauges.items():
        lines += _header(name, "gauge")
        lines.append(f"{name} {float(value)}")
    for name, by_label in readings.by_namespace.items():
        lines += _header(name, "gauge")
        lines += [f'{name}{{key="{_escaped(label)}"}} {float(value)}' for label, value in by_label.items()]
    for name, count in readings.counters.items():
        lines += _header(name, "counter")
        lines.append(f"{name} {float(count)}")
    for name, counts in readings.counted_by_namespace.items():
        lines += _header(name, "counter")
        lines += [f'{name}{{key="{_escaped(label)}"}} {float(count)}' for label, count in counts.items()]
    for name, summary in readings.summaries.items():
        lines += _summary_lines(name, summary, _BASIC)
    for name, summary in readings.detailed.items():
        lines += _summary_lines(name, summary, _DETAILED)
    for name, kind, value in _process_metrics() if process else ():
        lines += _header(name, kind)
        lines.append(f"{name} {value}")
    return "\n".join(lines) + "\n"


def _header(name: str, kind: str) -> list[str]:
    return [f"# HELP {name} {name}", f"# TYPE {name} {kind}"]


def _summary_lines(name: str, summary: Summary, shares: tuple[float, ...]) -> list[str]:
    quantiles = (
        f'{name}{{quantile="{share}"}} {float(summary.quantile(share)) if summary.count else "NaN"}' for share in shares
    )
    totals = f"{name}_count {float(summary.count)}", f"{name}_sum {float(summary.total)}"
    return [*_header(name, "summary"), *quantiles, *totals]


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _process_metrics() -> Iterator[tuple[str, str, float]]:
    """Yield (name, type, value) of the standard process metrics of Prometheus clients."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield "process_cpu_seconds_total", "counter", usage.ru_utime + usage.ru_stime
    yield "process_start_time_seconds", "gauge", _STARTED_S
    if (held := resident_bytes()) is not None:
        yield "process_resident_memory_bytes", "gauge", float(held)
