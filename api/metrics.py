"""The /metrics response, with the metric names of Kafka's JMX exporter and of ZooKeeper's own exporter.

Existing Grafana dashboards therefore work. The values come from the journal's fold, the nodes' statuses and the
ensemble.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as MetricsCollector

from zabka.api.collector.collector import Collector
from zabka.api.views.ensemble_view import Fresh
from zabka.api.views.models import INT32_MAX, Broker, Peer, Topic
from zabka.journal.controller_gaps import gap_before, gap_milliseconds
from zabka.journal.losses import committed_records_lost
from zabka.kafka.zk.znodes.json_content import plain_number

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Once(MetricsCollector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def render(peers: list[Peer], brokers: list[Broker], topics: list[Topic], collector: Collector, fresh: Fresh) -> bytes:
    """Render the metrics in the exposition format.

    `fresh` contains the latest reading of the ensemble, from which `brokers` and `topics` come, and its age.
    """
    families = [*_reading(fresh), *_controller(brokers, topics), *_controller_own(brokers)]
    families += [*_replicas(brokers, topics), *_events(collector)]
    families += _ensemble(peers, collector)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(families))
    return generate_latest(registry)


def _gauge(name: str, text: str, rows: list[tuple[str, float]], label: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in rows:
        family.add_metric([key], value)
    return family


def _reading(fresh: Fresh) -> list[Metric]:
    stale = "1 if the ensemble does not respond: registrations, topics and partitions are the last known ones"
    age = "Age of the last reading of registrations, topics and partitions from the ensemble"
    return [
        GaugeMetricFamily("zabka_ensemble_reading_stale", stale, value=float(fresh.stale)),
        GaugeMetricFamily("zabka_ensemble_reading_age_seconds", age, value=fresh.age_ms / 1000),
    ]


def _controller(brokers: list[Broker], topics: list[Topic]) -> list[Metric]:
    partitions = [p for t in topics for p in t.partitions]
    # Count as Kafka's KafkaController does: a topic that is being deleted is neither offline nor has a non-preferred
    # leader.
    kept = [p for t in topics if not t.deleting for p in t.partitions]
    known = [b for b in brokers if b.process != "down" and b.is_controller is not None]
    acting = [(str(b.id), 1.0 if b.is_controller else 0.0) for b in known]
    prefix = "kafka_controller_kafkacontroller_"
    plain = {
        "offlinepartitionscount": (float(sum(p.offline for p in kept)), "Partitions without a leader"),
        "globaltopiccount": (float(len(topics)), "Topics"),
        "globalpartitioncount": (float(len(partitions)), "Partitions"),
        "activebrokercount": (float(sum(b.registered for b in brokers)), "Registered brokers"),
        "topicstodeletecount": (float(sum(t.deleting for t in topics)), "Topics marked for deletion"),
        "preferredreplicaimbalancecount": (
            float(sum(bool(p.replicas) and p.leader != p.replicas[0] for p in kept)),
            "Partitions not led by their preferred replica",
        ),
    }
    families: list[Metric] = [
        _gauge(f"{prefix}activecontrollercount", "1 if the broker acts as controller", acting, "broker")
    ]
    families += [GaugeMetricFamily(prefix + name, text, value=v) for name, (v, text) in plain.items()]
    return families


_CLUSTER_WIDE = frozenset(
    {
        "ActiveControllerCount",
        "OfflinePartitionsCount",
        "GlobalTopicCount",
        "GlobalPartitionCount",
        "ActiveBrokerCount",
        "TopicsToDeleteCount",
        "PreferredReplicaImbalanceCount",
    }
)
"""Controller metrics that have one value for the cluster instead of one per broker."""

_CONTROLLER_HELP = {
    "ReplicasToDeleteCount": "Replicas still to be deleted",
    "TopicsIneligibleToDeleteCount": "Topics whose deletion cannot continue now",
    "ReplicasIneligibleToDeleteCount": "Replicas whose deletion cannot continue now",
    "FencedBrokerCount": "Fenced brokers",
    "ControllerState": "Number of the event type in progress (kafka.controller.ControllerState); 0 is idle",
    "UncleanLeaderElectionsPerSec_Count": "Unclean leader elections by this controller",
    "EventQueueSize": "Controller events that wait in the queue",
    "TotalQueueSize": "Requests to brokers that wait in the queues",
}
_TIMER_HELP = {"Count": "number", "Sum": "total time in ms", "Max": "longest time in ms"}


def _controller_own(brokers: list[Broker]) -> list[Metric]:
    """Return the controller metrics that each broker reports for itself, with the names of jmx_exporter."""
    rows: dict[str, tuple[str, list[tuple[str, float]]]] = {}
    for broker in brokers:
        for kind, values in broker.status.get("controller_metrics", {}).items():
            for name, value in values.items():
                if name not in _CLUSTER_WIDE:
                    metric = f"kafka_controller_{kind}_{name}".lower()
                    rows.setdefault(metric, (_controller_help(name), []))[1].append((str(broker.id), value))
    return [_gauge(name, text, listed, "broker") for name, (text, listed) in rows.items()]


def _controller_help(name: str) -> str:
    """Return the HELP text of a controller metric. Timers are `NameRateAndTimeMs_Count`, `_Sum` and `_Max`."""
    if name in _CONTROLLER_HELP:
        return _CONTROLLER_HELP[name]
    timer, _, part = name.partition("_")
    event = timer.removesuffix("TimeMs").removesuffix("RateAnd")
    what = "Controller events in the queue" if event == "EventQueue" else f"Controller events of type {event}"
    return f"{what}: {_TIMER_HELP[part]}"


_REPLICA_HELP = {
    "underreplicatedpartitions": "Partitions led by the broker whose ISR is smaller than their replica set",
    "underminisrpartitioncount": "Partitions led by the broker whose ISR is smaller than min.insync.replicas",
    "leadercount": "Partitions led by the broker",
    "partitioncount": "Partitions with a replica on the broker",
}


def _replicas(brokers: list[Broker], topics: list[Topic]) -> list[Metric]:
    partitions = [(t, p) for t in topics for p in t.partitions]
    rows: dict[str, list[tuple[str, float]]] = {}
    for broker in brokers:
        led = [(t, p) for t, p in partitions if p.leader == broker.id]
        held = [p for _, p in partitions if broker.id in p.replicas]
        under_min = sum(len(p.isr) < _min_in_sync(t) for t, p in led)
        for name, value in (
            ("underreplicatedpartitions", sum(len(p.isr) < len(p.replicas) for _, p in led)),
            ("underminisrpartitioncount", under_min),
            ("leadercount", len(led)),
            ("partitioncount", len(held)),
        ):
            rows.setdefault(name, []).append((str(broker.id), float(value)))
    prefix = "kafka_server_replicamanager_"
    families: list[Metric] = [_gauge(prefix + n, _REPLICA_HELP[n], r, "broker") for n, r in rows.items()]
    isr = GaugeMetricFamily(
        "kafka_cluster_partition_insyncreplicascount", "Size of the ISR", labels=["topic", "partition"]
    )
    for topic, partition in partitions:
        isr.add_metric([topic.name, str(partition.partition)], len(partition.isr))
    return [*families, isr]


def _min_in_sync(topic: Topic) -> int:
    """Return min.insync.replicas as a broker parses it, because any client may have written the znode."""
    return plain_number(topic.config.get("min.insync.replicas", "").strip(), INT32_MAX) or 1


def _events(collector: Collector) -> list[Metric]:
    counts = collector.counts
    isr = {
        kind: CounterMetricFamily(
            f"kafka_server_replicamanager_isr{kind}", f"Changes of an ISR: {kind}", labels=["broker"]
        )
        for kind in ("shrinks", "expands")
    }
    for (broker, kind), value in sorted(counts.isr.items()):
        isr[kind].add_metric([str(broker)], value)
    plain = {
        "kafka_controller_controllerstats_uncleanleaderelections": (
            counts.unclean_elections,
            "Unclean leader elections",
        ),
        "kafka_controller_controllerstats_leaderelectionrateandtimems_count": (
            counts.leader_elections,
            "Leader elections",
        ),
        "kafka_controller_controllerstats_controllerchangerateandtimems_count": (
            counts.controller_changes,
            "Controller changes",
        ),
        "zabka_sessions_expired": (counts.sessions_expired, "Expired sessions"),
        "zabka_records_lost": (counts.records_lost, "Records removed from a replica"),
        "zabka_transactions_begun": (counts.transactions["begun"], "Transactions that have begun"),
        "zabka_transactional_ids_expired": (counts.transactions["expired"], "Transactional ids that have expired"),
        "zabka_journal_events": (collector.last_seq, "Events in the journal"),
        "zabka_journal_bad_lines": (collector.bad_lines, "Journal lines that are not valid entries"),
    }
    families: list[Metric] = [
        CounterMetricFamily(n, f"{text}, counted from the journal", value=v) for n, (v, text) in plain.items()
    ]
    ended = CounterMetricFamily(
        "zabka_transactions_ended", "Transactions by outcome, counted from the journal", labels=["outcome"]
    )
    for outcome in ("committed", "aborted", "timed_out"):
        ended.add_metric([outcome], counts.transactions[outcome])
    committed = GaugeMetricFamily(
        "zabka_committed_records_lost",
        "Lower bound of the lost committed records; each offset counts once",
        value=committed_records_lost(collector.state.losses),
    )
    return [*isr.values(), *families, ended, committed, _controller_gap(collector)]


def _controller_gap(collector: Collector) -> Metric:
    """Return the duration of the last period without a controller, in total and by phase."""
    terms = collector.state.controller_terms
    gaps = (gap_before(terms, place) for place in reversed(range(len(terms))))
    last = next((gap for gap in gaps if gap is not None), None)
    parts = {} if last is None else gap_milliseconds(last)
    rows = [(name.removesuffix("_ms"), round(ms / 1000, 6)) for name, ms in parts.items() if ms is not None]
    text = "Last time without a controller, from its crash or pause to the first decision of the next, and its parts"
    return _gauge("zabka_controller_gap_seconds", text, rows, "part")


def _ensemble(peers: list[Peer], collector: Collector) -> list[Metric]:
    states = {"LEADING": "leader", "FOLLOWING": "follower", "OBSERVING": "observer"}
    state = GaugeMetricFamily("zk_server_state", "Role of a server", labels=["peer", "state"])
    for peer in peers:
        state.add_metric([str(peer.id), states.get(peer.state, peer.state.lower())], 1)
    leaders = [p for p in peers if p.state == "LEADING"]
    followers = sum(p.state == "FOLLOWING" and p.phase == "BROADCAST" for p in peers)
    voters = sum(not p.observer for p in peers)
    up = [(str(p.id), 1.0 if p.process == "running" else 0.0) for p in peers]
    epoch = max((p.current_epoch for p in peers if p.current_epoch is not None), default=0)
    return [
        state,
        _gauge(
            "zk_up",
            "1 if the server's process is known to run; otherwise 0, also if its host agent does not respond",
            up,
            "peer",
        ),
        GaugeMetricFamily("zk_quorum_size", "Voting servers", value=voters),
        GaugeMetricFamily("zk_synced_followers", "Followers in sync", value=followers if leaders else 0),
        GaugeMetricFamily("zk_current_epoch", "Highest current epoch of any server", value=epoch),
        GaugeMetricFamily(
            "zk_last_event_seconds",
            "Time of the last event, in seconds since the epoch",
            value=collector.state.at_us / 1e6,
        ),
    ]
