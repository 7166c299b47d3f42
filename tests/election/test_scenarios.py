"""Scripts of the outage library with real processes, and recorded operations of Kafka's clients."""

from __future__ import annotations

import pytest

from bench.histories import check_kafka
from zabka.journal.checkers.kafka_analysis import ACKS_ALL
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import WorldScenario
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.scenarios import LivePlayer, play_script
from zabka.testing.live.stage import LiveStage

LIVE = [
    "controller-killed", "leader-killed", "isolated-leader", "jepsen-2013", "zombie-controller", "kafka-14190",
    "acks-1-planned-move", "kafka-4447", "kip-966", "honeycomb-2017", "zookeeper-710",
]  # fmt: skip


@pytest.mark.parametrize("name", LIVE)
def test_listed_scenarios_can_run_live(name: str) -> None:
    assert LivePlayer().unplayable(LIBRARY[name]) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("zookeeper-1367", "it cuts a machine's power, which nobody does to real processes"),
        ("kafka-14617", "what it shows (StrongIsr) is seen only by looking into every broker's disk and memory"),
    ],
)
def test_script_that_cannot_run_on_real_processes_is_rejected(name: str, reason: str) -> None:
    assert LivePlayer().unplayable(LIBRARY[name]) == reason


def test_script_has_same_result_in_simulation_and_on_processes(zabka_cluster: LiveCluster) -> None:
    scenario = LIBRARY["leader-killed"]
    assert isinstance(scenario, WorldScenario)
    stage = LiveStage(zabka_cluster, False, ACKS_ALL)
    try:
        assert play_script(stage, scenario, False) == []
    finally:
        stage.stop_clients()
    assert stage.kafka.history.acknowledged == 10


@pytest.mark.long
def test_client_history_under_faults_violates_no_guarantee(zabka_cluster: LiveCluster) -> None:
    checked = check_kafka(zabka_cluster, seconds=1, clients=1, seed=4)
    assert checked.wrong == []
    assert checked.counts["acknowledged"] > 0
    assert checked.faults.total() >= 1
