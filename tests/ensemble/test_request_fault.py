"""Request faults: how a rule matches, how often it is injected, and which combinations are invalid for ZooKeeper."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from zabka.ensemble.auth.schemes import principal
from zabka.ensemble.records import CreateRequest, DeleteRequest, MultiOp, MultiRequest, OpCode, Request
from zabka.ensemble.request_fault import HeldRequestFault, RequestFault, describe, matches_text
from zabka.ensemble.request_fault_uses import ActiveFaults, FaultUses, SharedCounts
from zabka.ensemble.zookeeper_faults import ZooKeeperSubject, matches, subject_of, why_impossible


def held(**fields: Any) -> HeldRequestFault:
    return HeldRequestFault(**{"id": "f1", "kind": "request", "api": "Produce", "effect": "close", **fields})


def rule(text: str) -> RequestFault:
    return msgspec.json.decode(text, type=RequestFault)


def taken(uses: FaultUses, requests: int, now_ms: int = 0) -> list[int]:
    """Return the numbers, starting at 1, of the requests into which the fault is injected."""
    draw = random.Random(1).random
    return [n for n in range(1, requests + 1) if not uses.is_over(now_ms) and uses.take(draw)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"times": 1}, [1]),
        ({"times": 3}, [1, 2, 3]),
        ({"nth": 3}, [3]),
        ({"every": 2}, [2, 4, 6]),
        ({"every": 2, "times": 2}, [2, 4]),
    ],
)
def test_rule_selects_requests_by_nth_every_and_times(fields: dict[str, int], expected: list[int]) -> None:
    assert taken(FaultUses(held(**fields), 0, SharedCounts().count), 6) == expected


def test_rule_with_a_probability_decides_for_each_request() -> None:
    numbers = taken(FaultUses(held(probability=0.5), 0, SharedCounts().count), 1_000)
    assert 400 < len(numbers) < 600
    assert numbers == taken(FaultUses(held(probability=0.5), 0, SharedCounts().count), 1_000)


def test_rule_ends_after_its_duration() -> None:
    uses = FaultUses(held(for_ms=100), 50, SharedCounts().count)
    assert [uses.is_over(now_ms) for now_ms in (50, 149, 150)] == [False, False, True]


def test_only_the_oldest_due_rule_applies() -> None:
    active = ActiveFaults(SharedCounts().count)
    active.replace([held(id="a", times=1), held(id="b", nth=2)], 0)
    found = [active.due(lambda _: True, 0, lambda: 0.0) for _ in range(4)]
    assert [None if uses is None else uses.rule.id for uses in found] == ["a", None, "b", None]
    assert active.counts() == {"a": [1, 1], "b": [2, 1]}


@pytest.mark.parametrize(
    ("fields", "expected"), [({"times": 2}, [1, 2]), ({"nth": 3}, [3]), ({"every": 2, "times": 2}, [2, 4])]
)
def test_nodes_share_the_injection_count_of_a_rule(fields: dict[str, int], expected: list[int]) -> None:
    shared = SharedCounts()
    nodes = [FaultUses(held(**fields), 0, shared.count) for _ in range(3)]
    found = []
    for number in range(1, 10):
        uses = nodes[number % 3]
        if not uses.is_over(0) and uses.take(lambda: 0.0):
            found.append(number)
    assert found == expected


def test_fault_rules_kept_in_an_update_keep_their_counts() -> None:
    active = ActiveFaults(SharedCounts().count)
    assert [each.id for each in active.replace([held(id="a")], 0)] == ["a"]
    active.due(lambda _: True, 0, lambda: 0.0)
    assert [each.id for each in active.replace([held(id="a"), held(id="b")], 0)] == ["b"]
    assert active.counts() == {"a": [1, 1], "b": [0, 0]}
    active.replace([], 0)
    assert not active


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"kind":"request","effect":"close"}', "needs either api"),
        ('{"kind":"request","effect":"close","api":"Produce","opcode":"create"}', "needs either api"),
        ('{"kind":"request","effect":"close","api":"Produce","node":"peer-1"}', "served by brokers"),
        ('{"kind":"request","effect":"close","opcode":"create","node":"broker-1"}', "served by peers"),
        ('{"kind":"request","effect":"close","api":"Produce","path":"/a"}', "path selects ZooKeeper"),
        ('{"kind":"request","effect":"close","opcode":"create","topic":"a"}', "topic selects Kafka"),
        ('{"kind":"request","effect":"close","opcode":"create","max_version":2}', "max_version selects Kafka"),
        ('{"kind":"request","effect":"close","api":"Produce","partition":0}', "partition needs topic"),
        ('{"kind":"request","effect":"close","api":"Produce","min_version":3,"max_version":2}', "min_version 3"),
        ('{"kind":"request","effect":"error","api":"Produce"}', "error needs error"),
        ('{"kind":"request","effect":"delay_before","api":"Produce"}', "needs delay_ms"),
        ('{"kind":"request","effect":"close","api":"Produce","delay_ms":5}', "takes no delay_ms"),
        ('{"kind":"request","effect":"close","api":"Produce","keep_open":true}', "keep_open is for drop_response"),
        ('{"kind":"request","effect":"close","api":"Produce","nth":3,"every":2}', "exclude each other"),
        ('{"kind":"request","effect":"close","api":"Produce","nth":3,"times":2}', "takes no times"),
        ('{"kind":"request","effect":"close","api":"Produce","probability":0}', "never happens"),
        ('{"kind":"request","effect":"vanish","api":"Produce"}', "Invalid enum value"),
        ('{"kind":"request","effect":"close","api":"Produce","topics":"a"}', "unknown field"),
    ],
)
def test_contradictory_rule_is_rejected_with_the_reason(body: str, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        rule(body)


def test_request_fault_survives_a_json_round_trip() -> None:
    body = (
        '{"kind":"request","effect":"error","api":"Produce","client_id":"shop-*","topic":"orders",'
        '"error":"NOT_LEADER_OR_FOLLOWER","times":1}'
    )
    read = rule(body)
    assert msgspec.json.encode(read).decode() == body
    assert describe(read) == "Produce client_id=shop-* topic=orders: error NOT_LEADER_OR_FOLLOWER, once"


def test_rule_applies_only_to_nodes_that_handle_its_requests() -> None:
    everywhere = held()
    assert everywhere.is_for("broker-2") and not everywhere.is_for("peer-2")
    assert held(node="broker-1").is_for("broker-1") and not held(node="broker-1").is_for("broker-2")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", None, True),
        ("a*", "abc", True),
        ("a*", "b", False),
        ("a.c", "abc", False),
        ("*", "", True),
        ("a", None, False),
    ],
)
def test_star_in_a_pattern_matches_any_characters(pattern: str, text: str | None, expected: bool) -> None:
    assert matches_text(pattern, text) is expected


# ---- ZooKeeper ---------------------------------------------------------------------------------------------------


def for_zookeeper(**fields: Any) -> RequestFault:
    return RequestFault(**{"kind": "request", "effect": "close", **fields})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"opcode": "creat"}, "no operation 'creat'"),
        ({"opcode": "ping", "path": "/a"}, "ping has no path"),
        ({"opcode": "create", "effect": "throttle", "throttle_ms": 5}, "no throttle time"),
        ({"opcode": "create", "effect": "corrupt"}, "no record batches"),
        ({"opcode": "create", "effect": "stale"}, "no earlier state"),
        ({"opcode": "create", "effect": "drop_request"}, "answers in order"),
        ({"opcode": "create", "effect": "drop_response", "keep_open": True}, "answers in order"),
        ({"opcode": "create", "effect": "error", "error": "NODE_GONE"}, "no error 'NODE_GONE'"),
        ({"opcode": "create", "effect": "error", "error": "CONNECTION_LOSS"}, "made by the client"),
        ({"opcode": "create", "effect": "error", "error": "BAD_VERSION"}, "create cannot return BAD_VERSION"),
        ({"opcode": "*", "effect": "error", "error": "NO_NODE"}, "not every operation can return NO_NODE"),
        ({"opcode": "ping", "effect": "error", "error": "SESSION_MOVED"}, "ignores errors"),
    ],
)
def test_unsupported_zookeeper_rule_is_rejected(fields: dict[str, Any], reason: str) -> None:
    assert reason in (why_impossible(for_zookeeper(**fields)) or "")


def test_supported_zookeeper_rules_are_accepted() -> None:
    assert why_impossible(for_zookeeper(opcode="create", effect="error", error="NODE_EXISTS")) is None
    assert why_impossible(for_zookeeper(opcode="*", effect="error", error="SESSION_MOVED")) is None
    assert why_impossible(for_zookeeper(opcode="setData", path="/a/*", effect="delay_after", delay_ms=5)) is None


def test_zookeeper_rule_selects_by_operation_and_path() -> None:
    create = Request(1, OpCode.CREATE2, CreateRequest("/app/lock-", b"", [], 3))
    both = MultiRequest(
        [MultiOp(OpCode.DELETE, DeleteRequest("/b", -1)), MultiOp(OpCode.DELETE, DeleteRequest("/c", -1))]
    )
    multi = Request(2, OpCode.MULTI, both)
    assert matches(for_zookeeper(opcode="create", path="/app/*"), subject_of(create))
    assert not matches(for_zookeeper(opcode="create", path="/other/*"), subject_of(create))
    assert not matches(for_zookeeper(opcode="createTtl"), subject_of(create))
    assert matches(for_zookeeper(opcode="multi", path="/c"), subject_of(multi))
    assert matches(for_zookeeper(opcode="*"), subject_of(multi))
    assert not matches(for_zookeeper(opcode="*"), subject_of(Request(-2, OpCode.PING, None)))


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [("sasl:alice", True), ("digest:bob", True), ("digest:*", True), ("sasl:bob", False), ("bob", False)],
)
def test_rule_selects_zookeeper_clients_by_their_principals(pattern: str, matched: bool) -> None:
    made = RequestFault(kind="request", opcode="create", effect="close", principal=pattern)
    identities = [("ip", "127.0.0.1"), ("sasl", "alice"), ("digest", "bob:hash")]
    assert matches(made, ZooKeeperSubject(OpCode.CREATE, ("/a",)), map(principal, identities)) is matched
    assert not matches(made, ZooKeeperSubject(OpCode.CREATE, ("/a",)))
