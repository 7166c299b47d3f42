"""The parts of the Kafka benches that can be wrong without anybody seeing it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.kafka_clusters import KafkaCluster
from bench.kafka_failover import BROKERS, Failover, assignments, journal_moments, log_moments
from bench.kafka_grid import ACKS, CLIENTS, PARTITIONS, SIZES, works
from bench.kafka_throughput import Figure, medians
from bench.load import CannotMeasure
from bench.world_speed import measure
from zabka.journal.events import ControllerElected, ControllerReady, Entry
from zabka.journal.writer import encode_line
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.network.wire import EncodedWire, TypedWire
from zabka.simulation.settings import WorldSettings

KAFKA_LOG = """\
2026-01-02 03:04:05,100 INFO kafka.controller.KafkaController [Controller id=2] 2 successfully elected as the controller
2026-01-02 03:04:05,400 INFO kafka.controller.KafkaController [Controller id=2] Sending update metadata request
a stack trace without a date
2026-01-02 03:04:06,900 INFO kafka.controller.KafkaController [Controller id=2] Ready to serve as the new controller
"""


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = [replicas for _, topic in assignments(1_200) for replicas in topic]
    assert len(placed) == 1_200
    assert set(Counter(replicas[0] for replicas in placed).values()) == {1_200 // BROKERS}
    assert all(len(set(replicas)) == 3 for replicas in placed)


def test_the_stages_of_a_failover_come_from_the_journal(tmp_path: Path) -> None:
    elected = ControllerElected(broker_id=2, controller_epoch=2, zk_version=2, zxid=7)
    ready = ControllerReady(broker_id=2, controller_epoch=2, read_ms=300, decide_ms=1_500)
    entries = [Entry("broker-2", 1, 10_000_000, 0, elected), Entry("broker-2", 2, 12_000_000, 0, ready)]
    lines = [encode_line(e.node, e.node_seq, e.wall_us, e.mono_us, e.event) for e in entries]
    (tmp_path / "broker-2.000000000001.jsonl").write_bytes(b"".join(lines))
    assert journal_moments(tmp_path, since=9.5) == (10.0, 10.5, 12.0)
    with pytest.raises(CannotMeasure):
        journal_moments(tmp_path, since=60.0)


def test_the_stages_of_a_failover_come_from_kafkas_log(tmp_path: Path) -> None:
    cluster = KafkaCluster("ours", tmp_path, "127.0.0.1:1", 2, {})
    cluster._processes = dict.fromkeys((1, 2))  # type: ignore[arg-type]
    (cluster.home(1) / "server.log").write_text("")
    (cluster.home(2) / "server.log").write_text(KAFKA_LOG)
    at = log_moments(cluster, since=0.0)
    assert [round(moment - at.elected, 3) for moment in at] == [0.0, 0.3, 1.8]


def test_the_total_leaves_detection_out() -> None:
    assert Failover(6_000, 1, 2, 3, 4).total_ms == 10


def test_the_grid_has_every_cell_once_and_fetches_what_it_has_produced() -> None:
    verbs = [*(f"produce acks={acks}" for acks in ACKS), "fetch"]
    cells = {(v, p, s, c) for v in verbs for p in PARTITIONS for s in SIZES for c in CLIENTS}
    assert sorted(works()) == sorted(cells)
    for partitions in PARTITIONS:
        for size in SIZES:
            order = [work.verb for work in works() if (work.partitions, work.size) == (partitions, size)]
            assert order == sorted(order, key=lambda verb: verb == "fetch")


def test_medians_are_taken_field_by_field() -> None:
    assert medians([Figure(1, 9, 3, 4), Figure(2, 8, 9, 9), Figure(3, 7, 1, 5)]) == Figure(2, 8, 3, 5)


@pytest.mark.parametrize("wire", [TypedWire, EncodedWire])
def test_simulated_time_is_measured_over_what_is_said_to_happen(wire: type[TypedWire] | type[EncodedWire]) -> None:
    found = measure(wire(derive_random(1, "wire")), WorldSettings(), partitions=3, records_per_s=20, virtual_s=5)
    assert 95 <= found.acknowledged <= 120
    assert found.cpu_s > 0 and found.steps > found.events > found.acknowledged
