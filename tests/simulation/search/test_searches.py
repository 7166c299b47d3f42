"""Exhaustive and random searches of the bare protocol: forks, bounds, injected bugs and transcripts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation import injected_ensemble
from tests.simulation.search.zab_machine import ZabMachine
from zabka.cli import explore as explore_cli
from zabka.simulation.scenarios.core_player import play_steps, recover, unsettled
from zabka.simulation.scenarios.core_steps import CoreSteps, Crash, Deliver, Elect, Run, Start, SyncDisk, Write, confer
from zabka.simulation.scenarios.library import play
from zabka.simulation.scenarios.scenario import read_scenario
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.search.explore import Begin, Bounds, explore
from zabka.simulation.search.explore_steps import crashes, elections, losses, ordinary_steps, restarts, serving
from zabka.simulation.search.transcript import transcript
from zabka.simulation.steps.bare_ensemble import BareEnsemble
from zabka.simulation.steps.canonical import ANY_ORDER, HEARD, LEFT_OUT
from zabka.simulation.steps.cloning import clone, fields_of, fingerprint
from zabka.simulation.steps.transitions import CachedTransitions

QUICK = settings(
    max_examples=12, stateful_step_count=60, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


SHRINKING = (Phase.generate, Phase.shrink)


def led_by_3() -> BareEnsemble:
    cores = BareEnsemble()
    for step in (Start(), Elect((1, 2, 3)), Run()):
        step.play(cores)
    return cores


def test_endless_exchange_of_votes_is_reported_as_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = BareEnsemble()
    Start().play(cores)
    monkeypatch.setattr(BareEnsemble, "notify", lambda self, position=0: None)
    assert confer(cores, (1, 2, 3)) == [1, 2, 3]
    assert cores.problems == ["liveness: votes are exchanged without end"]


# -- copies of a state


def test_fork_of_an_ensemble_does_not_change_the_original() -> None:
    cores = led_by_3()
    before = cores.digest()
    twin = cores.fork()
    for step in (Write(3), Run(), Crash((3,))):
        step.play(twin)
    assert twin.digest() != before
    assert cores.digest() == before
    assert recover(cores) == recover(twin) == []


def test_same_steps_of_an_ensemble_lead_to_the_same_state() -> None:
    one, other = led_by_3(), led_by_3()
    for cores in (one, other):
        Write(3).play(cores)
        Run().play(cores)
    assert one.digest() == other.digest()


def test_forked_ensemble_recovers_with_any_disk_queue() -> None:
    cores = led_by_3()
    Crash((1,)).play(cores)
    Run().play(cores)
    Start((1,)).play(cores)
    Elect((1, 2, 3)).play(cores)
    for _ in range(20):
        twin = cores.fork()
        assert recover(twin) == []
        moved = [step for step in (1, 2, 3) if cores.nodes[step].queue]
        if not moved:
            break
        cores.sync_disk(moved[0])


def test_copy_and_fingerprint_include_closure_variables() -> None:
    box: dict[str, list[int]] = {"list": [1]}

    def grow() -> None:
        box["list"].append(2)

    twin = clone(grow)
    twin()
    assert box == {"list": [1]}
    assert fingerprint(grow) != fingerprint(twin)
    grow()
    assert fingerprint(grow) == fingerprint(twin)


def test_fields_excluded_from_the_fingerprint_exist() -> None:
    """All fields that are excluded from the fingerprint exist.

    Otherwise a renamed field would be included, and a new field with the old name would be omitted.
    """
    cores = led_by_3()
    Crash((1,)).play(cores)
    Run().play(cores)
    Start((1,)).play(cores)
    fields: dict[str, None] = {}
    for node in cores.nodes.values():
        peer: Any = node.peer
        role = peer._core.role
        broadcast, following = getattr(role, "_broadcast", None), getattr(role, "_following", None)
        things = [peer, peer._core, peer._election, peer._core.reconfiguration, node.application, role]
        things += [broadcast, getattr(broadcast, "acks", None), following]
        for thing in [*things, *getattr(role, "_links", {}).values()]:
            if thing is not None:
                fields |= dict.fromkeys([*fields_of(type(thing)), *getattr(thing, "__dict__", {})])
                for name in LEFT_OUT.get(type(thing), lambda thing: frozenset())(thing) - HEARD:
                    assert name in fields, f"{type(thing).__name__}.{name}"
    assert [name for name in sorted(HEARD | ANY_ORDER) if name not in fields] == []


# -- exhaustive searches


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(peers=1, writes=2, crashes=2),
        Bounds(peers=3, writes=1, crashes=0),
        Bounds(peers=3, writes=0, crashes=0, begin=Begin.POWER_ON, elections=1),
    ],
)
def test_exhaustive_search_finds_no_violation(bounds: Bounds) -> None:
    found = explore(bounds)
    assert found.exhausted and found.problems == []
    assert found.states > 100 and found.settled > 1


def test_search_that_reaches_its_limit_reports_its_progress() -> None:
    found = explore(Bounds(writes=1, crashes=1, states_max=300))
    assert not found.exhausted and found.problems == []
    assert found.states >= 300 and found.depth > 2


def test_interrupted_search_reports_its_progress() -> None:
    def interrupt(visited: int, depth: int, waiting: int) -> None:
        if visited:
            raise KeyboardInterrupt

    found = explore(Bounds(writes=2, crashes=0), interrupt)
    assert not found.exhausted and found.problems == []
    assert found.depth > 1


def test_cached_transition_gives_the_same_state_as_executed_one() -> None:
    """A transition from the cache leads to the same state as an executed one.

    So the shortcuts of a search do not change its result.
    """
    for seed in range(3):
        random = Random(seed)
        remembered, direct = BareEnsemble(turns=CachedTransitions()), BareEnsemble()
        steps: list[CoreSteps] = []
        while len(steps) < 40:
            step, twin = random.choice(choices(remembered)), remembered.fork()
            try:
                step.play(twin)
            except StepFailed:
                continue
            remembered = twin
            remembered.reset_rounds()
            step.play(direct)
            direct.reset_rounds()
            steps.append(step)
            assert remembered.digest() == direct.digest(), steps
            assert remembered.problems == direct.problems == []
    assert recover(direct) == []


def test_logged_proposal_of_a_returning_peer_is_sent_again() -> None:
    """A peer truncates a logged proposal when it returns, and gets it again.

    Found by the search: server 2 has logged a write that 1 and 3 commit while 2 returns. Server 2 must truncate it
    first.
    """
    cores = led_by_3()
    back = (Crash((2,), 1), Start((2,)), Elect((1, 2, 3)), Deliver(2, 3, link=1), Deliver(3, 2), SyncDisk(2))
    joined = (Deliver(2, 3), Deliver(3, 2, until="Trunc"), SyncDisk(3), SyncDisk(2))
    one_holds_it = (Write(3), Deliver(3, 1), SyncDisk(1), Deliver(3, 2), Deliver(1, 3))
    assert play_steps(cores, (*one_holds_it, *back, *joined)) == []
    assert cores.answered and cores.nodes[2].disk.history() == []
    assert recover(cores) == []


def choices(cores: BareEnsemble) -> list[CoreSteps]:
    if cores.steps == 0:
        return [Start()]
    found = [*ordinary_steps(cores), *losses(cores), *elections(cores), *restarts(cores)]
    return found * 3 + [Write(peer) for peer in serving(cores)] + list(crashes(cores))


POWER_ON = Bounds(writes=0, crashes=0, begin=Begin.POWER_ON, elections=1)
ONE_WRITE = Bounds(writes=1, crashes=0)


@pytest.mark.parametrize(
    ("bug", "bounds", "length"),
    [
        ("a promise before it is durable", POWER_ON, 3),
        ("established without a quorum", POWER_ON, 4),
        ("NEWLEADER acknowledged before the epoch", POWER_ON, 10),
        ("leader counts itself before its fsync", ONE_WRITE, 7),
        ("leader acknowledges before its fsync", ONE_WRITE, 5),
        ("committed by the leader's log alone", ONE_WRITE, 8),
        ("who comes back ahead is cut back", Bounds(writes=1, crashes=0, breaks=1), 17),
    ],
)
def test_injected_bug_is_detected_in_the_fewest_possible_steps(
    bug: str, bounds: Bounds, length: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "found.json"
    with injected_ensemble.INJECTED[bug]():
        assert explore_cli.explore(bounds, saved) == 1
        assert not play(read_scenario(saved)).held
    said = capsys.readouterr().out
    assert "VIOLATED" in said and f"in {length} steps" in said


def test_transcript_contains_every_step_and_the_violation() -> None:
    with injected_ensemble.INJECTED["leader counts itself before its fsync"]():
        found = explore(ONE_WRITE)
        performed = list(transcript(3, found.steps))
    assert performed[:4] == [
        "  1  1, 2, 3 started",
        "  2  1, 2, 3 hold an election",
        "       1 FOLLOWING DISCOVERY, epochs 0/0, holds nothing; 2 FOLLOWING DISCOVERY, epochs 0/0, holds nothing; "
        "3 LEADING DISCOVERY, epochs 0/0, holds nothing",
        "  3  everything that is under way happens",
    ]
    assert "       3 sends Commit 1.1, Commit 1.1" in performed and "       3 commits 1.1" in performed
    assert performed[-2].startswith("     VIOLATED: peer-3 broke quorum: 0x100000001 committed and durable only on [")


def test_idle_servers_must_have_a_leader_and_the_same_history() -> None:
    cores = BareEnsemble()
    Start().play(cores)
    assert unsettled(cores) == ["liveness: nothing can happen any more, and nobody leads"]
    cores = led_by_3()
    assert unsettled(cores) == []
    Write(3).play(cores)
    cores.sync_disk(3)
    assert "agreement: 3 holds 1.1, 1 holds " in unsettled(cores)


# -- the Hypothesis state machine


def test_random_protocol_steps_have_no_violation() -> None:
    run_state_machine_as_test(ZabMachine, settings=QUICK)  # type: ignore[no-untyped-call]


def test_violation_found_by_random_steps_is_shrunk_and_saved(tmp_path: Path) -> None:
    class Saving(ZabMachine):
        save_to = tmp_path / "failure.json"

    with injected_ensemble.INJECTED["a promise before it is durable"](), pytest.raises(AssertionError):
        run_state_machine_as_test(Saving, settings=settings(QUICK, stateful_step_count=8, phases=SHRINKING))  # type: ignore[no-untyped-call]
    shrunk = read_scenario(Saving.save_to)
    assert len(shrunk.steps) <= 4
    with injected_ensemble.INJECTED["a promise before it is durable"]():
        assert not play(shrunk).held
    assert play(shrunk).held
