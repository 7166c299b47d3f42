"""Runs scripts of the outage library with real processes: `zabka scenarios run NAME --live`.

The scripts are the same as in simulation, but their steps take real time instead of virtual time. A script that has a
step which is impossible with real processes (cut a machine's power, choose when a disk responds) is rejected before
anything is started.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from zabka.compose.topology import node_directory
from zabka.ensemble.client.client import Client
from zabka.journal.checkers.invariants import check
from zabka.journal.checkers.kafka_analysis import ACKS_ALL
from zabka.journal.events import entry_from_dict
from zabka.simulation.scenarios import kafka_steps, world_steps
from zabka.simulation.scenarios.kafka_clients import partition_of
from zabka.simulation.scenarios.scenario import AnyScenario, AnyWorldStep, Verdict, WithBug, WorldScenario
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.settings import WorldSettings
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live.clients import MACHINE
from zabka.testing.live.stage import LiveStage
from zabka.testing.live.start import start_live, stop_live

RECOVERY_S = 90.0
SHOWN_MAX = 12
AUDITED = ("Isr", "StrongIsr", "OnlyTheLivingJoin", "min.insync.replicas")
"""Invariants that `zabka.simulation.checkers.replication_audit` checks."""


# -- steps of scripts --------------------------------------------------------------------------------------------------


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


def _another_controller(stage: LiveStage, step: kafka_steps.ControllerTerms) -> None:
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
    others = stage.group(step.others, but=node)
    if node.startswith(MACHINE):
        stage.ask(stage.clients.cut(node.removeprefix(MACHINE), others, both_ways=step.both_ways))
        return
    for other in others:
        stage.hold((node, other), stage.cluster.faults.cut(node, other, both_ways=step.both_ways))


def _split(stage: LiveStage, step: world_steps.Split) -> None:
    for one, other in combinations(step.sides, 2):
        for node in one:
            _cut(stage, world_steps.Cut(node, other))


def _at(stage: LiveStage, step: world_steps.At) -> None:
    """Wait in real time: the times of such a script are not lengthened with the cluster's session timeout."""
    now_s = time.monotonic()
    if stage.clock_began_s is None:
        stage.clock_began_s = now_s
    time.sleep(max(0.0, stage.clock_began_s + step.ms / 1000 - now_s))


def _down(stage: LiveStage, step: world_steps.Down) -> None:
    node = stage.node(step.node)
    stage.until(lambda: node.process == "down", world_steps.PATIENCE_MS, f"the end of {node}")


def _disturb(stage: LiveStage, step: world_steps.Disturb) -> None:
    node = stage.name(step.node)
    fault = stage.cluster.faults.add_rule(msgspec.structs.replace(step.rule, node=node))
    stage.hold((node, world_steps.REQUESTS), fault)


def _delay(stage: LiveStage, step: kafka_steps.Delay) -> None:
    node = stage.name(step.node)
    for other in stage.group(step.others, but=node):
        fault = stage.cluster.faults.delay(node, other, step.delay_ms, both_ways=False)
        stage.hold((node, other), fault)


def _edit(stage: LiveStage, step: kafka_steps.Edit) -> None:
    async def edit(client: Client) -> None:
        data, _ = await client.get(step.path)
        content = json.loads(data)
        content.pop(step.key, None)
        if step.value is not None:
            content[step.key] = step.value
        await client.set(step.path, json.dumps(content).encode())

    stage.zookeeper(edit)


def _asked(stage: LiveStage, step: world_steps.Ask) -> None:
    answer = stage.ask(stage.clients.ask(step.client, step.operation, step.path, step.data))
    if step.expect and answer not in step.expect:
        raise StepFailed(f"{step.client}: {step.operation} {step.path} answered {answer!r}, not {step.expect}")


def _becomes(stage: LiveStage, step: world_steps.Becomes) -> None:
    client = stage.clients.client(step.client)
    stage.until(lambda: client.state.value == step.state, kafka_steps.WITHIN_MS, f"{step.client} {step.state}")


def _fired(stage: LiveStage, step: world_steps.Fired) -> None:
    seen = stage.clients.fired(step.client)
    if seen != step.count:
        raise StepFailed(f"{step.client}'s watches fired {seen} times, not {step.count}")


def _agree(stage: LiveStage, step: world_steps.Agree) -> None:
    answers = stage.ask(stage.clients.ask_all_peers(step.operation, step.path))
    if len(set(answers.values())) > 1 or (step.expect and step.expect not in answers.values()):
        raise StepFailed(f"{step.operation} {step.path}: {answers}, expected {step.expect or 'the same'}")


def _lose_disk(stage: LiveStage, step: kafka_steps.LoseDisk) -> None:
    broker = stage.node(step.node)
    broker.kill()
    shutil.rmtree(node_directory(stage.cluster.data, str(broker)) / "data")


def _reassign(stage: LiveStage, step: kafka_steps.Reassign) -> None:
    replicas = tuple(stage.broker_id(name) for name in step.replicas)
    stage.ask(stage.kafka.reassign(partition_of(step.partition), replicas))


def _elect(stage: LiveStage, step: kafka_steps.Elect) -> None:
    stage.ask(stage.kafka.admin.elect_leaders(step.kind, [partition_of(step.partition)], timeout_ms=10_000))


def _restart(stage: LiveStage, step: world_steps.Restart) -> None:
    all_nodes = ("peers", "brokers")
    for name in stage.group(step.nodes or all_nodes):
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
    kafka_steps.ControllerTerms: _another_controller,
    kafka_steps.Undisturbed: _undisturbed,
    kafka_steps.Settled: lambda stage, step: stage.until(stage.whole, step.within_ms, "everything in sync"),
    kafka_steps.Stop: lambda stage, step: stage.node(step.node).stop(),
    kafka_steps.Delay: _delay,
    kafka_steps.Edit: _edit,
    kafka_steps.LoseDisk: _lose_disk,
    kafka_steps.Reassign: _reassign,
    world_steps.Agree: _agree,
    world_steps.Ask: _asked,
    world_steps.Becomes: _becomes,
    world_steps.Begin: lambda stage, step: stage.send(
        stage.clients.ask(step.client, step.operation, step.path, step.data)
    ),
    world_steps.Fired: _fired,
    world_steps.Join: lambda stage, step: stage.ask(
        stage.clients.join(step.client, step.peers, step.session_timeout_ms)
    ),
    world_steps.Serving: lambda stage, step: stage.until(
        stage.all_serve, kafka_steps.WITHIN_MS, "an ensemble that serves"
    ),
    world_steps.Vanish: lambda stage, step: stage.ask(stage.clients.vanish(step.client)),
    world_steps.Wait: lambda stage, step: time.sleep(stage.pace * step.ms / 1000),
    world_steps.At: _at,
    world_steps.Down: _down,
    world_steps.Split: _split,
    world_steps.Kill: _kill,
    world_steps.Restart: _restart,
    world_steps.Pause: lambda stage, step: stage.node(step.node).pause(),
    world_steps.Resume: lambda stage, step: stage.node(step.node).resume(),
    world_steps.Cut: _cut,
    world_steps.Disturb: _disturb,
    world_steps.Heal: lambda stage, step: stage.heal(stage.group(step.nodes) or None),
    WithBug: _with_bug,
}


def _ignore(_: object) -> None:
    return


def play_step(stage: LiveStage, step: AnyWorldStep) -> None:
    """Perform one step of a script.  Raises StepFailed."""
    try:
        _PLAYED[type(step)](stage, step)
    except ClusterFailed as failed:
        raise StepFailed(str(failed)) from None


class LivePlayer:
    """Runs scenarios with real processes, each scenario on a new cluster."""

    def unplayable(self, scenario: AnyScenario) -> str | None:
        """Return why this player cannot run the scenario, or None if it can."""
        if isinstance(scenario, WorldScenario) and scenario.shows in AUDITED:
            return f"what it shows ({scenario.shows}) is seen only by looking into every broker's disk and memory"
        if not isinstance(scenario, WorldScenario):
            return "it chooses when a disk or a link answers, which real processes do not let one do"
        for step in scenario.steps:
            for each in step.steps if isinstance(step, WithBug) else (step,):
                if type(each) not in _PLAYED:
                    return f"there is no {type(each).__name__} among real processes"
                if isinstance(each, world_steps.Kill) and each.power_loss:
                    return "it cuts a machine's power, which nobody does to real processes"
        return None

    def play(self, scenario: AnyScenario) -> Verdict:
        """Run the scenario and return its verdict.

        If the scenario has an injected bug, run it again with the bug on another cluster.
        """
        assert isinstance(scenario, WorldScenario), "asked before"
        verdict = _play(scenario, with_bug=False)
        if scenario.shows:
            verdict.shown = shown = _play(scenario, with_bug=True)
            if not any(scenario.shows in problem for problem in shown.problems):
                found = "; ".join(shown.problems) or "nothing"
                verdict.problems.append(f"the outage should have shown {scenario.shows!r}; it showed {found}")
        return verdict


def _own_times() -> dict[str, str]:
    """Return the simulated cluster's timeout settings, because the waits in the scripts assume these timeouts."""
    world = WorldSettings()
    return {
        "group.initial.rebalance.delay.ms": "3000",
        "zookeeper.session.timeout.ms": str(world.session_timeout_ms),
        "replica.lag.time.max.ms": str(world.replica_lag_time_max_ms),
    }


def _play(scenario: WorldScenario, with_bug: bool) -> Verdict:
    keys = {**_own_times(), **scenario.peer_keys, **scenario.keys, **(scenario.bug if with_bug else {})}
    acks = int(keys.pop("acks", ACKS_ALL))
    with tempfile.TemporaryDirectory(prefix="zabka-scenario-") as directory:
        try:
            cluster = start_live(Path(directory), peers=scenario.peers, brokers=scenario.brokers, settings=keys)
        except ClusterFailed as failed:
            return Verdict(name=scenario.name, problems=[str(failed)], steps=0, virtual_ms=0, faults=0, journal=[])
        began_s = time.monotonic()
        try:
            stage = LiveStage(cluster, with_bug, acks)
            problems = play_script(stage, scenario, with_bug)
            events = [entry_from_dict(dict(event)) for event in cluster.events(after_us=-1)]
            stage.stop_clients()
        finally:
            stop_live(cluster)
    problems = [f"{v.invariant}: {v.detail}" for v in check(events)] + problems
    problems = [problem for problem in problems if not any(provoked in problem for provoked in scenario.provokes)]
    took_ms = int((time.monotonic() - began_s) * 1000)
    return Verdict(
        name=scenario.name,
        problems=problems[:SHOWN_MAX],
        steps=len(scenario.steps),
        virtual_ms=took_ms,
        faults=stage.faults_made,
        journal=events,
    )


def play_script(stage: LiveStage, scenario: WorldScenario, with_bug: bool) -> list[str]:
    """Run a script on an existing cluster; return the problems, including those of the recovery."""
    for number, step in enumerate(scenario.steps, start=1):
        try:
            play_step(stage, step)
        except StepFailed as failed:
            problems = [f"step {number} ({type(step).__name__}): {failed}"]
            break
    else:
        problems = []
    problems += [f"LeaderInIsr: {name}: the ISR is empty" for name, found in stage.partitions() if not found.isr]
    return problems + (_recover(stage) if with_bug or not problems else [])


def _recover_ensemble(stage: LiveStage) -> list[str]:
    """Check, after all faults have ended, that the ensemble has a leader and commits a write; return the problems."""
    stage.heal(None)
    try:
        for peer in stage.cluster.peers.values():
            if peer.process == "paused":
                peer.resume()
            elif peer.process == "down":
                peer.start()
        stage.until(stage.all_serve, kafka_steps.WITHIN_MS, "an ensemble that serves")
        play_step(stage, world_steps.Join("afterwards"))
        play_step(stage, world_steps.Ask("afterwards", "create", "/afterwards", "", ("/afterwards",)))
    except (ClusterFailed, StepFailed) as stuck:
        return [f"liveness: {stuck}"]
    return []


def _recover(stage: LiveStage) -> list[str]:
    problems: list[str] = []
    if not stage.cluster.brokers:
        return _recover_ensemble(stage)
    try:
        stage.cluster.heal()
        stage.cluster.until(stage.whole, RECOVERY_S, "everything in sync")
    except ClusterFailed as stuck:
        wrong = next(stage.unsettled(), stuck)
        problems.append(f"liveness: {wrong}, {RECOVERY_S:.0f} s after every fault had ended")
    try:
        stage.ask(stage.kafka.read_to_the_end())
    except StepFailed as stuck:
        problems.append(f"liveness: {stuck}")
    return [*problems, *map(str, stage.kafka.history.violations(acks=(ACKS_ALL, 1)))]
