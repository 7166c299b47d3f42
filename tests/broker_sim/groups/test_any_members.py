"""Random member requests and storage results: the group keeps its invariants and sends one response per request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.groups.config import GroupConfig
from zabka.broker_sim.groups.membership import GroupMembership
from zabka.broker_sim.groups.metadata import Group, GroupState, JoinResult, SyncResult
from zabka.broker_sim.groups.requests import Joining, Leaving, Syncing
from zabka.broker_sim.groups.store import GroupStore
from zabka.ensemble.ports import Future
from zabka.simulation.engine.scheduler import Scheduler

STEPS = 150
LONG_MS = 3_000_000
"""A duration longer than any timeout."""


class Storing:
    """Fake store of group records. The test decides when a write ends, and some writes fail."""

    def __init__(self, runtime: SimRuntime, random: Random) -> None:
        self.pending: list[Future[ErrorCode]] = []
        self._runtime = runtime
        self._random = random

    def store_group(self, group: Group, assignment: Mapping[str, bytes]) -> Awaitable[ErrorCode]:
        group.to_stored(assignment)
        self.pending.append(self._runtime.future())
        stored = self.pending[-1]
        if self._random.random() < 0.6:
            self.end(stored)
        return stored

    def end(self, stored: Future[ErrorCode]) -> None:
        self.pending.remove(stored)
        wrong = (ErrorCode.coordinator_not_available, ErrorCode.rebalance_in_progress)
        stored.set_result(self._random.choice((*wrong, *(ErrorCode.none,) * 4)))


class Play:
    """Members of one group that send random requests, checked by the test after each step."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.scheduler = Scheduler()
        runtime = SimRuntime(self.scheduler, Random(seed))
        self.storing = Storing(runtime, self.random)
        config = GroupConfig(
            group_initial_rebalance_delay_ms=self.random.choice((0, 3_000)),
            group_max_size=self.random.choice((2, 4, 1_000)),
        )
        store = cast(GroupStore, self.storing)
        self.membership = GroupMembership(config, lambda: store, runtime, lambda group, reason: None)
        self.group = Group("g", 0)
        self.known: list[tuple[str, str | None]] = [("x", None)]
        self.answers: list[list[Any]] = []
        """Responses received, one list per request. At the end, each list must have exactly one entry."""

    def wait(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1_000)

    def _answer(self, instance_id: str | None = None) -> Callable[[JoinResult | SyncResult], None]:
        answers: list[Any] = []
        self.answers.append(answers)

        def answered(result: JoinResult | SyncResult) -> None:
            answers.append(result)
            if isinstance(result, JoinResult) and result.member_id:
                self.known.append((result.member_id, instance_id))

        return answered

    def join(self, member_id: str, instance_id: str | None) -> None:
        choose = self.random.choice
        names = self.random.sample("abc", choose((0, 1, 2, 3, 3, 3, 3)))
        joining = Joining(
            group_id="g",
            member_id=member_id,
            group_instance_id=instance_id,
            client_id="c",
            client_host="/h",
            session_timeout_ms=choose((6_000, 10_000, 30_000)),
            rebalance_timeout_ms=choose((-1, 0, 5_000, 5_000, 60_000)),
            protocol_type=choose(("consumer",) * 19 + ("connect",)),
            protocols=tuple((name, b"") for name in names),
            requires_known_member_id=instance_id is None and choose((True, False)),
            can_skip_assignment=choose((True, False)),
        )
        self.membership.join(self.group, joining, self._answer(instance_id))

    def step(self) -> None:
        """Run one random member request, or advance the time."""
        group, membership, at = self.group, self.membership, self.random.random()
        member_id, instance_id = self.random.choice(self.known)
        if at < 0.3:
            self.join("", self.random.choice((None, "i1", "i1", "i2", "i3")))
        elif at < 0.5:
            self.join(member_id, instance_id)
        elif at < 0.7:
            syncing = Syncing("g", group.generation_id, member_id, instance_id, None, None, {})
            membership.sync(group, syncing, self._answer())
        elif at < 0.8:
            membership.heartbeat(group, member_id, instance_id, group.generation_id)
        elif at < 0.84:
            membership.leave(group, Leaving(self.random.choice((member_id, "")), instance_id))
        elif at < 0.9 and self.storing.pending:
            self.storing.end(self.random.choice(self.storing.pending))
        else:
            self.wait(self.random.choice((1, 100, 1_000, 5_000, 20_000)))
        self.wait(0)

    def fall_silent(self) -> None:
        """Stop sending requests, and complete the pending writes."""
        self.wait(LONG_MS)
        while self.storing.pending:
            self.storing.end(self.storing.pending[0])
            self.wait(LONG_MS)


def check(group: Group) -> None:
    members = group.members
    assert group.supported == Counter(name for member in members.values() for name, _ in member.protocols)
    assert not members or len(members) in group.supported.values(), "no protocol that all support"
    assert (group.leader_id in members) if members else group.leader_id is None
    static = {m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None}
    assert group.static_members == static
    assert all(member.member_id == member_id for member_id, member in members.items())
    assert group.pending_sync.keys() <= members.keys() and not group.pending_members.keys() & members.keys()
    assert (group.rebalance is not None) == (group.state is GroupState.PREPARING_REBALANCE)
    assert not members or group.state is not GroupState.EMPTY


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_group_keeps_invariants_and_replies_to_each_request_once(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        play = Play(seed)
        for _ in range(STEPS):
            play.step()
            check(play.group)
        play.fall_silent()
        check(play.group)
        assert play.group.state is GroupState.EMPTY and not play.group.pending_members, seed
        assert [len(answers) for answers in play.answers] == [1] * len(play.answers), seed
