"""Reference page of the metrics.

The API's metrics are read from a rendered response, a peer's metrics from the names in its code.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from scripts.reference.markdown import code, document, table
from zabka.api.collector.collector import Collector
from zabka.api.collector.event_counts import EventCounts
from zabka.api.metrics import render
from zabka.api.views.ensemble_view import Fresh, Reading
from zabka.api.views.models import Broker, Partition, Peer, Topic
from zabka.controller.metrics import ControllerStats, mbeans
from zabka.ensemble.server.config.limits import LimitCounts
from zabka.ensemble.server.operator.metrics import Metrics, OnDemandCounts
from zabka.ensemble.tree.counters import FIRED_AS
from zabka.journal.cluster_state import ClusterState

_INTRODUCTION = (
    "The dashboard's process reports the whole cluster at `/metrics`, under the names that Kafka's JMX exporter "
    "and ZooKeeper's own exporter use. Each peer reports its own metrics under ZooKeeper's names: with the command "
    "`mntr` (with `zk_` before each name), with the admin command `monitor`, and to Prometheus if "
    "`metricsProvider.className` is set."
)
_OF_A_PEER = (
    "Names and meanings are those of ZooKeeper 3.9's `ServerMetrics`, `ServerStats` and `Leader`. A summary has "
    "`avg_`, `min_`, `max_`, `cnt_` and `sum_` of its name; a detailed one also has quantiles. Some gauges exist in "
    "one role only. `tests/interop/metric_names.py` lists the metrics of ZooKeeper that a peer does not have, with "
    "the reason for each."
)
_KINDS = {
    "_gauges": "gauge",
    "_gauges_of_leader": "gauge of a leader",
    "_by_namespace": "gauge by namespace",
    "_counters": "counter",
    "_counted_by_namespace": "counter by namespace",
    "_summaries": "summary",
    "_detailed": "detailed summary",
}


def page() -> str:
    """Return the page of metrics."""
    return document(
        "Metrics",
        _INTRODUCTION,
        "## Cluster metrics\n\n" + table(["name", "kind", "meaning"], _of_cluster()),
        f"## Peer metrics\n\n{_OF_A_PEER}\n\n" + table(["name", "kind"], _of_peer()),
    )


def _of_cluster() -> Iterator[list[str]]:
    """Render the metrics of a cluster of one peer, one broker and one partition, and yield a table row for each
    metric.
    """
    broker = Broker.model_construct(
        id=1,
        process="running",
        registered=True,
        is_controller=True,
        status={"controller_metrics": mbeans(ControllerStats(), None, 0, 0)},
    )
    partition = Partition.model_construct(partition=0, leader=1, isr=[1], replicas=[1], offline=False)
    topic = Topic.model_construct(name="t", config={}, partitions=[partition], deleting=False)
    peer = Peer.model_construct(
        id=1, state="LEADING", phase="BROADCAST", observer=False, process="running", current_epoch=1
    )
    counts = EventCounts()
    counts.isr = Counter({(1, "shrinks"): 1, (1, "expands"): 1})
    collector: Any = SimpleNamespace(counts=counts, last_seq=0, bad_lines=0, state=ClusterState())
    help_of: dict[str, str] = {}
    fresh = Fresh(Reading(), stale=False, age_ms=0)
    for line in render([peer], [broker], [topic], cast(Collector, collector), fresh).decode().splitlines():
        if line.startswith("# HELP "):
            _, _, name, meaning = line.split(" ", 3)
            help_of[name] = meaning
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            if not name.endswith("_created"):
                yield [code(name), kind, help_of[name]]


def _of_peer() -> Iterator[list[str]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(Metrics)))
    found: dict[str, str] = {}
    for method in ast.walk(tree):
        if isinstance(method, ast.FunctionDef) and method.name in _KINDS:
            for name in _names(method):
                found.setdefault(name, _KINDS[method.name])
    for counts in (LimitCounts, OnDemandCounts):
        found |= {field.name: found.get(field.name, "counter") for field in msgspec.structs.fields(counts)}
    found |= dict.fromkeys(FIRED_AS.values(), "summary")
    for name, kind in sorted(found.items()):
        yield [code(name), kind]


def _names(method: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of metrics in a method: dictionary keys, and names that it assigns to or iterates over."""
    for node in ast.walk(method):
        if isinstance(node, ast.Dict):
            yield from _texts([key for key in node.keys if key is not None])
        elif isinstance(node, ast.Assign):
            yield from _texts([target.slice for target in node.targets if isinstance(target, ast.Subscript)])
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple):
            yield from _texts([row.elts[0] for row in node.iter.elts if isinstance(row, ast.Tuple)])


def _texts(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
