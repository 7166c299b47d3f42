"""Sequences of steps that a random search chooses as one unit."""

from __future__ import annotations

import pytest

from tests.simulation import injected_ensemble
from zabka.simulation.scenarios.core_steps import Break, Elect, Run, Start, Write
from zabka.simulation.search.protocol import Quiet
from zabka.simulation.search.stretches import Stretch, blips, uneven_writes
from zabka.simulation.steps.bare_ensemble import BareEnsemble

ALL = (1, 2, 3)


@pytest.fixture
def cores() -> BareEnsemble:
    """Return three servers with leader 3 and one write that all of them have."""
    made = BareEnsemble()
    take(made, Quiet(), (Start(), Elect(ALL), Run(), Write(3), Run()))
    return made


def take(cores: BareEnsemble, quiet: Quiet, stretch: Stretch) -> None:
    for drawn in stretch:
        step = quiet.held_back(drawn)
        step.play(cores)
        quiet.follow(step)


def ends(cores: BareEnsemble) -> list[int]:
    return [cores.nodes[peer].disk.last_durable() & 0xFF for peer in ALL]


def performed(cores: BareEnsemble) -> list[int]:
    """Perform a sequence of steps.

    Return the counter of the last zxid that each server knows to be committed.
    """
    return [status.last_committed & 0xFF for peer in ALL if (status := cores.nodes[peer].status) is not None]


def uneven(cores: BareEnsemble, writer: int, *held: str) -> Stretch:
    return next(each for each in uneven_writes(cores) if each == (Write(writer), Run(hold=held)))


def blip(cores: BareEnsemble, one: int, other: int) -> Stretch:
    return next(each for each in blips(cores) if each[0] == Break(one, other))


def test_partial_write_is_logged_by_only_some_peers(cores: BareEnsemble) -> None:
    quiet = Quiet()
    take(cores, quiet, uneven(cores, 3, "3 > 1"))
    assert ends(cores) == [1, 2, 2]
    take(cores, quiet, (Run(),))
    assert ends(cores) == [1, 2, 2]
    take(cores, Quiet(), (Run(),))
    assert ends(cores) == [2, 2, 2]
    assert cores.problems == []


def test_partial_writes_cover_every_writer_and_delayed_link(cores: BareEnsemble) -> None:
    found = list(uneven_writes(cores))
    assert len(found) == len(set(found)) == 3 * (4 * 4 - 1)


def test_follower_that_briefly_lost_its_leader_follows_again(cores: BareEnsemble) -> None:
    take(cores, Quiet(), blip(cores, 1, 3))
    take(cores, Quiet(), (Write(3), Run()))
    assert ends(cores) == [2, 2, 2]
    assert cores.problems == []


@pytest.mark.parametrize("is_injected", [False, True])
def test_partial_write_and_short_disconnect_detect_a_lost_commit(cores: BareEnsemble, is_injected: bool) -> None:
    quiet, injected_bug = Quiet(), injected_ensemble.INJECTED["who comes back ahead is cut back"]
    take(cores, quiet, uneven(cores, 2, "1 > 3", "3 > 2"))
    assert performed(cores) == [2, 1, 1]
    stretch = blip(cores, 1, 3)
    if is_injected:
        with injected_bug():
            take(cores, quiet, stretch)
        assert injected_bug.shown(cores.problems) is not None
    else:
        take(cores, quiet, stretch)
        assert cores.problems == []
        take(cores, Quiet(), (Run(),))
        assert ends(cores) == [2, 2, 2]
