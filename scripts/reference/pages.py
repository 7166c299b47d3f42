"""All generated pages, keyed by file name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scripts.reference import (
    command_line,
    event_types,
    http_routes,
    kafka_keys,
    metric_names,
    pipeline_tables,
    scenario_library,
    state_machines,
    zookeeper_keys,
)

PAGES: Mapping[str, Callable[[], str]] = {
    "events.md": event_types.page,
    "command-line.md": command_line.page,
    "http.md": http_routes.page,
    "zookeeper-keys.md": zookeeper_keys.page,
    "kafka-keys.md": kafka_keys.page,
    "metrics.md": metric_names.page,
    "tables.md": pipeline_tables.page,
    "scenarios.md": scenario_library.page,
    "state-machines.md": state_machines.page,
}
