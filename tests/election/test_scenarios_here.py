"""Scripts of the outage library that run on a live cluster while its users continue to use it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from zabka.compose.launch import player_argv
from zabka.simulation.scenarios import kafka_steps, world_steps
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import AnyWorldStep, WorldScenario
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live import running, scenarios
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.faults import Fault
from zabka.testing.live.http_api import Refused
from zabka.testing.live.running import RunningPlayer, running_obstacle, with_own_topics
from zabka.testing.live.stage import LiveStage


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kip-966", "it removes a node's disk, with whatever else is on it"),
        ("kafka-7235", "it sets controlled.shutdown.enable, and a cluster that runs keeps its settings"),
        ("zookeeper-1367", "it cuts a machine's power, which nobody does to real processes"),
        ("kafka-13407", "it writes /controller_epoch, which belongs to the cluster that runs"),
        ("kafka-14845", "it writes /brokers/ids/2, which belongs to the cluster that runs"),
    ],
)
def test_script_that_cannot_run_on_a_running_cluster_is_rejected(name: str, reason: str) -> None:
    assert running_obstacle(LIBRARY[name]) == reason


def test_script_can_edit_only_the_znodes_of_its_topics() -> None:
    topic = kafka_steps.Topic("orders", (("broker-1",),))
    own = WorldScenario("s", "", "", "", "", steps=(topic, kafka_steps.Edit("/brokers/topics/orders", "topic_id")))
    foreign = WorldScenario("s", "", "", "", "", steps=(topic, kafka_steps.Edit("/brokers/topics/orders2", "x")))

    assert running_obstacle(own) is None
    assert running_obstacle(foreign) == "it writes /brokers/topics/orders2, which belongs to the cluster that runs"


def test_topics_of_a_script_get_unused_names() -> None:
    script = LIBRARY["leader-killed"]
    assert isinstance(script, WorldScenario)
    own = with_own_topics(script, {"orders", "orders.1"})

    assert [step.topic for step in own.steps if isinstance(step, kafka_steps.Topic)] == ["orders.2"]
    named = [step.partition for step in own.steps if isinstance(step, kafka_steps.Produce | kafka_steps.State)]
    assert set(named) == {"orders.2-0"}


def test_topics_named_like_fields_get_unused_names() -> None:
    steps = (
        kafka_steps.Topic("topic", (("broker-1",),), {"retention.ms": "1"}),
        kafka_steps.Topic("broker", (("broker-2",),)), kafka_steps.Topic("brokers", (("broker-2",),)),
        kafka_steps.Produce("broker-0"),
        kafka_steps.Edit("/brokers/topics/brokers", "topic_id"), world_steps.Kill(("broker-1",)),
    )  # fmt: skip
    script = WorldScenario("topic", "broker", "", "", "", steps=steps, provokes=("/brokers/ids/2 is", "topic-0 lost"))

    own = with_own_topics(script, {"broker"})
    assert own.steps == (
        kafka_steps.Topic("topic.1", (("broker-1",),), {"retention.ms": "1"}),
        kafka_steps.Topic("broker.1", (("broker-2",),)), kafka_steps.Topic("brokers.1", (("broker-2",),)),
        kafka_steps.Produce("broker.1-0"), kafka_steps.Edit("/brokers/topics/brokers.1", "topic_id"),
        world_steps.Kill(("broker-1",)),
    )  # fmt: skip
    assert (own.name, own.title, own.provokes) == ("topic", "broker", ("/brokers/ids/2 is", "topic.1-0 lost"))


def test_script_run_does_not_disturb_other_topics_and_workloads(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders")
    workload = zabka_cluster.workload("orders", records_per_s=20)
    verdict = RunningPlayer(zabka_cluster.url).play(LIBRARY["leader-killed"])

    assert verdict.problems == []
    assert any(entry.node == "host-1" for entry in verdict.journal), "the kill is in the journal"
    assert {node.process for node in zabka_cluster.brokers.values()} == {"running"}
    assert sorted(zabka_cluster.topics.names()) == ["orders"], "the topic of the script is deleted"
    before = workload.counts.acknowledged
    zabka_cluster.until(lambda: workload.counts.acknowledged > before, what="a workload that goes on")


CUT = world_steps.Cut("broker-1", ("broker-2",))
PAUSE = world_steps.Pause("broker-3")


def test_unexpected_step_error_is_reported_and_script_is_undone(
    zabka_cluster: LiveCluster,
) -> None:
    script = WorldScenario("s", "", "", "", "", brokers=3, steps=(CUT, PAUSE, world_steps.Kill(("broker-9",))))
    verdict = RunningPlayer(zabka_cluster.url).play(script)

    assert verdict.problems == ["step 3 (Kill): KeyError(9)"]
    assert verdict.faults == 1
    assert zabka_cluster.get("/api/v1/faults") == []
    assert {node.process for node in zabka_cluster.brokers.values()} == {"running"}


def test_faults_of_an_interrupted_script_are_undone(
    zabka_cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play_step(stage: LiveStage, step: AnyWorldStep) -> None:
        if isinstance(step, world_steps.Wait):
            raise KeyboardInterrupt
        scenarios.play_step(stage, step)

    monkeypatch.setattr(running, "play_step", play_step)
    script = WorldScenario("s", "", "", "", "", brokers=3, steps=(CUT, PAUSE, world_steps.Wait(1)))

    assert RunningPlayer(zabka_cluster.url).play(script).problems == ["it was ended from outside"]
    assert zabka_cluster.get("/api/v1/faults") == []
    assert {node.process for node in zabka_cluster.brokers.values()} == {"running"}


def test_scenario_process_undoes_its_script_when_terminated(zabka_cluster: LiveCluster, tmp_path: Path) -> None:
    script = WorldScenario("s", "", "", "", "", brokers=3, steps=(CUT, PAUSE, world_steps.Wait(60_000)))
    file = tmp_path / "s.json"
    file.write_bytes(msgspec.json.encode(script))
    argv = [*player_argv(), "scenarios", "run", str(file), "--on", zabka_cluster.url, "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as player:
        zabka_cluster.until(lambda: zabka_cluster.brokers[3].process == "paused", what="a paused broker")
        player.terminate()
        output, _ = player.communicate(timeout=60)

    assert player.returncode == 1
    assert json.loads(output)["runs"][0]["played"]["problems"] == ["it was ended from outside"]
    assert zabka_cluster.get("/api/v1/faults") == []
    assert zabka_cluster.brokers[3].process == "running"


def test_fault_removal_is_retried_after_a_failure(zabka_cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    heal, refusals = Fault.heal, [Refused("500", 500), ClusterFailed("no answer")]

    def unwilling(fault: Fault) -> None:
        if refusals:
            raise refusals.pop()
        heal(fault)

    monkeypatch.setattr(Fault, "heal", unwilling)
    script = WorldScenario("s", "", "", "", "", brokers=3, steps=(CUT, world_steps.Heal()))

    assert RunningPlayer(zabka_cluster.url).play(script).problems == []
    assert refusals == []
    assert zabka_cluster.get("/api/v1/faults") == []


def test_script_deletes_its_own_znodes_and_overwrites_none(
    zabka_cluster: LiveCluster,
) -> None:
    steps = (
        world_steps.Join("one"),
        world_steps.Ask("one", "create_both", "/made-here", "", ("ok",)),
        world_steps.Ask("one", "create", "/zabka-live-play/below", "", ("NoChildrenForEphemerals",)),
    )
    script = WorldScenario("s", "", "", "", "", steps=steps)
    for _ in range(2):
        assert RunningPlayer(zabka_cluster.url).play(script).problems == []
    over = WorldScenario("s", "", "", "", "", steps=(world_steps.Join("one"), world_steps.Ask("one", "create", "/e")))
    stage = LiveStage(zabka_cluster, False, -1)
    try:
        stage.zookeeper(lambda client: client.create("/e", b"somebody's"))
        refused = RunningPlayer(zabka_cluster.url).play(over)
        assert refused.problems == ["the script makes /e, which must not be there before: yes"]
        assert stage.zookeeper(lambda client: client.get("/e"))[0] == b"somebody's"
        stage.zookeeper(lambda client: client.delete("/e"))
    finally:
        stage.stop_clients()


def test_two_scripts_do_not_run_at_the_same_time(zabka_cluster: LiveCluster) -> None:
    stage = LiveStage(zabka_cluster, False, -1)
    try:
        stage.ask(stage.clients.join("other", (1, 2, 3), 10_000))
        stage.ask(stage.clients.ask("other", "create_ephemeral", running.LEASE, ""))
        refused = RunningPlayer(zabka_cluster.url).play(WorldScenario("s", "", "", "", "", steps=(PAUSE,)))
    finally:
        stage.stop_clients()
    assert refused.problems == ["another script is played on this cluster just now"]


def test_script_for_too_many_brokers_injects_no_faults(zabka_cluster: LiveCluster) -> None:
    verdict = RunningPlayer(zabka_cluster.url).play(LIBRARY["kafka-1211"])
    assert verdict.problems == ["the script has 4 brokers, and this cluster 3"]
    assert verdict.journal == []
