"""Runs scripts of the outage library on a running cluster: `zabka scenarios run NAME --on URL`.

A script breaks the cluster. Afterwards the player repairs it, even if a step fails or the run is interrupted: it starts
or resumes nodes that the script killed or paused, ends the script's faults, and deletes the znodes and topics that the
script created. The script's topics get unused names. Nothing else is changed: existing topics and workloads continue,
and the cluster keeps its settings, so a script runs without its injected bug.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import ZooKeeperError
from zabka.journal.checkers.kafka_analysis import ACKS_ALL
from zabka.journal.events import entry_from_dict
from zabka.simulation.scenarios import kafka_steps, world_steps
from zabka.simulation.scenarios.scenario import AnyScenario, StepTaken, Verdict, WorldScenario
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.scenarios.story import step_text
from zabka.simulation.settings import WorldSettings
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live.clients import creates
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.nodes import Node
from zabka.testing.live.scenarios import RECOVERY_S, SHOWN_MAX, LivePlayer, play_step
from zabka.testing.live.stage import LiveStage

WHOLE_S = 15.0
"""Time in seconds that the player waits for a healthy cluster before a script begins."""
UNDO_S = 30.0
"""Time in seconds during which the player retries to undo a script's actions.

An API server that has ended is restarted within this time.
"""
UNDO_AGAIN_S = 0.5

LEASE = "/zabka-live-play"
LEASE_SESSION_MS = 30_000
_PLAYER = "live play"

OWNED_BY_THE_CLUSTER = frozenset({
    "admin", "brokers", "cluster", "config", "consumers", "controller", "controller_epoch", "delegation_token",
    "feature", "isr_change_notification", "kafka-acl", "kafka-acl-changes", "kafka-acl-extended",
    "kafka-acl-extended-changes", "latest_producer_id_block", "log_dir_event_notification", "migration", "zookeeper",
})  # fmt: skip
"""First path components of znodes that Kafka and ZooKeeper use themselves (kafka.zk.ZkData)."""
_TOPIC_ZNODE = r"(?<=/topics/)[^/\s]+|(?<=/delete_topics/)[^/\s]+"
_NAMED_IN = {"path": re.compile(_TOPIC_ZNODE), "provokes": re.compile(rf"{_TOPIC_ZNODE}|[^/\s]+(?=-\d+\b)")}
"""Patterns of topic names in fields with other text. In problems, they are also followed by a partition's number."""
_WRITES = ("set", "delete", "restrict")

_WRONG = (StepFailed, ClusterFailed, ZooKeeperError, LookupError, ValueError, OSError, CancelledError)
"""Exceptions that a step, or the attempt to undo it, can raise if the cluster responds unexpectedly."""


class RunningPlayer:
    """Runs scenarios on the cluster whose API is at `url`, with a `token` if the API requires one."""

    def __init__(
        self, url: str, token: str | None = None, report: Callable[[StepTaken], None] = lambda _: None
    ) -> None:
        """`report` is called when a step begins."""
        self._url = url
        self._token = token
        self._report = report

    def unreachable(self) -> str | None:
        """Return why the API cannot be used (there is no response, or another server responds), or None if it can."""
        try:
            LiveCluster(self._url, Path(), token=self._token).close()
        except (*_WRONG, TypeError) as failed:
            return f"there is no cluster at {self._url!r}: {_message_of(failed)}"
        return None

    def unplayable(self, scenario: AnyScenario) -> str | None:
        """Return why the scenario cannot be run on any running cluster, or None if it can."""
        return running_obstacle(scenario)

    def play(self, scenario: AnyScenario) -> Verdict:
        """Run the scenario, and return the verdict about its steps and the results of its clients.

        The verdict's journal contains the events since the script's start.
        """
        assert isinstance(scenario, WorldScenario), "asked before"
        verdict = Verdict(
            name=scenario.name, problems=[], steps=len(scenario.steps), virtual_ms=0, faults=0, journal=[]
        )
        try:
            cluster = LiveCluster(self._url, Path(), token=self._token)
        except ClusterFailed as failed:
            verdict.problems.append(str(failed))
            return verdict
        cluster.requester = f"scenario {scenario.name}"
        try:
            self._play(cluster, scenario, verdict)
        except _WRONG as failed:
            verdict.problems.append(_message_of(failed))
        finally:
            cluster.close()
        return verdict

    def _play(self, cluster: LiveCluster, scenario: WorldScenario, verdict: Verdict) -> None:
        for kind, there, required in (
            ("peers", len(cluster.peers), scenario.peers), ("brokers", len(cluster.brokers), scenario.brokers)
        ):  # fmt: skip
            if there < required:
                verdict.problems.append(f"the script has {required} {kind}, and this cluster {there}")
                return
        cluster.begin_here()
        began_s = time.monotonic()
        stage = LiveStage(cluster, False, int(scenario.keys.get("acks", ACKS_ALL)), pace=_pace(cluster))
        try:
            script = with_own_topics(scenario, set(cluster.topics.names()))
            cluster.until(lambda: _works(stage), WHOLE_S, "a whole cluster, which a script begins with,")
            _take_lease(stage, script)
            found, left = _played_and_undone(stage, script, self._report)
        finally:
            with suppress(*_WRONG):
                stage.stop_clients()
        found = [each for each in found if not any(provoked in each for provoked in scenario.provokes)]
        verdict.problems = [*left, *found][:SHOWN_MAX]
        verdict.faults = stage.faults_made
        verdict.virtual_ms = int((time.monotonic() - began_s) * 1000)
        verdict.journal = [entry_from_dict(dict(event)) for event in cluster.events()]


def running_obstacle(scenario: AnyScenario) -> str | None:
    """Return why a script cannot be run on a running cluster, or None if it can."""
    obstacle = LivePlayer().unplayable(scenario)
    if obstacle is not None:
        return obstacle
    assert isinstance(scenario, WorldScenario)
    if any(isinstance(step, kafka_steps.LoseDisk) for step in scenario.steps):
        return "it removes a node's disk, with whatever else is on it"
    own = {**scenario.keys, **scenario.peer_keys}.keys() - {"acks"}
    if own:
        return f"it sets {', '.join(sorted(own))}, and a cluster that runs keeps its settings"
    foreign = _foreign_znode(scenario)
    return None if foreign is None else f"it writes {foreign}, which belongs to the cluster that runs"


def _foreign_znode(script: WorldScenario) -> str | None:
    """Return the first znode that a script writes although it has created neither the znode nor its topic, or None."""
    made = set(_created(script))
    topics = [f"/brokers/topics/{step.topic}" for step in script.steps if isinstance(step, kafka_steps.Topic)]
    for step in script.steps:
        if isinstance(step, kafka_steps.Edit):
            if not any(f"{step.path}/".startswith(f"{topic}/") for topic in topics):
                return step.path
        elif isinstance(step, world_steps.Ask | world_steps.Begin):
            if step.operation in _WRITES and step.path not in made:
                return step.path
            for path in creates(step.operation, step.path):
                if path.split("/")[1] in OWNED_BY_THE_CLUSTER:
                    return path
    return None


def with_own_topics(scenario: WorldScenario, taken: set[str]) -> WorldScenario:
    """Return the script with unused names for its topics, for example `orders.2` for `orders`."""
    own: dict[str, str] = {}
    for topic in {step.topic for step in scenario.steps if isinstance(step, kafka_steps.Topic)}:
        number = next(number for number in range(1, len(taken) + 2) if f"{topic}.{number}" not in taken)
        own[topic] = f"{topic}.{number}"

    def renamed(field: str, value: object) -> object:
        match value:
            case dict():
                return {key: renamed(key, each) for key, each in value.items()}
            case list() | tuple():
                return [renamed(field, each) for each in value]
            case str() if field == "topic":
                return own.get(value, value)
            case str() if field == "partition":
                topic, dash, number = value.rpartition("-")
                return own.get(topic, topic) + dash + number
            case str() if field in _NAMED_IN:
                return _NAMED_IN[field].sub(lambda name: own.get(name[0], name[0]), value)
        return value

    return msgspec.convert(renamed("", msgspec.to_builtins(scenario)), WorldScenario)


def _pace(cluster: LiveCluster) -> float:
    """Return the ratio of the cluster's session timeout to that of a simulated cluster, or 1 if the ratio is lower."""
    here = cluster.get("/api/v1/cluster")["settings"].get("session_timeout_ms", 0)
    return max(1.0, float(here) / WorldSettings().session_timeout_ms)


def _works(stage: LiveStage) -> bool:
    nodes = (*stage.cluster.peers.values(), *stage.cluster.brokers.values())
    return all(node.process == "running" for node in nodes) and stage.all_serve() and stage.whole()


def _take_lease(stage: LiveStage, script: WorldScenario) -> None:
    """Take a lease so that no other script runs at the same time, and check that the script's znodes do not exist yet.

    Raises ClusterFailed.
    """
    stage.ask(stage.clients.join(_PLAYER, tuple(stage.cluster.peers), LEASE_SESSION_MS))
    answer = stage.ask(stage.clients.ask(_PLAYER, "create_ephemeral", LEASE, ""))
    if answer == "NodeExists":
        raise ClusterFailed("another script is played on this cluster just now")
    if answer != LEASE:
        raise ClusterFailed(f"{LEASE}, which keeps other scripts away, cannot be made: {answer}")
    for path in _created(script):
        answer = stage.ask(stage.clients.ask(_PLAYER, "exists", path, ""))
        if answer != "no":
            raise ClusterFailed(f"the script makes {path}, which must not be there before: {answer}")


def _played_and_undone(
    stage: LiveStage, script: WorldScenario, report: Callable[[StepTaken], None]
) -> tuple[list[str], list[str]]:
    """Run the script and undo its actions, even if it is interrupted.

    Return the problems, and descriptions of the actions that could not be undone.
    """
    found: list[str] = []
    left: list[str] = []
    try:
        found += _played(stage, script, report)
        if not _undone(stage):
            found += _checked(stage, script)
    except KeyboardInterrupt:
        found.append("it was ended from outside")
    finally:
        # Undo all actions once more, in case the first attempt was interrupted.
        left += _undone(stage)
        left += _topics_deleted(stage, script)
        with suppress(*_WRONG):
            stage.zookeeper(lambda client: _remove(client, sorted(stage.clients.made - {LEASE}, reverse=True)))
    return found, left


def _played(stage: LiveStage, script: WorldScenario, report: Callable[[StepTaken], None]) -> list[str]:
    began_s = time.monotonic()
    for number, step in enumerate(script.steps, start=1):
        report(StepTaken(int((time.monotonic() - began_s) * 1000), step_text(step, stage.names), number))
        try:
            play_step(stage, step)
        except _WRONG as failed:
            return [f"step {number} ({type(step).__name__}): {_message_of(failed)}"]
    return []


def _message_of(failed: BaseException) -> str:
    return str(failed) if isinstance(failed, StepFailed | ClusterFailed) else repr(failed)


def _undone(stage: LiveStage) -> list[str]:
    """End the script's faults and start the nodes that it stopped, with retries.

    Return descriptions of the faults and stops that could not be undone.
    """
    deadline_s = time.monotonic() + UNDO_S
    while (missed := _undo(stage)) and time.monotonic() < deadline_s:
        time.sleep(UNDO_AGAIN_S)
    return [f"not undone: {each}" for each in missed]


def _undo(stage: LiveStage) -> list[str]:
    """Undo each action of the script, even if another action could not be undone.

    Return descriptions of the actions that could not be undone.
    """
    missed = []
    nodes: list[Node] = [*stage.cluster.peers.values(), *stage.cluster.brokers.values()]
    undoing: list[tuple[str, Callable[[], None]]] = [("faults", partial(stage.heal, None))]
    undoing += [(str(node), partial(_go_on, node)) for node in nodes]
    for name, undo in undoing:
        try:
            undo()
        except _WRONG as failed:
            missed.append(f"{name}: {_message_of(failed)}")
    return missed + [f"the fault between {one} and {other}" for (one, other), _ in stage.faults]


def _topics_deleted(stage: LiveStage, script: WorldScenario) -> list[str]:
    """Delete the script's topics, wait until they are deleted, and return the topics that remain."""
    made = {step.topic for step in script.steps if isinstance(step, kafka_steps.Topic)}
    deadline_s = time.monotonic() + UNDO_S
    missed: dict[str, str] = {}
    asked: set[str] = set()
    while True:
        try:
            there = sorted(made.intersection(stage.cluster.topics.names()))
        except _WRONG as failed:
            there, missed = sorted(made), dict.fromkeys(made, _message_of(failed))
        if not there:
            return []
        if time.monotonic() >= deadline_s:
            return [f"not undone: topic {name}: {missed.get(name, 'it is still being deleted')}" for name in there]
        for name in [each for each in there if each not in asked]:
            try:
                stage.cluster.topics[name].delete()
                asked.add(name)
            except _WRONG as failed:
                missed[name] = _message_of(failed)
        time.sleep(UNDO_AGAIN_S)


def _go_on(node: Node) -> None:
    process = node.process
    if process == "paused":
        node.resume()
    elif process == "down":
        node.start()


def _checked(stage: LiveStage, script: WorldScenario) -> list[str]:
    """Wait until the cluster is healthy again, and check the results that the script's clients received."""
    problems: list[str] = []
    try:
        stage.cluster.until(lambda: _works(stage), RECOVERY_S, "a whole cluster, after every fault had ended,")
    except ClusterFailed as stuck:
        problems.append(f"liveness: {stuck}")
    if any(isinstance(step, kafka_steps.Produce | kafka_steps.Send) for step in script.steps):
        try:
            stage.ask(stage.kafka.read_to_the_end())
        except StepFailed as stuck:
            problems.append(f"liveness: {stuck}")
        problems += map(str, stage.kafka.history.violations(acks=(ACKS_ALL, 1)))
    return problems


def _created(script: WorldScenario) -> list[str]:
    """Return the paths of the znodes that the script's own clients create."""
    asked = [step for step in script.steps if isinstance(step, world_steps.Ask | world_steps.Begin)]
    return sorted({path for step in asked for path in creates(step.operation, step.path)})


async def _remove(client: Client, paths: list[str]) -> None:
    for path in paths:
        with suppress(ZooKeeperError):
            await client.delete(path)
