"""Request fault rules for Kafka: which rules are valid, and which requests they match."""

from __future__ import annotations

from typing import Any

import pytest

from zabka.ensemble.request_fault import RequestFault
from zabka.kafka.request_faults.api_errors import ERRORS
from zabka.kafka.request_faults.rules import KAFKA_ERRORS, throttle_since, why_impossible
from zabka.kafka.request_faults.subjects import may_match, selects, subject_of
from zabka.kafka.wire.kafka_schema import ApiKey, request


def rule(**fields: Any) -> RequestFault:
    return RequestFault(**{"kind": "request", "effect": "close", "api": "Produce", **fields})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"api": "Prodcue"}, "brokers serve no 'Prodcue'"),
        ({"min_version": 12}, "brokers serve Produce versions 0 to 11"),
        ({"group": "g"}, "Produce requests have no group"),
        ({"api": "Heartbeat", "topic": "t"}, "Heartbeat requests have no topic"),
        ({"api": "CreateTopics", "topic": "t", "partition": 0}, "CreateTopics requests have no partition"),
        ({"api": "Fetch", "transactional_id": "t"}, "Fetch requests have no transactional_id"),
        ({"effect": "error", "error": "NOT_LEADER"}, "did you mean NOT_LEADER_OR_FOLLOWER"),
        ({"effect": "error", "error": "NOT_COORDINATOR"}, "Produce cannot return NOT_COORDINATOR"),
        ({"effect": "error", "error": "INVALID_RECORD", "max_version": 7}, "INVALID_RECORD from version 8 on"),
        ({"api": "DescribeAcls", "effect": "error", "error": "UNKNOWN_SERVER_ERROR"}, "no list of the errors"),
        ({"api": "Heartbeat", "effect": "corrupt"}, "Heartbeat carries no record batches"),
        ({"api": "Fetch", "effect": "stale"}, "not for Fetch"),
        ({"effect": "throttle", "throttle_ms": 9, "max_version": 0}, "throttle time from version 1 on"),
        ({"api": "SaslHandshake", "effect": "throttle", "throttle_ms": 9}, "have no throttle time"),
        ({"api": "*", "effect": "error", "error": "UNKNOWN_SERVER_ERROR"}, "it needs one API"),
        ({"api": "*", "topic": "t"}, "not every API has a topic"),
    ],
)
def test_unsupported_kafka_rule_is_rejected(fields: dict[str, Any], reason: str) -> None:
    assert reason in (why_impossible(rule(**fields)) or "")


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "orders", "partition": 3, "effect": "error", "error": "NOT_LEADER_OR_FOLLOWER"},
        {"api": "FindCoordinator", "group": "g", "effect": "error", "error": "COORDINATOR_NOT_AVAILABLE"},
        {"api": "Metadata", "effect": "stale"},
        {"api": "*", "effect": "delay_before", "delay_ms": 5},
        {"api": "Fetch", "effect": "corrupt", "topic": "o*"},
        {"effect": "throttle", "throttle_ms": 9},
    ],
)
def test_supported_kafka_rule_is_accepted(fields: dict[str, Any]) -> None:
    assert why_impossible(rule(**fields)) is None


def test_every_error_that_a_rule_can_return_is_a_kafka_error() -> None:
    assert {name for names in ERRORS.values() for name in names} <= KAFKA_ERRORS.keys()


def test_throttle_time_exists_from_the_same_versions_as_in_kafka() -> None:
    # Produce and Fetch have a throttle time since KIP-124, Metadata since version 3 (see KIP-219).
    assert [throttle_since(api) for api in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA)] == [1, 1, 3]


def test_rule_skips_request_versions_that_lack_its_error_code() -> None:
    fenced = rule(api="Heartbeat", effect="error", error="FENCED_INSTANCE_ID")
    assert [may_match(fenced, ApiKey.HEARTBEAT, version, "c", "") for version in (2, 3)] == [False, True]


@pytest.mark.parametrize("client_id", ["broker-1", "api-admin"])
def test_rule_selects_inter_broker_requests_only_by_client_id(client_id: str) -> None:
    assert not may_match(rule(api="Fetch"), ApiKey.FETCH, 12, client_id, "")
    assert may_match(rule(api="Fetch", client_id=client_id), ApiKey.FETCH, 12, client_id, "")


def test_rule_selects_by_client_listener_and_version() -> None:
    narrow = rule(client_id="shop-*", listener="CLIENT", min_version=3, max_version=5)
    assert may_match(narrow, ApiKey.PRODUCE, 4, "shop-1", "CLIENT")
    assert not may_match(narrow, ApiKey.PRODUCE, 4, "shop-1", "OTHER")
    assert not may_match(narrow, ApiKey.PRODUCE, 4, "cart", "CLIENT")
    assert not may_match(narrow, ApiKey.PRODUCE, 6, "shop-1", "CLIENT")
    assert not may_match(narrow, ApiKey.FETCH, 4, "shop-1", "CLIENT")


@pytest.mark.parametrize(
    ("pattern", "matched"), [("User:alice", True), ("User:*", True), ("User:bob", False), ("alice", False)]
)
def test_rule_selects_kafka_clients_by_their_principal(pattern: str, matched: bool) -> None:
    narrow = rule(principal=pattern)
    assert may_match(narrow, ApiKey.PRODUCE, 4, "shop-1", "CLIENT", "User:alice") is matched


def is_selected(message: Any, **fields: Any) -> bool:
    return selects(rule(**fields), subject_of(message, ApiKey(message.__api_key__), lambda _: None))


def test_rule_selects_by_topic_and_partition() -> None:
    message = request(ApiKey.LIST_OFFSETS, 7, topics=[{"name": "orders", "partitions": [{"partition_index": 2}]}])
    assert is_selected(message, topic="ord*", partition=2)
    assert not is_selected(message, topic="ord*", partition=1)
    assert not is_selected(message, topic="payments")


def test_topic_rule_selects_metadata_requests_for_all_topics() -> None:
    assert is_selected(request(ApiKey.METADATA, 9, topics=None), topic="orders")
    assert not is_selected(request(ApiKey.METADATA, 9, topics=[{"name": "payments"}]), topic="orders")


def test_rule_selects_find_coordinator_requests_by_key_type() -> None:
    group = request(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    transaction = request(ApiKey.FIND_COORDINATOR, 3, key_type=1, key="g")
    assert is_selected(group, group="g") and not is_selected(group, transactional_id="g")
    assert is_selected(transaction, transactional_id="g") and not is_selected(transaction, group="g")


@pytest.mark.parametrize(
    ("api", "version", "values"),
    [
        (ApiKey.OFFSET_COMMIT, 8, {"group_id": "g"}),
        (ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": []}]}),
        (ApiKey.OFFSET_FETCH, 5, {"group_id": "g", "topics": []}),
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"]}),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]}),
    ],
)
def test_rule_selects_requests_by_consumer_group(api: ApiKey, version: int, values: dict[str, Any]) -> None:
    message = request(api, version, **values)
    assert is_selected(message, group="g") and not is_selected(message, group="h")
