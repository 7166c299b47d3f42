"""Rules of the classic group protocol at the coordinator, on virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from time import thread_time

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.groups.group_driver import INITIAL_DELAY_MS, P0, REBALANCE_MS, SESSION_MS, Members, a_cluster
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.groups.config import GroupConfig
from zabka.broker_sim.groups.membership import GroupMembership
from zabka.broker_sim.groups.metadata import Group, JoinResult
from zabka.broker_sim.groups.requests import Joining
from zabka.journal.events import GroupChanged, TopicPartition
from zabka.kafka.client.consumer_protocol import decode_assignment, encode_subscription
from zabka.kafka.wire.frames import ResponseEncoder
from zabka.kafka.wire.kafka_schema import ApiKey
from zabka.simulation.engine.scheduler import Scheduler

NONE = ErrorCode.none


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = a_cluster(group_max_size="3")
    yield made
    made.stop_all()


@pytest.fixture
def members(cluster: Cluster, request: pytest.FixtureRequest) -> Members:
    return Members(cluster, request.node.name)


# ---- joining ---------------------------------------------------------------------------------------------------


def test_dynamic_member_gets_an_id_and_must_rejoin_with_it(members: Members) -> None:
    first = members.join()
    assert first.error is ErrorCode.member_id_required
    assert first.answer.member_id.startswith("tester-")
    assert first.answer.generation_id == -1
    again = members.join(first.answer.member_id)
    assert again.answer is None
    members.cluster.wait(INITIAL_DELAY_MS + 100)
    assert again.error is NONE and again.answer.generation_id == 1


@pytest.mark.parametrize(("length", "error"), [(32_730, NONE), (32_731, ErrorCode.unknown_server_error)])
def test_too_long_member_id_is_rejected(members: Members, length: int, error: ErrorCode) -> None:
    # The member id is the instance id, a dash and 36 characters. If an id too long for a response were accepted, the
    # member would remain in the group, and DescribeGroups would fail.
    asked = members.join(instance_id="i" * length)
    members.cluster.wait(INITIAL_DELAY_MS + 100)
    assert asked.error is error
    described = members.ask(ApiKey.DESCRIBE_GROUPS, 4, groups=[members.group_id]).answer
    assert [len(row.member_id) for row in described.groups[0].members] == ([32_767] if error is NONE else [])
    assert ResponseEncoder().encode(1, described)


def test_join_without_member_id_needs_old_version_or_static_id(members: Members) -> None:
    old = members.join(version=3)
    static = members.join(instance_id="a")
    assert static.answer is None
    members.cluster.wait(INITIAL_DELAY_MS)
    # The second member joined during the initial rebalance delay, which therefore starts again.
    assert old.answer is None
    members.cluster.wait(INITIAL_DELAY_MS)
    assert old.error is NONE and static.error is NONE
    assert static.answer.member_id.startswith("a-")


def test_first_rebalance_waits_while_more_members_join(members: Members) -> None:
    joins = []
    for _ in range(3):
        joins.append(members.new_member()[1])
        members.cluster.wait(INITIAL_DELAY_MS - 500)
    assert all(join.answer is None for join in joins)
    members.cluster.wait(2 * INITIAL_DELAY_MS)
    assert [join.answer.generation_id for join in joins] == [1, 1, 1]


def test_first_member_is_leader_and_only_it_gets_the_member_list(members: Members) -> None:
    (first_id, first), (second_id, second) = members.new_member(), members.new_member()
    members.cluster.wait(2 * INITIAL_DELAY_MS + 100)
    assert first.answer.leader == second.answer.leader == first_id
    assert [row.member_id for row in first.answer.members] == [first_id, second_id]
    assert list(second.answer.members) == []
    assert first.answer.protocol_type == "consumer" and first.answer.protocol_name == "range"


def test_common_protocol_with_most_votes_is_chosen(members: Members) -> None:
    metadata = encode_subscription(["orders"])
    _, one = members.new_member(protocols={"sticky": metadata, "range": metadata, "own": metadata})
    _, two = members.new_member(protocols={"range": metadata, "sticky": metadata})
    _, three = members.new_member(protocols={"range": metadata, "sticky": metadata})
    members.cluster.wait(3 * INITIAL_DELAY_MS + 100)
    assert {join.answer.protocol_name for join in (one, two, three)} == {"range"}


def test_member_without_a_common_protocol_is_rejected(members: Members) -> None:
    members.stable()
    assert members.join(protocols={"other": b""}).error is ErrorCode.inconsistent_group_protocol
    assert members.join(protocol_type="connect").error is ErrorCode.inconsistent_group_protocol
    fresh = Members(members.cluster, members.group_id + "-2")
    assert fresh.join(protocols={}).error is ErrorCode.inconsistent_group_protocol
    assert fresh.join(protocol_type="").error is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_out_of_range_session_timeout_is_rejected(members: Members, session_ms: int) -> None:
    assert members.join(session_ms=session_ms).error is ErrorCode.invalid_session_timeout


def test_unknown_member_id_is_rejected_in_any_group(members: Members) -> None:
    assert members.join("nobody").error is ErrorCode.unknown_member_id
    members.stable()
    assert members.join("nobody").error is ErrorCode.unknown_member_id


def test_empty_group_id_is_rejected(cluster: Cluster) -> None:
    nameless = Members(cluster, "")
    assert nameless.join().error is ErrorCode.invalid_group_id
    assert nameless.heartbeat("m", 1) is ErrorCode.invalid_group_id


def test_broker_that_is_not_the_coordinator_returns_an_error(members: Members) -> None:
    other = next(node for node in members.cluster.nodes.values() if node is not members.coordinator)
    assert members.join(node=other).error is ErrorCode.not_coordinator
    assert members.sync("m", 1, node=other).error is ErrorCode.not_coordinator
    assert members.described(other).error_code == ErrorCode.not_coordinator
    assert members.committed(node=other) is ErrorCode.not_coordinator


def test_join_of_a_full_group_is_rejected(members: Members) -> None:
    members.stable(3)
    refused = members.join()
    assert refused.error is ErrorCode.group_max_size_reached
    assert refused.answer.member_id == ""


def test_unused_member_id_delays_a_rebalance_until_it_expires(members: Members) -> None:
    (leader,), generation = members.stable()
    unused = members.join(session_ms=SESSION_MS)
    assert unused.error is ErrorCode.member_id_required
    again = members.join(leader)
    members.cluster.wait(SESSION_MS - 1_000)
    assert again.answer is None
    members.cluster.wait(2_000)
    assert again.error is NONE and again.answer.generation_id == generation + 1


def test_join_without_a_protocol_is_rejected_in_an_emptied_group(
    members: Members,
) -> None:
    member_id, _ = members.new_member()
    members.leave((member_id, None))
    assert members.state() == "PreparingRebalance"
    assert members.join(protocols={}, version=3).error is ErrorCode.inconsistent_group_protocol
    _, good = members.new_member()
    members.cluster.wait(2 * INITIAL_DELAY_MS)
    assert good.error is NONE


def test_join_time_is_linear_in_the_number_of_protocols(members: Members) -> None:
    members.join(version=3, protocols={f"p{number}": b"" for number in range(40_000)})
    began_s = thread_time()
    other = members.join(version=3, protocols={f"q{number}": b"" for number in range(40_000)})
    assert other.error is ErrorCode.inconsistent_group_protocol
    _, like_minded = members.new_member(protocols={f"p{number}": b"" for number in reversed(range(40_000))})
    members.cluster.wait(2 * INITIAL_DELAY_MS)
    assert like_minded.error is NONE
    assert thread_time() - began_s < 10


def test_join_does_not_examine_every_member_of_a_large_group() -> None:
    scheduler = Scheduler()
    runtime = SimRuntime(scheduler, Random(0))
    config = GroupConfig(group_initial_rebalance_delay_ms=INITIAL_DELAY_MS)
    membership = GroupMembership(config, lambda: pytest.fail("nothing is stored"), runtime, lambda group, reason: None)
    group, answers = Group("large", 0), list[JoinResult]()
    protocols = (("range", b""), ("sticky", b""))
    joining = Joining("large", "", None, "c", "/h", SESSION_MS, REBALANCE_MS, "consumer", protocols, False, True)
    began_s = thread_time()
    for _ in range(5_000):
        membership.join(group, joining, answers.append)
    scheduler.run_until(scheduler.now_us + 3 * INITIAL_DELAY_MS * 1_000)
    assert [answer.error for answer in answers] == [NONE] * 5_000
    assert thread_time() - began_s < 5


def test_dynamic_member_id_is_rejected_for_a_static_member(members: Members) -> None:
    member_id, static = members.join().answer.member_id, members.join(instance_id="a")
    for instance_id in ("a", "b"):
        assert members.join(member_id, instance_id=instance_id).error is ErrorCode.unknown_server_error
    dynamic = members.join(member_id)
    members.cluster.wait(3 * INITIAL_DELAY_MS)
    assert static.error is NONE and dynamic.error is NONE


# ---- syncing ---------------------------------------------------------------------------------------------------


def test_members_get_the_assignment_after_it_is_stored(members: Members) -> None:
    (leader, follower), generation = members.stable(2)
    described = members.described()
    assert described.group_state == "Stable" and described.protocol_data == "range"
    given = {row.member_id: decode_assignment(row.member_assignment) for row in described.members}
    assert given == {leader: (P0,), follower: (TopicPartition("orders", 1),)}
    assert {row.client_host for row in described.members} == {"/10.0.0.1"}
    again = members.sync(follower, generation)
    assert decode_assignment(again.answer.assignment) == (TopicPartition("orders", 1),)


def test_member_without_an_assignment_gets_an_empty_one(members: Members) -> None:
    (first_id, first), (second_id, _) = members.new_member(), members.new_member()
    members.cluster.wait(3 * INITIAL_DELAY_MS)
    sync = members.sync(second_id, 1)
    assert sync.answer is None
    assert first.answer.leader == first_id
    members.sync(first_id, 1, {first_id: [P0]})
    members.cluster.wait(100)
    assert sync.error is NONE and sync.answer.assignment == b""


def test_rejected_sync_group_gets_the_error_code_for_the_reason(members: Members) -> None:
    assert members.sync("nobody", 1).error is ErrorCode.unknown_member_id
    (leader,), generation = members.stable()
    assert members.sync("nobody", generation).error is ErrorCode.unknown_member_id
    assert members.sync(leader, generation - 1).error is ErrorCode.illegal_generation
    assert members.sync(leader, generation, protocol_name="sticky").error is ErrorCode.inconsistent_group_protocol
    assert members.sync(leader, generation, protocol_name=None).error is ErrorCode.inconsistent_group_protocol
    assert members.sync(leader, generation, protocol_name=None, version=4).error is NONE
    members.new_member()
    assert members.sync(leader, generation).error is ErrorCode.rebalance_in_progress


def test_member_without_sync_group_is_removed_after_the_timeout(members: Members) -> None:
    rebalance_ms = SESSION_MS
    first_id, _ = members.new_member(rebalance_ms=rebalance_ms)
    silent_id, _ = members.new_member(rebalance_ms=rebalance_ms)
    members.cluster.wait(3 * INITIAL_DELAY_MS)
    members.sync(first_id, 1, {first_id: [P0]})
    members.cluster.wait(3_000)
    for _ in range(2):
        assert members.heartbeat(silent_id, 1) is NONE
        assert members.heartbeat(first_id, 1) is NONE
        members.cluster.wait(3_000)
    assert members.heartbeat(first_id, 1) is ErrorCode.rebalance_in_progress
    assert members.heartbeat(silent_id, 1) is ErrorCode.unknown_member_id


# ---- heartbeats ------------------------------------------------------------------------------------------------


def test_rejected_heartbeat_gets_the_error_code_for_the_reason(members: Members) -> None:
    assert members.heartbeat("nobody", 1) is ErrorCode.unknown_member_id
    (leader,), generation = members.stable()
    assert members.heartbeat(leader, generation) is NONE
    assert members.heartbeat(leader, generation - 1) is ErrorCode.illegal_generation
    assert members.heartbeat("nobody", generation) is ErrorCode.unknown_member_id
    members.new_member()
    assert members.heartbeat(leader, generation) is ErrorCode.rebalance_in_progress


def test_member_without_heartbeats_is_removed(members: Members) -> None:
    (leader, follower), generation = members.stable(2)
    for _ in range(3):
        members.cluster.wait(SESSION_MS - 2_000)
        assert members.heartbeat(leader, generation) is NONE
        assert members.heartbeat(follower, generation) is NONE
    members.cluster.wait(SESSION_MS - 2_000)
    assert members.heartbeat(leader, generation) is NONE
    members.cluster.wait(3_000)
    assert members.heartbeat(leader, generation) is ErrorCode.rebalance_in_progress
    assert members.heartbeat(follower, generation) is ErrorCode.unknown_member_id
    again = members.join(leader)
    assert again.error is NONE and again.answer.generation_id == generation + 1


def test_generation_is_incremented_when_the_group_becomes_empty(members: Members) -> None:
    _, generation = members.stable()
    members.cluster.wait(SESSION_MS + 1_000)
    assert members.state() == "Empty"
    _, again = members.new_member()
    members.cluster.wait(2 * INITIAL_DELAY_MS)
    assert again.answer.generation_id == generation + 2


# ---- rebalances ------------------------------------------------------------------------------------------------


def test_generation_after_the_largest_int32_is_one(members: Members) -> None:
    members.stable(instances=("a",))
    members.coordinator.broker.groups.store.groups[members.group_id].generation_id = 2**31 - 1
    leader = members.described().members[0].member_id
    again = members.join(leader, instance_id="a")
    assert (again.error, again.answer.generation_id) == (NONE, 1)
    sync = members.sync(leader, 1, {leader: [P0]}, instance_id="a")
    members.cluster.wait(100)
    assert sync.error is NONE


def test_new_member_makes_all_members_rejoin(members: Members) -> None:
    (leader,), generation = members.stable()
    newcomer, join = members.new_member()
    assert members.state() == "PreparingRebalance"
    assert join.answer is None
    again = members.join(leader)
    assert again.answer.generation_id == join.answer.generation_id == generation + 1
    assert again.answer.leader == leader
    assert members.state() == "CompletingRebalance"
    assert [row.member_id for row in again.answer.members] == [leader, newcomer]


def test_leader_that_does_not_rejoin_in_time_is_replaced(members: Members) -> None:
    (leader, follower), generation = members.stable(2)
    join = members.join(follower, protocols={"range": encode_subscription(["orders", "more"])})
    assert members.state() == "PreparingRebalance"
    for _ in range(REBALANCE_MS // 5_000 - 1):
        members.cluster.wait(5_000)
        assert members.heartbeat(leader, generation) is ErrorCode.rebalance_in_progress
        assert join.answer is None
    members.cluster.wait(5_000)
    assert join.error is NONE and join.answer.leader == follower
    assert [row.member_id for row in join.answer.members] == [follower]


def test_only_a_rejoin_of_the_group_leader_starts_a_rebalance(members: Members) -> None:
    (leader, follower), generation = members.stable(2)
    same = members.join(follower)
    assert same.answer.generation_id == generation and members.state() == "Stable"
    again = members.join(leader)
    assert again.answer is None and members.state() == "PreparingRebalance"
    members.join(follower)
    assert again.answer.generation_id == generation + 1


def test_repeated_join_gets_the_same_response(members: Members) -> None:
    member_id, join = members.new_member()
    members.cluster.wait(2 * INITIAL_DELAY_MS)
    again = members.join(member_id)
    assert again.answer == join.answer
    assert members.state() == "CompletingRebalance"


def test_new_rebalance_ends_the_wait_for_an_assignment(members: Members) -> None:
    first_id, second_id = (members.new_member()[0] for _ in range(2))
    members.cluster.wait(3 * INITIAL_DELAY_MS)
    waiting = members.sync(second_id, 1)
    members.new_member()
    assert waiting.error is ErrorCode.rebalance_in_progress
    assert members.sync(first_id, 1, {}).error is ErrorCode.rebalance_in_progress


# ---- leaving ---------------------------------------------------------------------------------------------------


def test_leave_group_request_starts_a_rebalance_immediately(members: Members) -> None:
    (leader, follower), generation = members.stable(2)
    answer = members.leave((follower, None), ("nobody", None))
    assert [row.error_code for row in answer.members] == [NONE, ErrorCode.unknown_member_id]
    assert members.heartbeat(leader, generation) is ErrorCode.rebalance_in_progress
    assert members.join(leader).answer.generation_id == generation + 1


def test_member_removed_while_it_syncs_gets_unknown_member_id(members: Members) -> None:
    leader, follower = (members.new_member()[0] for _ in range(2))
    members.cluster.wait(3 * INITIAL_DELAY_MS)
    waiting = members.sync(follower, 1)
    assert waiting.answer is None
    assert [row.error_code for row in members.leave((follower, None)).members] == [NONE]
    assert waiting.error is ErrorCode.unknown_member_id
    assert members.join(leader).answer.generation_id == 2


def test_leave_group_before_version_3_returns_a_top_level_error(members: Members) -> None:
    (leader,), _ = members.stable()
    assert members.ask(ApiKey.LEAVE_GROUP, 2, member_id="nobody").error is ErrorCode.unknown_member_id
    assert members.ask(ApiKey.LEAVE_GROUP, 2, member_id=leader).error is NONE
    assert members.state() == "Empty"


# ---- static members --------------------------------------------------------------------------------------------


def test_restarted_static_member_keeps_its_assignment(members: Members) -> None:
    (leader, follower), generation = members.stable(instances=("a", "b"))
    instance = next(row.group_instance_id for row in members.described().members if row.member_id == follower)
    back = members.join(instance_id=instance)
    members.cluster.wait(100)
    assert back.error is NONE and back.answer.generation_id == generation
    assert back.answer.member_id != follower and members.state() == "Stable"
    assert members.heartbeat(follower, generation, instance) is ErrorCode.fenced_instance_id
    sync = members.sync(back.answer.member_id, generation, instance_id=instance)
    assert decode_assignment(sync.answer.assignment) == (TopicPartition("orders", 1),)
    assert members.heartbeat(leader, generation) is NONE


def test_join_v9_of_restarted_static_leader_sets_skip_assignment(
    members: Members,
) -> None:
    (leader,), generation = members.stable(instances=("a",))
    back = members.join(instance_id="a", version=8)
    assert back.answer.generation_id == generation
    assert back.answer.leader == leader != back.answer.member_id and not back.answer.members
    newer = members.join(instance_id="a", version=9)
    assert newer.answer.leader == newer.answer.member_id
    assert newer.answer.skip_assignment and len(newer.answer.members) == 1


def test_static_rejoin_before_sync_group_causes_no_rebalance(members: Members) -> None:
    joins = {instance: members.join(instance_id=instance, rebalance_ms=10_000) for instance in ("a", "b")}
    members.cluster.wait(3 * INITIAL_DELAY_MS)
    generation = joins["a"].answer.generation_id
    leader, other = ("a", "b") if joins["a"].answer.members else ("b", "a")
    leader_id = joins[leader].answer.member_id
    members.sync(leader_id, generation, {}, instance_id=leader)
    members.cluster.wait(100)
    back = members.join(instance_id=other, rebalance_ms=10_000).answer.member_id
    assert members.sync(back, generation, instance_id=other).error is NONE
    for _ in range(4):
        members.cluster.wait(SESSION_MS // 2)
        for instance, member_id in ((leader, leader_id), (other, back)):
            assert members.heartbeat(member_id, generation, instance) is NONE


def test_static_member_stays_until_its_session_expires(members: Members) -> None:
    (leader, follower), generation = members.stable(instances=("a", "b"))
    rows = {row.member_id: row.group_instance_id for row in members.described().members}
    # A rejoin of the group leader triggers a rebalance even if its metadata is unchanged.
    again = members.join(leader, instance_id=rows[leader])
    for _ in range(REBALANCE_MS // 5_000 + 1):
        members.heartbeat(follower, generation, rows[follower])
        members.cluster.wait(5_000)
    assert again.answer.generation_id == generation + 1
    assert len(again.answer.members) == 2


def test_admin_removes_a_static_member_by_instance_id(members: Members) -> None:
    members.stable(instances=("a",))
    answer = members.leave(("", "a"), ("", "b"))
    assert [row.error_code for row in answer.members] == [NONE, ErrorCode.unknown_member_id]
    assert members.state() == "Empty"


def test_static_member_needs_matching_instance_and_member_ids(members: Members) -> None:
    (member,), generation = members.stable(instances=("a",))
    assert members.heartbeat(member, generation, "b") is ErrorCode.unknown_member_id
    assert members.heartbeat("other", generation, "a") is ErrorCode.fenced_instance_id
    assert members.join("other", instance_id="a").error is ErrorCode.fenced_instance_id


# ---- administration --------------------------------------------------------------------------------------------


def test_groups_are_listed_and_filtered_by_state_and_type(members: Members) -> None:
    members.stable()

    def listed(**filters: object) -> list[tuple[str, str, str, str]]:
        answer = members.ask(ApiKey.LIST_GROUPS, 5, **filters).answer
        rows = [row for row in answer.groups if row.group_id == members.group_id]
        return [(row.group_id, row.protocol_type, row.group_state, row.group_type) for row in rows]

    row = (members.group_id, "consumer", "Stable", "classic")
    assert listed() == listed(states_filter=["STABLE", "empty"]) == listed(types_filter=["Classic"]) == [row]
    assert listed(states_filter=["empty"]) == listed(types_filter=["consumer"]) == []


def test_unknown_group_is_described_as_dead(members: Members) -> None:
    described = members.described()
    assert (described.error_code, described.group_state) == (NONE, "Dead")


def test_only_empty_groups_can_be_deleted(members: Members) -> None:
    def delete() -> ErrorCode:
        answer = members.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[members.group_id]).answer
        return ErrorCode(answer.results[0].error_code)

    assert delete() is ErrorCode.group_id_not_found
    (member,), _ = members.stable()
    assert delete() is ErrorCode.non_empty_group
    members.leave((member, None))
    assert delete() is NONE
    assert delete() is ErrorCode.group_id_not_found
    assert members.state() == "Dead"


def test_journal_contains_every_state_change_of_a_group(members: Members) -> None:
    (member,), _ = members.stable()
    members.leave((member, None))
    members.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[members.group_id])
    changes = [event for event in members.coordinator.of(GroupChanged) if event.group_id == members.group_id]
    assert [(event.state, event.generation_id, event.members) for event in changes] == [
        ("PreparingRebalance", 0, [member]),
        ("CompletingRebalance", 1, [member]),
        ("Stable", 1, [member]),
        ("PreparingRebalance", 1, []),
        ("Empty", 2, []),
        ("Dead", 2, []),
    ]
