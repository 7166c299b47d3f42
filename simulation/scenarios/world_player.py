"""Plays a script over a simulated cluster, then lets everything heal and sees whether the ensemble recovers."""

from __future__ import annotations

from simulation.kernel import Deadlock
from simulation.scenarios.core_steps import StepFailed
from simulation.scenarios.scenario import Verdict, WorldScenario
from simulation.scenarios.stage import Stage
from simulation.scenarios.world_steps import Serving
from simulation.world import World, WorldSettings

RECOVERY_MS_MAX = 60_000


def play(scenario: WorldScenario) -> Verdict:
    """Play it to its verdict."""
    settings = WorldSettings(scenario.peers, scenario.brokers, snap_count=scenario.snap_count)
    world = World(scenario.seed, settings)
    stage = Stage(world)
    problems: list[str] = []
    world.start()
    for number, step in enumerate((Serving(), *scenario.steps)):
        try:
            step.play(stage)
        except (StepFailed, AssertionError) as failed:
            problems.append(f"step {number} ({type(step).__name__}): {failed}")
            break
        except Exception as crash:  # A node's own mistake, whatever it is.
            problems.append(f"step {number} ({type(step).__name__}): crash: {crash!r}")
            break
    problems = _violations(world) + problems or _recover(stage)
    stage.end()
    return Verdict(scenario.name, problems, world.scheduler.steps, world.now_ms, world.faults, world.record.entries)


def _violations(world: World) -> list[str]:
    return [f"{v.invariant}: {v.detail}" for v in world.record.violations]


def _recover(stage: Stage) -> list[str]:
    """With all faults gone the ensemble must serve, and commit, within bounded time."""
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
            return [*_violations(world), f"liveness: a write after every fault had ended came to {made}"]
        world.until(stage.everybody_serves, RECOVERY_MS_MAX, "peers that stand where their leader does")
    except (Deadlock, StepFailed) as stuck:
        return [*_violations(world), f"liveness: {stuck}"]
    return _violations(world)
