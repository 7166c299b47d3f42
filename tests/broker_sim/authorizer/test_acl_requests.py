"""CreateAcls, DescribeAcls and DeleteAcls. The expected responses are Kafka's (AclApis, AclAuthorizer)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.authorizer.secured_cluster import ADMIN, acl, allow, secured_cluster, send
from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.request_context import RequestRefused
from zabka.kafka.acls import AclOperation, PatternType, Permission, ResourceType
from zabka.kafka.wire.kafka_schema import ApiKey, request

READ, WRITE, ANY = AclOperation.READ, AclOperation.WRITE, AclOperation.ANY
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
EVERYTHING: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": Permission.ANY,
}
STORED = (
    acl("alice", READ, TOPIC, "orders"),
    acl("alice", WRITE, TOPIC, "orders", host="10.0.0.7"),
    acl("bob", READ, TOPIC, "*"),
    acl("bob", READ, TOPIC, "ord", PREFIXED),
    acl("bob", READ, GROUP, "orders", permission=Permission.DENY),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = secured_cluster()
    allow(made, *STORED)
    yield made
    made.stop_all()


def described(cluster: Cluster, version: int = 3, user: str = ADMIN, **values: Any) -> Any:
    return send(cluster, user, ApiKey.DESCRIBE_ACLS, version, **{**EVERYTHING, **values})


def found(answer: Any) -> set[tuple[str, str, str]]:
    """Return the described bindings, in short form."""
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    return {
        (
            str(
                ResourceType(int(row.resource_type)).name[0] + PatternType(int(getattr(row, "pattern_type", 3))).name[0]
            ),
            str(row.resource_name),
            f"{entry.principal[5:]} {AclOperation(int(entry.operation)).name} {entry.host} "
            f"{Permission(int(entry.permission_type)).name}",
        )
        for row in answer.resources
        for entry in row.acls
    }


ALICE_READS, ALICE_WRITES = ("TL", "orders", "alice READ * ALLOW"), ("TL", "orders", "alice WRITE 10.0.0.7 ALLOW")
BOB_ALL, BOB_PREFIX = ("TL", "*", "bob READ * ALLOW"), ("TP", "ord", "bob READ * ALLOW")
BOB_GROUP = ("GL", "orders", "bob READ * DENY")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, {ALICE_READS, ALICE_WRITES, BOB_ALL, BOB_PREFIX, BOB_GROUP}),
        ({"resource_type_filter": TOPIC}, {ALICE_READS, ALICE_WRITES, BOB_ALL, BOB_PREFIX}),
        ({"resource_name_filter": "orders"}, {ALICE_READS, ALICE_WRITES, BOB_GROUP}),
        ({"resource_name_filter": "orders", "pattern_type_filter": MATCH},
         {ALICE_READS, ALICE_WRITES, BOB_ALL, BOB_PREFIX, BOB_GROUP}),
        ({"resource_name_filter": "order", "pattern_type_filter": MATCH}, {BOB_ALL, BOB_PREFIX}),
        ({"resource_name_filter": "*", "pattern_type_filter": MATCH}, {BOB_ALL}),
        ({"pattern_type_filter": PREFIXED}, {BOB_PREFIX}),
        ({"pattern_type_filter": LITERAL, "resource_name_filter": "ord"}, set()),
        ({"principal_filter": "User:alice"}, {ALICE_READS, ALICE_WRITES}),
        ({"host_filter": "10.0.0.7"}, {ALICE_WRITES}),
        ({"operation": WRITE}, {ALICE_WRITES}),
        ({"operation": AclOperation.ALL}, set()),
        ({"permission_type": Permission.DENY}, {BOB_GROUP}),
    ],
)  # fmt: skip
def test_describe_acls_returns_what_the_filter_selects(
    cluster: Cluster, wanted: dict[str, Any], expected: set[tuple[str, str, str]]
) -> None:
    assert found(described(cluster, **wanted)) == expected


def test_describe_acls_in_version_0_returns_literal_patterns(cluster: Cluster) -> None:
    assert found(described(cluster, 0)) == {ALICE_READS, ALICE_WRITES, BOB_ALL, BOB_GROUP}


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_acls_are_created_and_deleted_in_each_version(cluster: Cluster, version: int) -> None:
    row = acl("carol", READ, TOPIC, f"v{version}")
    created = send(cluster, ADMIN, ApiKey.CREATE_ACLS, version, creations=[row])
    assert [(each.error_code, each.error_message) for each in created.results] == [(ErrorCode.none, None)]
    wanted = {**EVERYTHING, "resource_type_filter": TOPIC, "resource_name_filter": f"v{version}"}
    deleted = send(cluster, ADMIN, ApiKey.DELETE_ACLS, version, filters=[wanted])
    [filtered] = deleted.filter_results
    assert [(each.error_code, each.principal, each.resource_name) for each in filtered.matching_acls] == [
        (ErrorCode.none, "User:carol", f"v{version}")
    ]
    assert found(described(cluster, resource_name_filter=f"v{version}")) == set()


def test_binding_of_two_filters_belongs_to_the_first(cluster: Cluster) -> None:
    allow(cluster, acl("dora", READ, TOPIC, "d1"), acl("dora", WRITE, TOPIC, "d1"), acl("dora", READ, GROUP, "d2"))
    reads = {**EVERYTHING, "principal_filter": "User:dora", "operation": READ}
    every = {**EVERYTHING, "principal_filter": "User:dora"}
    deleted = send(cluster, ADMIN, ApiKey.DELETE_ACLS, filters=[reads, every, every])
    rows = [[(str(r.resource_name), int(r.operation)) for r in each.matching_acls] for each in deleted.filter_results]
    assert [sorted(each) for each in rows] == [[("d1", READ), ("d2", READ)], [("d1", WRITE)], []]


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (acl("a", READ, CLUSTER, "other"), ErrorCode.invalid_request,
         "The only valid name for the CLUSTER resource is kafka-cluster"),
        (acl("a", READ, TOPIC, ""), ErrorCode.invalid_request, "Invalid empty resource name"),
        (acl("a", READ, TOPIC, "a/b"), ErrorCode.invalid_request, "Failed to create ACL"),
        ({**acl("", READ, TOPIC, "t"), "principal": "alice"}, ErrorCode.unknown_server_error, None),
        (acl("a", AclOperation.ANY, TOPIC, "t"), ErrorCode.unknown_server_error, None),
        (acl("a", READ, ResourceType.ANY, "t"), ErrorCode.unknown_server_error, None),
        (acl("a", READ, TOPIC, "t", MATCH), ErrorCode.unknown_server_error, None),
        (acl("a", READ, TOPIC, "t", permission=Permission.ANY), ErrorCode.unknown_server_error, None),
    ],
)  # fmt: skip
def test_invalid_binding_is_rejected_with_kafkas_error(
    cluster: Cluster, row: dict[str, Any], error: ErrorCode, message: str | None
) -> None:
    answer = send(cluster, ADMIN, ApiKey.CREATE_ACLS, creations=[row])
    assert [(each.error_code, each.error_message) for each in answer.results] == [(error, message)]


def test_invalid_binding_does_not_affect_the_others(cluster: Cluster) -> None:
    rows = [acl("eve", READ, TOPIC, ""), acl("eve", READ, TOPIC, "e")]
    answer = send(cluster, ADMIN, ApiKey.CREATE_ACLS, creations=rows)
    assert [each.error_code for each in answer.results] == [ErrorCode.invalid_request, ErrorCode.none]
    assert found(described(cluster, principal_filter="User:eve")) == {("TL", "e", "eve READ * ALLOW")}
    send(cluster, ADMIN, ApiKey.DELETE_ACLS, filters=[{**EVERYTHING, "principal_filter": "User:eve"}])


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (ApiKey.CREATE_ACLS, {"creations": [acl("a", AclOperation.UNKNOWN, TOPIC, "t")]}),
        (ApiKey.CREATE_ACLS, {"creations": [{**acl("a", READ, TOPIC, "t"), "operation": 99}]}),
        (ApiKey.DESCRIBE_ACLS, {**EVERYTHING, "permission_type": 0}),
        (ApiKey.DELETE_ACLS, {"filters": [EVERYTHING, {**EVERYTHING, "pattern_type_filter": 77}]}),
    ],
)
def test_request_with_unknown_code_closes_the_connection(cluster: Cluster, key: ApiKey, values: dict[str, Any]) -> None:
    handler = cluster.controller.broker
    with pytest.raises(AssertionError) as failure:
        cluster.on(cluster.controller, handler.handle(request(key, 3, **values)))
    assert isinstance(failure.value.__cause__, RequestRefused)


def test_acl_requests_need_permissions_on_the_cluster(cluster: Cluster) -> None:
    denied = ErrorCode.cluster_authorization_failed
    row = acl("mallory", READ, TOPIC, "orders")
    created = send(cluster, "mallory", ApiKey.CREATE_ACLS, creations=[row, row])
    assert [each.error_code for each in created.results] == [denied, denied]
    deleted = send(cluster, "mallory", ApiKey.DELETE_ACLS, filters=[EVERYTHING])
    assert [(each.error_code, len(each.matching_acls)) for each in deleted.filter_results] == [(denied, 0)]
    answer = described(cluster, user="mallory")
    assert (answer.error_code, len(answer.resources)) == (denied, 0)
    allow(cluster, acl("mallory", AclOperation.ALTER, CLUSTER, "kafka-cluster"))
    assert described(cluster, user="mallory").error_code is ErrorCode.none
    created = send(cluster, "mallory", ApiKey.CREATE_ACLS, creations=[row])
    assert [each.error_code for each in created.results] == [ErrorCode.none]
    send(cluster, ADMIN, ApiKey.DELETE_ACLS, filters=[{**EVERYTHING, "principal_filter": "User:mallory"}])


def test_keys_of_the_authorizer_are_described_as_kafka_does(cluster: Cluster) -> None:
    asked = [{"resource_type": 4, "resource_name": "1", "configuration_keys": ["super.users", "authorizer.class.name"]}]
    [broker] = send(cluster, ADMIN, ApiKey.DESCRIBE_CONFIGS, resources=asked).results
    rows = {str(row.name): (row.value, row.is_sensitive) for row in broker.configs}
    assert rows == {
        "authorizer.class.name": ("kafka.security.authorizer.AclAuthorizer", False),
        "super.users": (None, True),
    }
