"""A session that is heard by a server of a serving quorum lives, whatever the accused says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

import pytest

from ensemble.tree.service import Service
from simulation.judges.heard_sessions import NAME
from simulation.run import run_seed
from simulation.settings import WorldSettings

FEW = WorldSettings(peers=3, brokers=3)


@contextmanager
def the_leader_ignores_heartbeats() -> Iterator[None]:
    """What followers say in their pings of sessions that they heard from is not noted."""
    with patch.object(Service, "touch", lambda self, now, session_id, timeout_ms, by: None):
        yield


@contextmanager
def followers_say_nothing_of_sessions() -> Iterator[None]:
    """The answers to pings name nobody."""
    with patch.object(Service, "drain_touched", lambda self: []):
        yield


@pytest.mark.parametrize("plant", [the_leader_ignores_heartbeats, followers_say_nothing_of_sessions])
def test_a_session_that_was_heard_and_expires_is_a_violation(plant: Callable[[], AbstractContextManager[None]]) -> None:
    with plant():
        problems = run_seed(1, "calm", FEW).problems

    assert any(NAME in problem and "its client was heard" in problem for problem in problems), problems


def test_without_the_bug_the_same_seed_holds() -> None:
    assert run_seed(1, "calm", FEW).problems == []
