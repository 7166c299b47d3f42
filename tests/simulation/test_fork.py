"""What-if forks: up to the change, a fork equals its run byte for byte; after the change, they can differ."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from zabka.journal import events as e
from zabka.journal.events import Entry, FaultInjected
from zabka.simulation.cluster.ensemble_world import ServingWorld
from zabka.simulation.cluster.shape import draw_shape
from zabka.simulation.cluster.world import World
from zabka.simulation.faults.process_faults import ServingNemesis
from zabka.simulation.fork import RUNNING, Change, Forking, check_setting
from zabka.simulation.forked_seed import ForkedSeed
from zabka.simulation.run import ForkedRun, run_forked, run_with_journal
from zabka.simulation.settings import BadSetting, world_settings

AT_US = 3_000_000
SHORT = world_settings(["faults.ms=5000", "faults.gap.ms=400", "drawn.topics=false"])
SEED, SEEDS = 6, (1, 2, 4, 6)


@cache
def original(seed: int) -> ForkedRun:
    return run_forked(seed, "chaos", (Change(AT_US),), SHORT)


def forked(seed: int, *made: Change, of: ForkedRun | None = None) -> ForkedRun:
    return run_forked(seed, "chaos", made, SHORT, drawn=(of or original(seed)).seed.drawn)


def before(run: ForkedRun, at_us: int) -> list[bytes]:
    return run.lines()[: sum(entry.mono_us < at_us for entry in run.entries)]


def faults(run: ForkedRun) -> dict[str, tuple[int, FaultInjected]]:
    return {each.event.fault_id: (each.mono_us, each.event) for each in run.entries
            if isinstance(each.event, FaultInjected)}  # fmt: skip


def up(run: ForkedRun, kind: str) -> str:
    return next(name for name, state in run.nodes.items() if name.startswith(kind) and state == RUNNING)


def of_node(run: ForkedRun, node: str, from_us: int, to_us: int) -> list[Entry]:
    return [entry for entry in run.entries if entry.node == node and from_us <= entry.mono_us < to_us]


def changes(run: ForkedRun) -> list[Change]:
    fault_id, (injected_us, _) = next((name, fault) for name, fault in faults(run).items() if fault[0] > AT_US)
    return [
        Change(AT_US),
        Change(AT_US, killed=(up(run, "broker-"),), lasts_ms=1_500),
        Change(AT_US, paused=(up(run, "peer-"),), lasts_ms=1_500),
        Change(AT_US, settings={"min.insync.replicas": "2"}),
        Change(injected_us, left_out=(fault_id,)),
    ]


@pytest.mark.long
def test_twenty_forks_equal_their_runs_up_to_the_change() -> None:
    count = 0
    for seed in SEEDS:
        run = original(seed)
        for change in changes(run):
            fork = forked(seed, change)
            count += 1
            assert len(before(run, change.at_us)) > 500
            assert before(fork, change.at_us) == before(run, change.at_us)
            assert (fork.lines() == run.lines()) == change.is_empty
            assert fork.outcome.held
    assert count == 20


def test_unchanged_run_and_fork_equal_the_original_seed() -> None:
    plain = b"".join(run_with_journal(SEED, "chaos", SHORT)[1])
    assert b"".join(original(SEED).lines()) == plain
    assert b"".join(forked(SEED, Change(AT_US)).lines()) == plain


def test_left_out_fault_is_absent_and_later_faults_stay() -> None:
    run = original(SEED)
    change = changes(run)[-1]
    fork = forked(SEED, change)
    (left_out,) = change.left_out
    assert before(fork, change.at_us) == before(run, change.at_us)
    assert left_out in faults(run) and left_out not in faults(fork)
    assert [each.fault_id for each in fork.omitted] == [left_out]
    assert (fork.omitted[0].kind, fork.omitted[0].target) == (faults(run)[left_out][1].kind,
                                                              faults(run)[left_out][1].target)  # fmt: skip
    assert fork.outcome.faults == len(faults(fork))
    later = [name for name, (at_us, _) in faults(run).items() if at_us > change.at_us]
    assert later
    assert {name: faults(fork)[name][0] for name in later} == {name: faults(run)[name][0] for name in later}


def test_killed_node_is_down_until_its_time_has_passed() -> None:
    run = original(SEED)
    node = up(run, "broker-")
    fork = forked(SEED, Change(AT_US, killed=(node,), lasts_ms=1_000))
    assert faults(fork)["w1"] == (
        AT_US, FaultInjected("w1", "crash", node, node, both_ways=False, requester="what-if")
    )  # fmt: skip
    end_us = AT_US + 1_000_000
    assert of_node(run, node, AT_US, end_us)
    assert of_node(fork, node, AT_US, end_us) == []
    assert isinstance(of_node(fork, node, end_us, 1 << 60)[0].event, e.NodeStarted)


def test_paused_node_writes_nothing_until_it_is_resumed() -> None:
    run = original(SEED)
    node = up(run, "peer-")
    fork = forked(SEED, Change(AT_US, paused=(node,), lasts_ms=1_000))
    end_us = AT_US + 1_000_000
    assert of_node(run, node, AT_US, end_us)
    assert of_node(fork, node, AT_US, end_us) == []
    assert of_node(fork, node, end_us, 1 << 60)


def test_changed_setting_reaches_brokers_only_after_the_fork() -> None:
    fork = forked(SEED, Change(AT_US, settings={"min.insync.replicas": "2"}))
    changed = [(entry.node, entry.mono_us, entry.event.config) for entry in fork.entries
               if isinstance(entry.event, e.ConfigChanged) and entry.event.entity == "brokers/<default>"]  # fmt: skip
    assert {node for node, _, _ in changed} == {"broker-1", "broker-2", "broker-3"}
    assert all(config == {"min.insync.replicas": "2"} for _, _, config in changed)
    assert min(at_us for _, at_us, _ in changed) > AT_US


def test_forked_runs_share_the_past_but_differ_after_the_fork() -> None:
    run = original(SEED)
    one, same, other = (run_forked(SEED, "chaos", (Change(AT_US, future=number),), SHORT) for number in (1, 1, 2))
    assert before(one, AT_US) == before(other, AT_US) == before(run, AT_US)
    assert one.lines() == same.lines()
    assert len({b"".join(each.lines()) for each in (run, one, other)}) == 3


def test_fork_resumes_random_draws_at_the_position_of_the_run() -> None:
    first, last = ForkedSeed(5), Random(0)
    drawn: list[list[float]] = []
    for count in (1, 4, 2):
        assert first.align(last, len(drawn)) == len(drawn)
        drawn.append([last.random() for _ in range(count)])
    fork, random = ForkedSeed(5, first.drawn), Random(0)
    again: list[list[float]] = []
    for count, number in ((3, 0), (0, 1), (2, 7)):
        assert fork.align(random, number) == max(number, len(again))
        again.append([random.random() for _ in range(count)])
    assert again[0][0] == drawn[0][0]
    assert again[2] == drawn[2]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("tickTime", "100", "the world is built with it"),
        ("faults.kinds", "pause", "the world is built with it"),
        ("replica.lag.time.max.ms", "100", "the world is built with it"),
        ("log.dirs", "/a", "a broker reads it only when it starts"),
        ("advertised.listeners", "PLAINTEXT://a:1", "for each broker"),
        ("no.such.key", "1", "no key of Kafka's brokers"),
        ("min.insync.replicas", "many", "Not a number of type INT"),
    ],
)
def test_setting_that_cannot_change_is_refused(key: str, value: str, reason: str) -> None:
    with pytest.raises(BadSetting, match=reason):
        check_setting(key, value)


LATER_US = 4_200_000


@cache
def fork_with_dead_broker() -> ForkedRun:
    run = original(SEED)
    return forked(SEED, Change(AT_US, killed=(up(run, "broker-"),), lasts_ms=800), Change(LATER_US))


def test_fork_of_a_fork_without_change_equals_the_fork() -> None:
    fork = fork_with_dead_broker()
    first = Change(AT_US, killed=(up(original(SEED), "broker-"),), lasts_ms=800)
    assert forked(SEED, first).lines() == fork.lines() != original(SEED).lines()
    assert forked(SEED, first, Change(LATER_US), of=fork).lines() == fork.lines()


def test_second_change_begins_at_its_moment_of_the_fork() -> None:
    fork, node = fork_with_dead_broker(), up(fork_with_dead_broker(), "peer-")
    first = Change(AT_US, killed=(up(original(SEED), "broker-"),), lasts_ms=800)
    again = forked(SEED, first, Change(LATER_US, paused=(node,), lasts_ms=700), of=fork)
    assert before(again, LATER_US) == before(fork, LATER_US)
    ours = {name: (at_us, each.kind, each.target) for name, (at_us, each) in faults(again).items() if name[0] == "w"}
    assert ours == {"w1": (AT_US, "crash", *first.killed), "w2": (LATER_US, "pause", node)}
    assert of_node(fork, node, LATER_US, LATER_US + 700_000)
    assert of_node(again, node, LATER_US, LATER_US + 700_000) == []
    assert again.outcome.held


def test_two_changes_of_one_moment_equal_the_change_with_both() -> None:
    run = original(SEED)
    killed, paused = (up(run, "broker-"),), (up(run, "peer-"),)
    both = Change(AT_US, killed=killed, paused=paused, lasts_ms=1_000)
    apart = [Change(AT_US, killed=killed, lasts_ms=1_000), Change(AT_US, paused=paused, lasts_ms=1_000)]
    assert forked(SEED, *apart).lines() == forked(SEED, both).lines()


def test_faults_left_out_by_two_changes_are_absent_together() -> None:
    run = original(SEED)
    later = [(name, at_us) for name, (at_us, each) in faults(run).items() if at_us > AT_US]
    (one, at_us), (two, later_us) = later[0], later[-1]
    fork = forked(SEED, Change(at_us, left_out=(one,)))
    again = forked(SEED, Change(at_us, left_out=(one,)), Change(later_us, left_out=(two,)), of=fork)
    assert before(again, later_us) == before(fork, later_us)
    assert two in faults(fork)
    assert [each.fault_id for each in again.omitted] == [one, two]
    assert not {one, two} & set(faults(again))


def test_change_before_the_previous_one_is_refused() -> None:
    with pytest.raises(ValueError, match="the change at 2999999 us lies before the previous one, at 3000000 us"):
        forked(SEED, Change(AT_US), Change(AT_US - 1))


def test_future_of_a_fork_has_the_history_of_the_fork() -> None:
    fork = fork_with_dead_broker()
    left_out = next(name for name, (at_us, _) in faults(fork).items() if at_us > LATER_US)
    first = Change(AT_US, killed=(up(original(SEED), "broker-"),), lasts_ms=800, left_out=(left_out,))
    one, two = (forked(SEED, first, Change(LATER_US, future=number), of=fork) for number in (1, 2))
    # The faults of a future have ids of their own.
    assert one.omitted == two.omitted == []
    assert left_out in {*faults(one), *faults(two)}
    assert before(one, LATER_US) == before(two, LATER_US) == before(fork, LATER_US)
    assert len({b"".join(each.lines()) for each in (fork, one, two)}) == 3


def test_whole_cluster_can_be_forked() -> None:
    run = run_forked(SEED, "whole-cluster", (Change(6_000_000),))
    node = up(run, "broker-")
    change = Change(6_000_000, killed=(node,), lasts_ms=1_500)
    fork = run_forked(SEED, "whole-cluster", (change,), drawn=run.seed.drawn)
    assert before(fork, 6_000_000) == before(run, 6_000_000)
    assert of_node(fork, node, 6_000_000, 7_500_000) == []


def begin_no_future(number: int) -> None:
    raise AssertionError(number)


def world_with(change: Change, *later: Change) -> World:
    world = World(1, world_settings(["brokers=1", "drawn.topics=false"]))
    Forking(world, (change, *later), begin_no_future)
    world.start()
    world.run_to(change.at_us)
    assert world.is_running("broker-1") == ("broker-1" not in change.killed)
    return world


def test_start_of_a_killed_node_leaves_another_fault_alone() -> None:
    """The fork starts its node after 2 s, but not if the node has returned and another fault has killed it again."""
    world = world_with(Change(AT_US, killed=("broker-1",), lasts_ms=2_000))
    world.start("broker-1")
    world.run(1_000)
    world.kill("broker-1", power_loss=True)
    world.run(5_000)
    assert not world.is_running("broker-1")
    world.end_world()


def test_end_of_a_pause_leaves_another_pause_alone() -> None:
    world = world_with(Change(AT_US, paused=("broker-1",), lasts_ms=2_000))
    world.run(1_000)
    world.pause("broker-1")
    world.run(5_000)
    assert world.is_paused("broker-1")
    world.end_world()


def test_earlier_kill_does_not_start_a_node_that_was_killed_again() -> None:
    """The first change starts its node after 2 s, when the node has returned and the second change has killed it."""
    first = Change(AT_US, killed=("broker-1",), lasts_ms=2_000)
    world = world_with(first, Change(AT_US + 1_500_000, killed=("broker-1",), lasts_ms=2_000))
    world.run(1_000)
    world.start("broker-1")
    world.run(2_000)
    assert not world.is_running("broker-1")
    world.run(1_000)
    assert world.is_running("broker-1")
    world.end_world()


@pytest.mark.parametrize(("scenario", "seed"), [("whole", 3), ("swarm-ensemble", 4)])
def test_later_faults_keep_their_ids_in_every_scenario(scenario: str, seed: int) -> None:
    run = run_forked(seed, scenario, (Change(0),))
    left_out = next(name for name, (_, each) in faults(run).items() if each.kind in ("cut", "crash", "pause"))
    change = Change(faults(run)[left_out][0], left_out=(left_out,))
    fork = run_forked(seed, scenario, (change,), drawn=run.seed.drawn)
    assert before(fork, change.at_us) == before(run, change.at_us)
    ours = {at_us: name for name, (at_us, _) in faults(run).items()}
    theirs = {at_us: name for name, (at_us, _) in faults(fork).items()}
    shared = [at_us for at_us in ours if at_us in theirs and at_us > change.at_us]
    assert len(shared) >= 3
    assert [ours[at_us] for at_us in shared] == [theirs[at_us] for at_us in shared]


def first_ids(seed: ForkedSeed, parts: int) -> list[str]:
    """Return the first fault id of each injection, where each injection has so many parts."""
    world = ServingWorld(seed, draw_shape(Random(1)))
    ids: list[str] = []

    def inject(_: ServingNemesis) -> None:
        first, *_ = [world.announce("cut", "peer-1") for _ in range(parts)]
        ids.append(first)

    nemesis = ServingNemesis(world, Random(1), [inject], gap_ms=400)
    nemesis.start()
    world.run(4_000)
    nemesis.active = False
    world.end_world()
    return ids


def test_fault_with_fewer_parts_does_not_renumber_later_faults() -> None:
    run = ForkedSeed(5)
    ours = first_ids(run, 2)
    assert len(ours) >= 3
    assert first_ids(ForkedSeed(5, run.drawn), 1) == ours == [f"f{1 + 2 * number}" for number in range(len(ours))]
