"""Runs a script on the ZAB code alone (`BareEnsemble`), then ends all faults and checks the recovery.

`BareEnsemble` checks safety at every step. Liveness is checked at the end: with all processes up and no more faults,
the peers must elect a leader, commit a write and have the same history, including every acknowledged write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from zabka.ensemble.zab import broadcast
from zabka.ensemble.zab.messages import PeerState
from zabka.simulation.scenarios.core_steps import (
    Break,
    Crash,
    Isolate,
    Run,
    Start,
    elect,
    give_up,
    looking,
    zxid_list,
)
from zabka.simulation.scenarios.file_steps import CutOut, FileSteps, LoseNewestLog, Replace, Rot, SpoilSnapshot, Vanish
from zabka.simulation.scenarios.scenario import CoreScenario, FileScenario, StepTaken, Verdict
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.scenarios.story import HEALING, step_text
from zabka.simulation.steps.bare_ensemble import BareEnsemble
from zabka.simulation.steps.bare_file_ensemble import BareFileEnsemble

HEALING_ROUNDS_MAX = 12
ROUNDS_OF_PATIENCE = 2
"""Number of recovery rounds without an established leader after which leaders without followers time out.

Otherwise two peers could wait for each other forever, while a third peer, which has no vote, remains LOOKING.
"""
_FAULTS = (Crash, Break, Isolate, Vanish, Rot, CutOut, LoseNewestLog, Replace, SpoilSnapshot)


def play(scenario: CoreScenario) -> Verdict:
    """Run the scenario's script and return its verdict."""
    if not isinstance(scenario, FileScenario):
        return _play(
            scenario, BareEnsemble(scenario.peers, scenario.snap_count, scenario.cumulative, keeps_journal=True)
        )
    with TemporaryDirectory(prefix="zabka-scenario-") as place:
        cores = BareFileEnsemble(
            Path(place),
            scenario.peers,
            scenario.snap_count,
            scenario.cumulative,
            commit_log_count=scenario.commit_log_count,
            keeps_journal=True,
        )
        try:
            return _play(scenario, cores)
        finally:
            cores.close()


def _play(scenario: CoreScenario, cores: BareEnsemble) -> Verdict:
    taken: list[StepTaken] = []

    def note_step(text: str) -> None:
        taken.append(StepTaken(cores.now_ms, text, len(cores.journal)))

    with _counter_ends_at(scenario.counter_max):
        problems = play_steps(cores, scenario.steps, lambda step: note_step(step_text(step)))
        if not problems:
            note_step(HEALING)
            problems = recover(cores)
    faults = sum(isinstance(step, _FAULTS) for step in scenario.steps)
    return Verdict(
        name=scenario.name,
        problems=problems,
        steps=cores.steps,
        virtual_ms=cores.now_ms,
        faults=faults,
        journal=cores.journal,
        taken=taken,
    )


@contextmanager
def _counter_ends_at(counter_max: int) -> Iterator[None]:
    before = vars(broadcast)["COUNTER_MAX"]
    vars(broadcast)["COUNTER_MAX"] = counter_max
    try:
        yield
    finally:
        vars(broadcast)["COUNTER_MAX"] = before


def play_steps(
    cores: BareEnsemble, steps: Sequence[FileSteps], before: Callable[[FileSteps], None] = lambda _: None
) -> list[str]:
    """Run the steps until a check fails, and return the problems. `before` is called with each step before it runs."""
    for number, step in enumerate(steps, 1):
        before(step)
        try:
            step.play(cores)
        except StepFailed as failed:
            return [*cores.problems, f"step {number} ({type(step).__name__}): {failed}"]
        if cores.problems:
            return [f"step {number} ({type(step).__name__}): {problem}" for problem in cores.problems]
    return []


def recover(cores: BareEnsemble) -> list[str]:
    """End all faults, wait for recovery, and return the problems."""
    write, leaderless = None, 0
    for _ in range(HEALING_ROUNDS_MAX):
        Start().play(cores)
        try:
            Run().play(cores)
        except StepFailed as failed:
            return [*cores.problems, f"liveness: {failed}"]
        leader = _leader(cores)
        if leader is not None and not looking(cores, cores.voters) and _all_serve(cores):
            if write is not None and any(number == write for number, _ in cores.answered):
                return cores.problems or _differences(cores)
            write = cores.write(leader)
            continue
        write = None
        leaderless = leaderless + 1 if leader is None else 0
        if not looking(cores, cores.voters) or leaderless > ROUNDS_OF_PATIENCE:
            _lose_patience(cores)
        if not elect(cores, cores.voters) and not _leads(cores):
            _lose_patience(cores)
            elect(cores, cores.voters)
        if cores.problems:
            return cores.problems
    return [*cores.problems, "liveness: no leader committed a write after every fault had ended"]


def _lose_patience(cores: BareEnsemble) -> None:
    """Make peers time out and return to LOOKING if their leader is not established or if they lead without a quorum.

    Otherwise some peers could wait forever for a lost peer that their quorum needs.
    """
    for peer in cores.voters:
        status = cores.nodes[peer].status
        if status is not None and not status.serving and not looking(cores, (peer,)):
            give_up(cores, peer)


def unsettled(cores: BareEnsemble) -> list[str]:
    """Return how the ensemble differs from a recovered one. Called when no further step is possible."""
    if _leader(cores) is None:
        return ["liveness: nothing can happen any more, and nobody leads"]
    if not _all_serve(cores):
        return ["liveness: nothing can happen any more, and not everybody serves"]
    return _differences(cores)


def _leader(cores: BareEnsemble) -> int | None:
    for peer in cores.voters:
        status = cores.nodes[peer].status
        if status is not None and status.state is PeerState.LEADING and status.serving:
            return peer
    return None


def _leads(cores: BareEnsemble) -> bool:
    """Return whether any peer is LEADING, with or without a quorum of followers."""
    return any(node.status is not None and node.status.state is PeerState.LEADING for node in cores.nodes.values())


def _all_serve(cores: BareEnsemble) -> bool:
    return all(node.status is not None and node.status.serving for node in cores.nodes.values())


def _differences(cores: BareEnsemble) -> list[str]:
    """Return the differences between the peers' histories, on disk and in memory."""
    histories = {peer: node.disk.history() for peer, node in cores.nodes.items()}
    first = histories[cores.voters[0]]
    found = [
        f"agreement: {peer} holds {zxid_list(history)}, {cores.voters[0]} holds {zxid_list(first)}"
        for peer, history in histories.items()
        if history != first
    ]
    for peer, node in cores.nodes.items():
        assert node.application is not None
        if [zxid for zxid, _ in node.application.entries] != histories[peer]:
            found.append(f"agreement: {peer} serves something else than its disk holds")
    return found
