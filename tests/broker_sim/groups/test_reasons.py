"""Why a group rebalanced: the reason and the causing event in the group's journal events."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.groups.group_driver import INITIAL_DELAY_MS, P0, REBALANCE_MS, SESSION_MS, Members, a_cluster
from zabka.journal.cause import event_cause
from zabka.journal.causes import Causes, End
from zabka.journal.checkers.cause_chains import broken_chains
from zabka.journal.events import Entry, GroupChanged, type_name
from zabka.kafka.client.consumer_protocol import encode_subscription
from zabka.testing import running_world


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = a_cluster()
    yield made
    made.stop_all()


@pytest.fixture
def members(cluster: Cluster, request: pytest.FixtureRequest) -> Members:
    return Members(cluster, request.node.name)


def changes(members: Members) -> list[GroupChanged]:
    return [event for event in members.coordinator.of(GroupChanged) if event.group_id == members.group_id]


def rebalance(members: Members) -> tuple[str, str, str, str]:
    """Return the reason, the cause, the member and the client of the group's last rebalance."""
    last = [event for event in changes(members) if event.state == "PreparingRebalance"][-1]
    return last.after, last.caused_by, last.member_id, last.client_id


def test_joining_member_is_the_reason_for_a_rebalance(members: Members) -> None:
    members.stable()
    newcomer, _ = members.new_member()
    assert rebalance(members) == ("member joined", "request JoinGroup", newcomer, "tester")


def test_leaving_member_is_the_reason_for_a_rebalance(members: Members) -> None:
    (_, follower), _ = members.stable(2)
    members.leave((follower, None))
    assert rebalance(members) == ("member left", "request LeaveGroup", follower, "tester")


def test_silent_member_is_the_reason_for_a_rebalance(members: Members) -> None:
    (leader, follower), generation = members.stable(2)
    for _ in range(3):
        members.heartbeat(leader, generation)
        members.cluster.wait(SESSION_MS // 2)
    assert rebalance(members) == ("session timed out", "timer group-session", follower, "tester")
    assert changes(members)[-1].timeout_ms == SESSION_MS


def test_rejoin_of_the_leader_and_new_subscription_are_different_reasons(members: Members) -> None:
    (leader, follower), _ = members.stable(2)
    members.join(leader)
    assert rebalance(members) == ("leader joined again", "request JoinGroup", leader, "tester")
    members.join(follower)
    members.join(follower, protocols={"range": encode_subscription(["orders", "more"])})
    assert rebalance(members) == ("member changed its subscription", "request JoinGroup", follower, "tester")


def test_returned_static_member_can_be_the_reason_for_a_rebalance(members: Members) -> None:
    joins = [members.join(instance_id=name) for name in ("a", "b")]
    members.cluster.wait(3 * INITIAL_DELAY_MS)
    assert joins[0].answer.generation_id == 1
    back = members.join(instance_id="b")
    assert rebalance(members)[:2] == ("static member joined again", "request JoinGroup")
    assert rebalance(members)[2].startswith("b-") and rebalance(members)[2] != joins[1].answer.member_id
    assert back.answer is None


def test_member_without_sync_group_is_the_reason_for_a_rebalance(members: Members) -> None:
    first_id, _ = members.new_member(rebalance_ms=SESSION_MS // 2)
    members.cluster.wait(INITIAL_DELAY_MS)
    assert [event.state for event in changes(members)][-1] == "CompletingRebalance"
    members.cluster.wait(SESSION_MS)
    assert rebalance(members)[:2] == ("members did not fetch their assignment", "timer pending-sync")
    assert changes(members)[-1].state == "Empty" and first_id not in changes(members)[-1].members


def test_each_state_of_a_rebalance_refers_to_the_state_before(members: Members) -> None:
    (leader, follower), generation = members.stable(2)
    members.leave((follower, None))
    members.join(leader)
    members.sync(leader, generation + 1, {leader: [P0]})
    members.cluster.wait(100)
    begun, completed, stable = changes(members)[-3:]
    assert [event.after for event in (begun, completed, stable)] == [
        "member left", "all members joined", "assignment stored",
    ]  # fmt: skip
    events = members.coordinator.events
    causes = [event_cause(f"broker-{begun.broker_id}", events.index(event) + 1) for event in (begun, completed)]
    assert [completed.caused_by, stable.caused_by] == causes


def test_rebalance_without_a_member_ends_after_its_timeout(members: Members) -> None:
    (_, follower), _ = members.stable(2)
    join = members.join(
        follower, protocols={"range": encode_subscription(["orders", "more"])}, rebalance_ms=REBALANCE_MS
    )
    leader = next(member for member in changes(members)[-1].members if member != follower)
    for _ in range(REBALANCE_MS // 5_000):
        members.heartbeat(leader, 1)
        members.cluster.wait(5_000)
    assert join.answer is not None
    assert [event.after for event in changes(members)[-2:]] == [
        "member changed its subscription",
        "rebalance timed out",
    ]


def with_causes(entries: list[Entry], after: str) -> list[str]:
    """Return the types of the events in the chain of causes of the last group event with that reason."""
    causes = Causes()
    for entry in entries:
        causes.see(entry)
    last = [entry for entry in entries if isinstance(entry.event, GroupChanged) and entry.event.after == after][-1]
    chain = causes.chain(last)
    assert chain.end is End.FAULT
    return [type_name(step.event) for step in chain.steps]


def test_rebalance_is_caused_by_the_fault_on_the_member_or_broker() -> None:
    with running_world(seed=3) as cluster:

        def groups(after: str) -> list[GroupChanged]:
            events = [entry.event for entry in cluster.journal()]
            return [event for event in events if isinstance(event, GroupChanged) and event.after == after]

        cluster.topics.create("orders", partitions=2, replication_factor=3)
        for _ in range(2):
            cluster.consumer("orders", "readers")
        cluster.until(lambda: groups("assignment stored"), timeout_s=60)
        cut = cluster.faults.cut("client:consumer-2")
        cluster.until(lambda: groups("session timed out"), timeout_s=60)
        cut.heal()
        cluster.brokers[groups("session timed out")[0].broker_id].kill()
        cluster.until(lambda: groups("loaded"), timeout_s=60)
        entries = list(cluster.journal())
    assert with_causes(entries, "session timed out") == ["group_changed", "link_fault_applied", "fault_injected"]
    assert with_causes(entries, "loaded") == [
        "group_changed", "leader_elected", "session_closed", "session_expired", "fault_injected",
    ]  # fmt: skip
    assert broken_chains(entries) == []
