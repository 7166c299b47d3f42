"""Sequences of steps that a random search draws as one."""

from __future__ import annotations

import pytest

from tests.simulation import planted_ensemble
from zabka.simulation.scenarios.core_steps import Break, Elect, Run, Start, Write
from zabka.simulation.search.protocol import Quiet
from zabka.simulation.search.stretches import Stretch, blips, uneven_writes
from zabka.simulation.steps.cores import Cores

ALL = (1, 2, 3)


@pytest.fixture
def cores() -> Cores:
    """Return three serving servers, with server 3 as leader and one write on all of them."""
    made = Cores()
    take(made, Quiet(), (Start(), Elect(ALL), Run(), Write(3), Run()))
    return made


def take(cores: Cores, quiet: Quiet, stretch: Stretch) -> None:
    for drawn in stretch:
        step = quiet.held_back(drawn)
        step.play(cores)
        quiet.follow(step)


def ends(cores: Cores) -> list[int]:
    return [cores.nodes[peer].disk.last_durable() & 0xFF for peer in ALL]


def told(cores: Cores) -> list[int]:
    """Return the counter of the last zxid that each server knows to be committed."""
    return [status.last_committed & 0xFF for peer in ALL if (status := cores.nodes[peer].status) is not None]


def uneven(cores: Cores, writer: int, *held: str) -> Stretch:
    return next(each for each in uneven_writes(cores) if each == (Write(writer), Run(hold=held)))


def blip(cores: Cores, one: int, other: int) -> Stretch:
    return next(each for each in blips(cores) if each[0] == Break(one, other))


def test_uneven_write_reaches_only_some_peers(cores: Cores) -> None:
    quiet = Quiet()
    take(cores, quiet, uneven(cores, 3, "3 > 1"))
    assert ends(cores) == [1, 2, 2]
    take(cores, quiet, (Run(),))
    assert ends(cores) == [1, 2, 2]
    take(cores, Quiet(), (Run(),))
    assert ends(cores) == [2, 2, 2]
    assert cores.problems == []


def test_uneven_writes_cover_every_writer_and_every_hold(cores: Cores) -> None:
    found = list(uneven_writes(cores))
    assert len(found) == len(set(found)) == 3 * (4 * 4 - 1)


def test_follower_that_briefly_lost_its_leader_follows_again(cores: Cores) -> None:
    take(cores, Quiet(), blip(cores, 1, 3))
    take(cores, Quiet(), (Write(3), Run()))
    assert ends(cores) == [2, 2, 2]
    assert cores.problems == []


@pytest.mark.parametrize("is_planted", [False, True])
def test_uneven_write_and_blip_show_truncation_of_a_commit(cores: Cores, is_planted: bool) -> None:
    quiet, plant = Quiet(), planted_ensemble.PLANTED["who comes back ahead is cut back"]
    take(cores, quiet, uneven(cores, 2, "1 > 3", "3 > 2"))
    assert told(cores) == [2, 1, 1]
    stretch = blip(cores, 1, 3)
    if is_planted:
        with plant():
            take(cores, quiet, stretch)
        assert plant.shown(cores.problems) is not None
    else:
        take(cores, quiet, stretch)
        assert cores.problems == []
        take(cores, Quiet(), (Run(),))
        assert ends(cores) == [2, 2, 2]
