"""Runs a script on a simulated cluster, then ends all faults and checks that the cluster recovers."""

from __future__ import annotations

import gc

from zabka.journal.checkers.cause_chains import broken_chains
from zabka.journal.checkers.kafka_analysis import ACKS_ALL
from zabka.simulation.checkers.platters import Votes
from zabka.simulation.cluster.cluster_world import ClusterShape, ClusterWorld
from zabka.simulation.cluster.shape import Shape
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.engine.virtual_time import virtual_time
from zabka.simulation.scenarios.kafka_steps import asked
from zabka.simulation.scenarios.scenario import AnyWorldStep, StepTaken, Verdict, WithBug, WorldScenario
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.scenarios.story import HEALING, step_text
from zabka.simulation.scenarios.world_steps import Serving
from zabka.simulation.settings import BROKERS_OWN_KEYS, RACKS

RECOVERY_MS_MAX = 60_000
AGREE_MS_MAX = 10_000
SHOWN_MAX = 12


def play(scenario: WorldScenario, tap: MessageTap | None = None, tap_of_bug: MessageTap | None = None) -> Verdict:
    """Run the scenario, and run it again with its bug if it has one; return the verdict.

    `tap` receives the messages of the first run, `tap_of_bug` those of the run with the bug.
    """
    verdict = _play(scenario, with_bug=False, tap=tap)
    if scenario.shows:
        verdict.shown = shown = _play(scenario, with_bug=True, tap=tap_of_bug)
        if not any(scenario.shows in problem for problem in shown.problems):
            found = "; ".join(shown.problems) or "nothing"
            verdict.problems.append(f"the outage should have shown {scenario.shows!r}; it showed {found}")
    return verdict


def _shape(scenario: WorldScenario, broker_keys: dict[str, str]) -> ClusterShape:
    """Return the shape of the cluster that the scenario describes. It contains no random values."""
    own = scenario.peer_keys
    ensemble = Shape(
        peers=scenario.peers,
        observers=0,
        keys={
            "tickTime": "500",
            "initLimit": "10",
            "syncLimit": "5",
            "snapCount": str(scenario.snap_count),
            "preAllocSize": "64",
            "zabka.journal.level": "full",
            **{key: value for key, value in own.items() if key not in (*BROKERS_OWN_KEYS, RACKS)},
        },
        pieces=0.0,
        skew_ms_max=0,
        changes_members=False,
    )
    keys = {
        "zookeeper.session.timeout.ms": "6000",
        "replica.lag.time.max.ms": "1500",
        # Kafka uses 30 s by default. This much shorter timeout lets requests time out, and arrive late, within a run.
        "replica.socket.timeout.ms": "1500",
        "controller.socket.timeout.ms": "1500",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": str(min(3, max(1, scenario.brokers))),
        "group.initial.rebalance.delay.ms": "500",
        "zabka.journal.level": "full",
        **{key: value for key, value in own.items() if key in BROKERS_OWN_KEYS},
        **broker_keys,
    }
    return ClusterShape(ensemble, scenario.brokers, 1, keys, pause_ms=0, racks=int(own.get(RACKS, "0")))


def _play(scenario: WorldScenario, with_bug: bool, tap: MessageTap | None) -> Verdict:
    keys = {**scenario.keys, **(scenario.bug if with_bug else {})}
    acks = int(keys.pop("acks", ACKS_ALL))
    world = ClusterWorld(scenario.seed, _shape(scenario, keys), tap)
    world.record.listeners.append(Votes(world.disks, world.emit).journalled)
    world.requester = f"scenario {scenario.name}"
    stage = Stage(world, with_bug, acks)
    taken: list[StepTaken] = []
    with virtual_time(world.ground.turn):
        problems = _played(scenario, stage, taken)
        virtual_ms = world.now_ms
        world.end_world()
    # Taking a snapshot freezes all objects (gc.freeze). Unfreeze them, so that Python can free the ended world.
    gc.unfreeze()
    problems = [problem for problem in [*_found(world), *problems] if not _is_among(problem, scenario.provokes)]
    return Verdict(
        name=scenario.name,
        problems=problems[:SHOWN_MAX],
        steps=world.scheduler.steps,
        virtual_ms=virtual_ms,
        faults=world.faults,
        journal=world.record.entries,
        taken=taken,
    )


def _played(scenario: WorldScenario, stage: Stage, taken: list[StepTaken]) -> list[str]:
    """Perform every step, check the recovery, and return the problems."""
    problems: list[str] = []
    stage.world.start()
    for number, step in enumerate((Serving(), *scenario.steps)):
        taken += _announced(stage, step)
        try:
            step.play(stage)
        except (StepFailed, AssertionError) as failed:
            problems.append(f"step {number} ({type(step).__name__}): {failed}")
            break
        except Exception as crash:  # an error in the client itself, of any kind
            problems.append(f"step {number} ({type(step).__name__}): crash: {crash!r}")
            break
    if stage.with_bug or not problems:
        taken.append(_taken(stage, HEALING))
        problems += _recover(stage)
    return problems


def _taken(stage: Stage, text: str) -> StepTaken:
    return StepTaken(stage.world.now_ms, text, len(stage.world.record.entries))


def _announced(stage: Stage, step: AnyWorldStep) -> list[StepTaken]:
    """Return the records of the step that is performed next.

    For a `WithBug` step, return the records of its inner steps in the run with the bug, and none in the run without the
    bug.
    """
    if isinstance(step, WithBug):
        return [_taken(stage, step_text(inner, stage.names)) for inner in step.steps] if stage.with_bug else []
    return [_taken(stage, step_text(step, stage.names))]


def _is_among(problem: str, provoked: tuple[str, ...]) -> bool:
    return any(words in problem for words in provoked)


def _found(world: ClusterWorld) -> list[str]:
    """Return the violations that the checkers found, and the exceptions that processes did not catch."""
    record = world.record
    found = [f"{v.invariant}: {v.detail}" for v in record.violations]
    found += [f"{v.invariant}: {v.detail}" for v in broken_chains(record.entries)]
    return found + [f"process: {line}" for line in world.ground.failures]


def _recover(stage: Stage) -> list[str]:
    """End all faults, then check that the ensemble and the brokers recover within a bounded time."""
    world = stage.world
    stage.heal()
    for machine in world.servers():
        machine.resume()
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
    """Wait until every partition has a leader and a full ISR, then check the history of the Kafka clients."""
    world, kafka, problems = stage.world, stage.kafka, []
    try:
        world.until(lambda: world.unsettled() is None, RECOVERY_MS_MAX, "brokers that agree")
    except Deadlock:
        problems.append(f"liveness: {world.unsettled()}, a minute after every fault had ended")
    try:
        asked(stage, kafka.read_to_the_end(), "reading to the end")
    except StepFailed as stuck:
        problems.append(f"liveness: {stuck}")
    if not problems:
        try:
            world.until(world.replicas_agree, AGREE_MS_MAX, "logs that agree")
        except Deadlock:
            problems += [f"the replicas' logs differ: {topic}" for topic in world.topics_that_differ()]
    return [*problems, *map(str, kafka.history.violations(acks=(ACKS_ALL, 1)))]
