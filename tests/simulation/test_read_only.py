"""Read-only service under faults, in a whole simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from ensemble.client.session import Session
from ensemble.errors import ErrorCode
from ensemble.tree.attachment import Attachment
from ensemble.tree.local_requests import LocalRequests
from ensemble.zab.peer import Peer
from simulation.run import run_seed
from simulation.seeds.read_only import READ_ONLY
from simulation.seeds.seed_run import SeedRun
from simulation.settings import BadSetting, world_settings

BUSY_SEED = 9
"""Its reader is with a minority for a good while, and comes back."""


def test_a_reader_is_served_by_minorities_and_follows_the_leader_the_same_way_every_time() -> None:
    run, again = SeedRun(BUSY_SEED, READ_ONLY), SeedRun(BUSY_SEED, READ_ONLY)
    assert run.execute().problems == again.execute().problems == []
    assert list(run.world.record.lines()) == list(again.world.record.lines())
    assert run.reading is not None
    assert min(run.reading.read_only_answers, run.reading.refusals, run.reading.writes) > 20
    assert run.reading.watches_fired > 20


@pytest.mark.parametrize("seed", [4, 7])
def test_a_seed_of_read_only_service_holds_every_invariant(seed: int) -> None:
    assert run_seed(seed, READ_ONLY.name).problems == []


def test_the_keys_of_read_only_service_can_be_set() -> None:
    found = world_settings(["readonlymode.enabled=true", "localSessionsEnabled=TRUE"])
    assert (found.read_only_mode, found.local_sessions, found.local_sessions_upgrading) == (True, True, False)
    with pytest.raises(BadSetting, match="true or false"):
        world_settings(["readonlymode.enabled=1"])


# -- planted bugs


@contextmanager
def sessions_are_global() -> Iterator[None]:
    """A read-only server keeps its sessions where global ones are kept."""
    connect = Attachment._connect_alone

    def leaky(self: Attachment, now: Any, client: Any, request: Any, effects: Any) -> bool:
        alone = connect(self, now, client, request, effects)
        if alone and self._state.read_only and client.session_id:
            self._state.tree.sessions[client.session_id] = client.timeout_ms
        return alone

    with patch.object(Attachment, "_connect_alone", leaky):
        yield


@contextmanager
def writes_are_answered() -> Iterator[None]:
    """A read-only server says yes to what it cannot do."""
    stays = LocalRequests.stays_here

    def obliging(self: LocalRequests, waiting: Any, request: Any, effects: Any) -> bool:
        here = stays(self, waiting, request, effects)
        if waiting.problem is ErrorCode.NOT_READ_ONLY:
            waiting.problem = ErrorCode.NODE_EXISTS
        return here

    with patch.object(LocalRequests, "stays_here", obliging):
        yield


@contextmanager
def service_never_ends() -> Iterator[None]:
    """The election ends, and nobody tells the read-only server."""
    with patch.object(Peer, "_end_read_only", lambda self: None):
        yield


@contextmanager
def clients_take_local_sessions_elsewhere() -> Iterator[None]:
    """A client asks a leader for the session that a read-only server gave it."""
    establish = Session._establish

    def hopeful(self: Session) -> None:
        establish(self)
        self._resumable = True

    with patch.object(Session, "_establish", hopeful):
        yield


@pytest.mark.parametrize(
    ("plant", "seed", "shows"),
    [
        (sessions_are_global, BUSY_SEED, "is a global one"),
        (writes_are_answered, BUSY_SEED, "a server without a leader made"),
        (service_never_ends, 3, "while clients read it"),
        (clients_take_local_sessions_elsewhere, BUSY_SEED, "of a read-only server expired"),
    ],
)
def test_a_planted_bug_is_found(plant: Callable[[], AbstractContextManager[None]], seed: int, shows: str) -> None:
    with plant():
        found = run_seed(seed, READ_ONLY.name).problems
    assert any(shows in problem for problem in found)
