"""The first difference between two histories that explains why they end in different states."""

from __future__ import annotations

import pytest

from tests.journal.test_divergence import history
from zabka.journal import events as e
from zabka.journal.events import Entry, type_name
from zabka.journal.outcomes import deciding
from zabka.simulation.scenarios.library import LIBRARY, play


def elected(leader: int, isr: list[int], cause: str, unclean: bool = False) -> e.LeaderElected:
    return e.LeaderElected("t", 0, leader, 1, isr, [1, 2], 2, 1, unclean, "offline", caused_by=cause)


def test_difference_without_effect_is_ignored() -> None:
    """A difference that does not affect the final state is ignored.

    Peer 1 accepts a different epoch in each history, but only the unclean election changes the final state.
    """
    crash = ("world", e.FaultInjected("f1", "crash", "", "broker-1", False, 0))
    gone = ("broker-3", e.BrokerLivenessChanged(1, [2], [], [], [1], caused_by="world#1"))
    one = history(("peer-1", e.EpochAccepted(1)), crash, gone, ("broker-3", elected(-1, [1], "broker-3#1")))
    other = history(("peer-1", e.EpochAccepted(2)), crash, gone, ("broker-3", elected(2, [2], "broker-3#1", True)))

    found = deciding(one, other)

    assert found is not None
    assert (found.one, found.other) == (one[3], other[3])


def test_first_difference_of_two_runs_explains_their_outcomes() -> None:
    """The difference that led to different outcomes is found, not a later effect of that difference.

    Here it is the ISR that the leader proposes. The controller writes that ISR afterwards.
    """
    proposed = e.IsrProposed(1, "t", 0, [1], 0, 0, "lag", [])
    changed = e.IsrChanged("t", 0, [1], 1, 0, 1, "lag", caused_by="broker-1#1")
    begin = ("peer-1", e.EpochAccepted(1))
    other = history(begin, ("broker-1", proposed), ("broker-3", changed))

    found = deciding(history(begin), other)

    assert found is not None
    assert (found.one, found.other) == (None, other[1])


def test_histories_that_differ_only_in_counters_are_equal() -> None:
    one = history(("broker-1", e.BrokerRegistered(1, 24, 7)))
    assert deciding(one, history(("broker-1", e.BrokerRegistered(1, 24, 7)), clock_us=10**9)) is None


SHOWN = [
    ("honeycomb-2017", "isr_changed", "broker-3"),
    ("zombie-controller", "controller_elected", "broker-3"),
    ("kafka-1211", "log_truncated", "broker-4"),
    ("jepsen-2013", "leader_elected", "broker-3"),
    ("kip-966", "leader_elected", "broker-3"),
]


@pytest.mark.parametrize(("name", "kind", "node"), SHOWN)
def test_first_difference_from_a_bug_run_is_the_step_of_the_bug(name: str, kind: str, node: str) -> None:
    """The first difference between an outage with and without its bug is the step in which the bug acts.

    Examples: a deposed controller writes, a broker truncates its log, or a broker without the records is elected.
    """
    verdict = play(LIBRARY[name])
    assert verdict.shown is not None
    one, other = on_world_time(verdict.journal), on_world_time(verdict.shown.journal)
    found = deciding(one, other)
    assert found is not None
    assert found.other is not None
    assert (type_name(found.other.event), found.other.node) == (kind, node)


def on_world_time(journal: list[Entry]) -> list[Entry]:
    return [Entry(each.node, each.node_seq, each.mono_us, each.mono_us, each.event, each.seq) for each in journal]
