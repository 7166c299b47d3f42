"""Plays a script over a simulated cluster, then lets everything heal and sees whether the cluster recovers."""

from __future__ import annotations

from functools import partial

import msgspec

from zabka.journal.judges.kafka_analysis import ACKS_ALL
from zabka.simulation.kernel.scheduler import Deadlock
from zabka.simulation.network.tap import MessageTap
from zabka.simulation.scenarios.kafka_steps import asked
from zabka.simulation.scenarios.scenario import AnyWorldStep, StepTaken, Verdict, WithBug, WorldScenario
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.scenarios.story import HEALING, step_text
from zabka.simulation.scenarios.world_steps import Serving
from zabka.simulation.settings import WorldSettings, own_settings
from zabka.simulation.world import World

RECOVERY_MS_MAX = 60_000
AGREE_MS_MAX = 10_000
SHOWN_MAX = 12


def play(scenario: WorldScenario, tap: MessageTap | None = None, tap_of_bug: MessageTap | None = None) -> Verdict:
    """Play it to its verdict; where it has a bug to show, also with that.  Each play has a tap of its own."""
    verdict = _play(scenario, with_bug=False, tap=tap)
    if scenario.shows:
        verdict.shown = shown = _play(scenario, with_bug=True, tap=tap_of_bug)
        if not any(scenario.shows in problem for problem in shown.problems):
            found = "; ".join(shown.problems) or "nothing"
            verdict.problems.append(f"the outage should have shown {scenario.shows!r}; it showed {found}")
    return verdict


def _play(scenario: WorldScenario, with_bug: bool, tap: MessageTap | None) -> Verdict:
    keys = {**scenario.keys, **(scenario.bug if with_bug else {})}
    acks = int(keys.pop("acks", ACKS_ALL))
    settings = WorldSettings(scenario.peers, scenario.brokers, snap_count=scenario.snap_count, broker_keys=keys)
    world = World(scenario.seed, msgspec.structs.replace(settings, **own_settings(scenario.peer_keys)), tap=tap)
    stage = Stage(world, with_bug, acks)
    problems: list[str] = []
    taken: list[StepTaken] = []
    world.start()
    for number, step in enumerate((Serving(), *scenario.steps)):
        taken += _announced(stage, step)
        try:
            step.play(stage)
        except (StepFailed, AssertionError) as failed:
            problems.append(f"step {number} ({type(step).__name__}): {failed}")
            break
        except Exception as crash:  # A node's own mistake, whatever it is.
            problems.append(f"step {number} ({type(step).__name__}): crash: {crash!r}")
            break
    if with_bug or not problems:
        taken.append(_taken(stage, HEALING))
        problems += _recover(stage)
    problems = [problem for problem in [*_violations(world), *problems] if not _is_among(problem, scenario.provokes)]
    stage.stop_clients()
    return Verdict(
        name=scenario.name,
        problems=problems[:SHOWN_MAX],
        steps=world.scheduler.steps,
        virtual_ms=world.now_ms,
        faults=world.faults,
        journal=world.record.entries,
        taken=taken,
    )


def _taken(stage: Stage, text: str) -> StepTaken:
    return StepTaken(stage.world.now_ms, text, len(stage.world.record.entries))


def _announced(stage: Stage, step: AnyWorldStep) -> list[StepTaken]:
    """What is about to be done; steps that belong to the outage alone are told where it is played."""
    if isinstance(step, WithBug):
        return [_taken(stage, step_text(inner, stage.names)) for inner in step.steps] if stage.with_bug else []
    return [_taken(stage, step_text(step, stage.names))]


def _is_among(problem: str, provoked: tuple[str, ...]) -> bool:
    return any(words in problem for words in provoked)


def _violations(world: World) -> list[str]:
    return [f"{v.invariant}: {v.detail}" for v in world.record.violations]


def _recover(stage: Stage) -> list[str]:
    """With all faults gone the ensemble must serve, and commit, within bounded time; so must the brokers."""
    world = stage.world
    stage.heal()
    for name in world.node_names():
        if world.is_paused(name):
            world.resume(name)
    world.start()
    try:
        world.until(stage.everybody_serves, RECOVERY_MS_MAX, "an ensemble that serves")
        stage.join("afterwards", tuple(world.peers), 4_000)
        made = stage.ask("afterwards", "create", "/afterwards", "")
        if made != "/afterwards":
            return [f"liveness: a write after every fault had ended came to {made}"]
        world.until(stage.everybody_serves, RECOVERY_MS_MAX, "peers that stand where their leader does")
    except (Deadlock, StepFailed) as stuck:
        return [f"liveness: {stuck}"]
    return _recover_brokers(stage) if world.brokers else []


def _recover_brokers(stage: Stage) -> list[str]:
    """Every partition gets a leader and a full ISR; then what the clients were told is judged."""
    world, kafka, problems = stage.world, stage.kafka, []
    try:
        world.until(lambda: world.unsettled() is None, RECOVERY_MS_MAX, "brokers that agree")
    except Deadlock:
        problems.append(f"liveness: {world.unsettled()}, a minute after every fault had ended")
    try:
        asked(stage, kafka.read_to_the_end(), "reading to the end")
    except StepFailed as stuck:
        problems.append(f"liveness: {stuck}")
    for topic in () if problems else dict.fromkeys(name.topic for name in world.replication.znodes.states):
        try:
            world.until(partial(world.replicas_agree, topic), AGREE_MS_MAX)
        except Deadlock:
            problems.append(f"the replicas' logs differ: {topic}")
    return [*problems, *map(str, kafka.history.violations(acks=(ACKS_ALL, 1)))]
