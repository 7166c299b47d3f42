"""A session with a recent client request at a server of a serving quorum must not expire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random
from unittest.mock import patch

import pytest

from zabka.ensemble.ids import ConnectionId, Zxid
from zabka.ensemble.records import ConnectResponse
from zabka.ensemble.tree.service import Service
from zabka.ensemble.zab.messages import Ping
from zabka.journal.events import Entry, InvariantViolated, SessionExpired
from zabka.journal.judges.judged import Judged
from zabka.simulation.judges.heard_sessions import NAME, HeardSessions, Hearing
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.kernel.scheduler import Scheduler
from zabka.simulation.network.network import Endpoint, Link, Network
from zabka.simulation.run import run_seed
from zabka.simulation.settings import WorldSettings

FEW = WorldSettings(peers=3, brokers=3)


@contextmanager
def the_leader_ignores_heartbeats() -> Iterator[None]:
    """The leader ignores the sessions that followers list in their pings."""
    with patch.object(Service, "touch", lambda self, now, session_id, timeout_ms, by: None):
        yield


@contextmanager
def followers_say_nothing_of_sessions() -> Iterator[None]:
    """Followers list no sessions in their answers to pings."""
    with patch.object(Service, "drain_touched", lambda self: []):
        yield


@pytest.mark.parametrize("plant", [the_leader_ignores_heartbeats, followers_say_nothing_of_sessions])
def test_expiry_of_a_session_with_recent_contact_is_a_violation(
    plant: Callable[[], AbstractContextManager[None]],
) -> None:
    with plant():
        problems = run_seed(1, "calm", FEW).problems

    assert any(NAME in problem and "its client was heard" in problem for problem in problems), problems


def test_same_seed_without_the_bug_has_no_violation() -> None:
    assert run_seed(1, "calm", FEW).problems == []


def test_client_contact_before_a_leader_change_does_not_count() -> None:
    found: list[InvariantViolated] = []
    judge, follower = HeardSessions(Judged(), found.append), Hearing(2)
    network = Network(Scheduler(), Random(1))
    runtime = SimRuntime(network.scheduler, Random(1))
    first, second = (Endpoint(network, network.host("peer-2"), runtime, Link("peer-3", "peer-2")) for _ in range(2))
    judge.answered(follower, ConnectionId(1), ConnectResponse(0, 2000, 7, bytes(16)))

    judge.sent(follower, first, [Ping(Zxid(1))])
    judge.heard(follower, ConnectionId(1), 1_000_000)
    judge.sent(follower, second, [Ping(Zxid(1))])
    judge.arrived(3, second, [Ping(Zxid(1))])
    judge.journalled(Entry("peer-3", 1, 0, 2_000_000, SessionExpired(7, 2000)))
    assert found == []

    judge.heard(follower, ConnectionId(1), 2_500_000)
    judge.sent(follower, second, [Ping(Zxid(1))])
    judge.arrived(3, second, [Ping(Zxid(1))])
    judge.journalled(Entry("peer-3", 2, 0, 4_400_000, SessionExpired(7, 2000)))
    assert [violation.invariant for violation in found] == [NAME]
