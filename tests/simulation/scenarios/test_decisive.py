"""The decisive event of a run, at which the web page opens the run."""

from __future__ import annotations

import pytest

from zabka.journal import events as e
from zabka.journal.events import Event
from zabka.simulation.scenarios.decisive import decisive
from zabka.simulation.scenarios.library import LIBRARY, play
from zabka.simulation.scenarios.scenario import CoreScenario

LONE = sorted(name for name, scenario in LIBRARY.items() if isinstance(scenario, CoreScenario))


def moments(name: str) -> tuple[Event | None, Event | None]:
    """Run a script without and with its bug. Return the decisive event of each run, or None if it has none."""
    verdict = play(LIBRARY[name])
    found = decisive(LIBRARY[name], verdict)
    bug = None if verdict.shown is None or found.outage is None else verdict.shown.journal[found.outage - 1].event
    return None if found.played is None else verdict.journal[found.played - 1].event, bug


def test_decisive_event_of_honeycomb_2017_is_the_zombies_write() -> None:
    """The decisive event of honeycomb-2017 is the write of the deposed controller.

    The ensemble rejects this write. With the bug, the write is applied.
    """
    held, bug = moments("honeycomb-2017")
    assert isinstance(held, e.WriteFenced)
    assert isinstance(bug, e.IsrChanged)
    assert bug.controller_epoch == 1


def test_decisive_event_of_controller_killed_is_an_election() -> None:
    held, bug = moments("controller-killed")
    assert isinstance(held, e.ControllerElected)
    assert (held.controller_epoch, bug) == (2, None)


@pytest.mark.parametrize("name", LONE)
def test_decisive_event_of_a_protocol_script_is_the_last_join(name: str) -> None:
    """In scripts about the protocol, the decisive event is that the last peer joins.

    The peer then has the history that the script expects. Only the script with the frozen leader has an election at its
    end instead.
    """
    held, _ = moments(name)
    assert isinstance(held, e.PeerStateChanged)
    ends = ("LOOKING", "ELECTION") if name == "zookeeper-1675" else ("FOLLOWING", "BROADCAST")
    assert (held.state, held.phase) == ends
