"""Plays scripts of the outage library over real processes: `zabka scenarios run NAME --live`.

The scripts are those that are simulated; what takes virtual time there takes that long here.  A step that needs more
than real processes let one do (a disk that is lost, a machine's power) is refused before anything is started.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from api.kafka import make_client
from broker_sim.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from compose import live
from compose.cluster import ClusterFailed
from compose.live import LiveCluster
from controller.ports import Endpoint
from ensemble.asyncio_runtime import AsyncioRuntime
from ensemble.client.asyncio_connector import AsyncioConnector
from ensemble.client.client import Client
from ensemble.errors import ZooKeeperError
from journal.events import entry_from_dict
from journal.invariants import check
from journal.kafka_analysis import ACKS_ALL
from simulation.scenarios import kafka_steps, world_steps
from simulation.scenarios.core_steps import StepFailed
from simulation.scenarios.kafka_clients import KafkaClients, Surroundings, partition_of
from simulation.scenarios.scenario import AnyScenario, AnyWorldStep, Verdict, WithBug, WorldScenario

T = TypeVar("T")

RECOVERY_S = 90.0
STEP_S_MAX = 60.0
SLOWER = 3
"""A live cluster on a busy machine gets that many times the patience of the simulated one."""
SHOWN_MAX = 12


class LiveStage:
    """A live cluster under a script: its nodes by the script's names, clients on a loop in a thread of their own."""

    def __init__(self, cluster: LiveCluster, with_bug: bool, acks: int) -> None:
        self.cluster = cluster
        self.with_bug = with_bug
        self.names: dict[str, str] = {}
        self.controller_epoch = 0
        self.faults: list[tuple[tuple[str, str], live.Fault]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="script's clients", daemon=True)
        self._thread.start()
        self.kafka = self.ask(self._clients(acks))

    async def _clients(self, acks: int) -> KafkaClients:
        admin, self._channel = make_client(self.cluster.bootstrap, "script")
        endpoints = dict(zip(self.cluster.brokers, self.cluster.bootstrap.split(","), strict=True))

        def endpoint_of(broker: str) -> Endpoint:
            number = int(broker.rpartition("-")[2])
            host, _, port = endpoints[number].rpartition(":")
            return Endpoint(number, host, int(port))

        around = Surroundings(
            AsyncioRuntime(self._loop), self._channel, admin, endpoint_of, lambda name: self._log_end(str(name))
        )
        return KafkaClients(around, acks)

    def _log_end(self, name: str) -> int | None:
        found = self.partition(name)
        return dict(found.log_end_offsets).get(found.leader)

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """What a client's coroutine comes to.  Raises StepFailed where it is refused or takes too long."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(STEP_S_MAX)
        except TimeoutError:
            raise StepFailed("waited for an answer in vain") from None
        except (KafkaRequestFailed, KafkaUnavailable) as refused:
            raise StepFailed(str(refused)) from None

    def send(self, work: Coroutine[Any, Any, object]) -> None:
        """Begin it, and go on."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def end(self) -> None:
        """No client goes on."""

        async def close() -> None:
            self._channel.close()
            await asyncio.sleep(0.01)

        self.ask(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    # -- nodes and partitions ----------------------------------------------------------------------------------------

    def name(self, text: str) -> str:
        """The node meant, by its own name."""
        if text == "controller":
            found = self.cluster.controller
            return "broker--1" if found is None else str(found)
        return self.names.get(text, text)

    def node(self, text: str) -> live.Node:
        """The node meant."""
        kind, _, number = self.name(text).partition("-")
        nodes: dict[int, Any] = self.cluster.brokers if kind == "broker" else self.cluster.peers
        found: live.Node = nodes[int(number)]
        return found

    def group(self, texts: tuple[str, ...], but: str = "") -> list[str]:
        """The nodes meant; `peers` and `brokers` are all of them, but one."""
        groups = {
            "peers": [str(peer) for peer in self.cluster.peers.values()],
            "brokers": [str(broker) for broker in self.cluster.brokers.values()],
        }
        return [node for text in texts for node in groups.get(text, [self.name(text)]) if node != but]

    def broker_id(self, text: str) -> int:
        """The broker meant, -1 for nobody."""
        return -1 if text == "nobody" else int(self.name(text).partition("-")[2])

    def partition(self, name: str) -> Any:
        """A partition as the ensemble has it."""
        wanted = partition_of(name)
        return self.cluster.topics[wanted.topic].partitions[wanted.partition]

    def until(self, condition: Callable[[], bool], within_ms: int, what: str) -> None:
        """Wait until it holds.  Raises StepFailed."""
        try:
            self.cluster.until(condition, SLOWER * within_ms / 1000, what)
        except ClusterFailed as failed:
            raise StepFailed(str(failed)) from None

    def whole(self) -> bool:
        """Is every broker registered, and every partition led and in sync?"""
        return all(broker.registered for broker in self.cluster.brokers.values()) and all(
            partition.leader >= 0 and sorted(partition.isr) == sorted(partition.replicas)
            for topic in self.cluster.topics.names()
            for partition in self.cluster.topics[topic].partitions
        )

    def heal(self, nodes: list[str] | None) -> None:
        """Undo every fault, or those of these nodes alone."""
        kept = []
        for link, fault in self.faults:
            if nodes is None or link[0] in nodes or link[1] in nodes:
                # The fault of a node that was killed since went with it.
                with suppress(ClusterFailed):
                    fault.heal()
            else:
                kept.append((link, fault))
        self.faults = kept

    def zookeeper(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Do something as a client of the ensemble.  Raises StepFailed where it is refused."""

        async def session() -> T:
            client = Client(self.cluster.zookeeper_connect, AsyncioConnector(), AsyncioRuntime(self._loop))
            await client.start()
            try:
                return await work(client)
            finally:
                await client.close()

        try:
            return self.ask(session())
        except ZooKeeperError as refused:
            raise StepFailed(repr(refused)) from None


# -- steps -------------------------------------------------------------------------------------------------------------


def _cast(stage: LiveStage, step: kafka_steps.Cast) -> None:
    stage.until(
        lambda: stage.whole() and stage.cluster.controller is not None, kafka_steps.WITHIN_MS, "a whole cluster"
    )
    controller = stage.name("controller")
    rest = [str(broker) for broker in stage.cluster.brokers.values() if str(broker) != controller]
    stage.names[step.controller] = controller
    stage.names.update(zip(step.others, rest, strict=False))


def _topic(stage: LiveStage, step: kafka_steps.Topic) -> None:
    assignment = {n: [stage.broker_id(name) for name in names] for n, names in enumerate(step.replicas)}
    stage.cluster.topics.create(step.topic, assignment=assignment, config=step.configs)
    stage.until(stage.whole, kafka_steps.WITHIN_MS, f"{step.topic} with all replicas")


def _produce(stage: LiveStage, step: kafka_steps.Produce) -> None:
    for _ in range(step.count):
        answer = stage.ask(stage.kafka.produce(partition_of(step.partition), stage.name(step.at) if step.at else ""))
        if step.expect and answer not in step.expect:
            raise StepFailed(f"a record to {step.partition} came to {answer}, not {step.expect}")


def _send(stage: LiveStage, step: kafka_steps.Send) -> None:
    stage.send(stage.kafka.produce(partition_of(step.partition), stage.name(step.at) if step.at else ""))


def _state(stage: LiveStage, step: kafka_steps.State) -> None:
    leader = stage.broker_id(step.leader) if step.leader else None
    isr = sorted(stage.broker_id(name) for name in step.isr)

    def holds() -> bool:
        found = stage.partition(step.partition)
        return leader in (None, found.leader) and (not isr or sorted(found.isr) == isr)

    stage.until(
        holds, step.within_ms, f"{step.partition} led by {step.leader or 'anybody'} with {isr or 'any'} in sync"
    )


def _reigns(stage: LiveStage, step: kafka_steps.Reigns) -> None:
    old = stage.name(step.other_than)
    stage.until(lambda: stage.name("controller") not in (old, "broker--1"), step.within_ms, "another controller")
    stage.names[step.name] = stage.name("controller")
    stage.controller_epoch = stage.cluster.controller_epoch


def _undisturbed(stage: LiveStage, step: kafka_steps.Undisturbed) -> None:
    found = stage.cluster.controller_epoch
    if found != stage.controller_epoch:
        raise StepFailed(f"controller epoch {found} has begun behind {stage.controller_epoch}")


def _cut(stage: LiveStage, step: world_steps.Cut) -> None:
    node = stage.name(step.node)
    for other in stage.group(step.others, but=node):
        stage.faults.append(((node, other), stage.cluster.faults.cut(node, other, both_ways=step.both_ways)))


def _delay(stage: LiveStage, step: kafka_steps.Delay) -> None:
    node = stage.name(step.node)
    for other in stage.group(step.others, but=node):
        fault = stage.cluster.faults.delay(node, other, step.delay_ms, both_ways=False)
        stage.faults.append(((node, other), fault))


def _edit(stage: LiveStage, step: kafka_steps.Edit) -> None:
    async def edit(client: Client) -> None:
        data, _ = await client.get(step.path)
        content = json.loads(data)
        content.pop(step.key, None)
        if step.value is not None:
            content[step.key] = step.value
        await client.set(step.path, json.dumps(content).encode())

    stage.zookeeper(edit)


def _elect(stage: LiveStage, step: kafka_steps.Elect) -> None:
    stage.ask(stage.kafka.admin.elect_leaders(step.kind, [partition_of(step.partition)], timeout_ms=10_000))


def _restart(stage: LiveStage, step: world_steps.Restart) -> None:
    everybody = ("peers", "brokers")
    for name in stage.group(step.nodes or everybody):
        if stage.node(name).process == "down":
            stage.node(name).start()


def _kill(stage: LiveStage, step: world_steps.Kill) -> None:
    for name in stage.group(step.nodes):
        stage.node(name).kill()


def _with_bug(stage: LiveStage, step: WithBug) -> None:
    for inner in step.steps if stage.with_bug else ():
        play_step(stage, inner)


_PLAYED: dict[type[Any], Callable[[LiveStage, Any], None]] = {
    kafka_steps.Cast: _cast,
    kafka_steps.Topic: _topic,
    kafka_steps.Produce: _produce,
    kafka_steps.Send: _send,
    kafka_steps.Poll: lambda stage, step: _ignore(stage.ask(stage.kafka.poll(partition_of(step.partition)))),
    kafka_steps.Elect: _elect,
    kafka_steps.State: _state,
    kafka_steps.Reigns: _reigns,
    kafka_steps.Undisturbed: _undisturbed,
    kafka_steps.Settled: lambda stage, step: stage.until(stage.whole, step.within_ms, "everything in sync"),
    kafka_steps.Stop: lambda stage, step: stage.node(step.node).stop(),
    kafka_steps.Delay: _delay,
    kafka_steps.Edit: _edit,
    world_steps.Wait: lambda stage, step: time.sleep(step.ms / 1000),
    world_steps.Kill: _kill,
    world_steps.Restart: _restart,
    world_steps.Pause: lambda stage, step: stage.node(step.node).pause(),
    world_steps.Resume: lambda stage, step: stage.node(step.node).resume(),
    world_steps.Cut: _cut,
    world_steps.Heal: lambda stage, step: stage.heal(stage.group(step.nodes) or None),
    WithBug: _with_bug,
}


def _ignore(_: object) -> None:
    return


def play_step(stage: LiveStage, step: AnyWorldStep) -> None:
    """Take one step.  Raises StepFailed."""
    try:
        _PLAYED[type(step)](stage, step)
    except ClusterFailed as failed:
        raise StepFailed(str(failed)) from None


class LivePlayer:
    """Plays scenarios over real processes, each on a cluster of its own."""

    def unplayable(self, scenario: AnyScenario) -> str | None:
        """Why it cannot be played there; None where it can."""
        if not isinstance(scenario, WorldScenario) or not scenario.brokers:
            return "it chooses when a disk or a link answers, which real processes do not let one do"
        for step in scenario.steps:
            if type(step) not in _PLAYED:
                return f"there is no {type(step).__name__} among real processes"
        return None

    def play(self, scenario: AnyScenario) -> Verdict:
        """Play it to its verdict, as it is; where it has a bug to show, also with that, on another cluster."""
        assert isinstance(scenario, WorldScenario), "asked before"
        verdict = _play(scenario, with_bug=False)
        if scenario.shows:
            verdict.shown = shown = _play(scenario, with_bug=True)
            if not any(scenario.shows in problem for problem in shown.problems):
                found = "; ".join(shown.problems) or "nothing"
                verdict.problems.append(f"the outage should have shown {scenario.shows!r}; it showed {found}")
        return verdict


def _play(scenario: WorldScenario, with_bug: bool) -> Verdict:
    keys = {**scenario.keys, **(scenario.bug if with_bug else {})}
    acks = int(keys.pop("acks", ACKS_ALL))
    with tempfile.TemporaryDirectory(prefix="zabka-scenario-") as directory:
        try:
            cluster = live.start(Path(directory), peers=scenario.peers, brokers=scenario.brokers, settings=keys)
        except ClusterFailed as failed:
            return Verdict(scenario.name, [str(failed)], 0, 0, 0, [])
        began_s = time.monotonic()
        try:
            stage = LiveStage(cluster, with_bug, acks)
            problems = play_script(stage, scenario, with_bug)
            events = [entry_from_dict(dict(event)) for event in cluster.events(after_us=-1)]
            stage.end()
        finally:
            live.stop(cluster)
    problems = [f"{v.invariant}: {v.detail}" for v in check(events)] + problems
    problems = [problem for problem in problems if not any(words in problem for words in scenario.provokes)]
    took_ms = int((time.monotonic() - began_s) * 1000)
    return Verdict(scenario.name, problems[:SHOWN_MAX], len(scenario.steps), took_ms, len(stage.faults), events)


def play_script(stage: LiveStage, scenario: WorldScenario, with_bug: bool) -> list[str]:
    """Play a script on a cluster that is there; what went wrong, until after everything was healed."""
    for number, step in enumerate(scenario.steps, start=1):
        try:
            play_step(stage, step)
        except StepFailed as failed:
            problems = [f"step {number} ({type(step).__name__}): {failed}"]
            break
    else:
        problems = []
    return problems + (_recover(stage) if with_bug or not problems else [])


def _recover(stage: LiveStage) -> list[str]:
    problems = []
    try:
        stage.cluster.heal()
        stage.cluster.until(stage.whole, RECOVERY_S, "everything in sync after every fault had ended")
    except ClusterFailed as stuck:
        problems.append(f"liveness: {stuck}")
    try:
        stage.ask(stage.kafka.read_to_the_end())
    except StepFailed as stuck:
        problems.append(f"liveness: {stuck}")
    return [*problems, *map(str, stage.kafka.history.violations(acks=(ACKS_ALL, 1)))]
