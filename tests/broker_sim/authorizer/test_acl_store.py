"""The znodes of ACLs. The expected contents are those of Apache Kafka 3.9.1 (ZkData, AclEntry)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker_sim.authorizer.secured_cluster import acl, allow, secured_cluster, send
from tests.broker_sim.broker_world import Cluster, Node
from zabka.broker_sim.authorizer.acl_store import CHANGE_KEPT_MS, DENY_ALL
from zabka.ensemble.errors import ErrorCode
from zabka.kafka.acls import AclBinding, AclEntry, AclOperation, PatternType, Permission, ResourcePattern, ResourceType
from zabka.kafka.wire.kafka_schema import ApiKey
from zabka.kafka.zk import znodes

READ, WRITE = AclOperation.READ, AclOperation.WRITE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
PREFIXED = PatternType.PREFIXED
ORDERS = ResourcePattern(TOPIC, "orders", PatternType.LITERAL)
TEAM = ResourcePattern(GROUP, "team-", PREFIXED)
ENTRY = AclEntry("User:alice", "*", READ, Permission.ALLOW)
KAFKAS = b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = secured_cluster(brokers=2)
    yield made
    made.stop_all()


def data(cluster: Cluster, path: str) -> bytes:
    return cluster.ensemble.nodes[path].data or b""


def known(node: Node, pattern: ResourcePattern) -> tuple[AclEntry, ...]:
    authorizer = node.broker.authorizer
    assert authorizer is not None
    return authorizer.index.entries(pattern)


def write(cluster: Cluster, path: str, content: bytes) -> None:
    """Write a znode and a change notification in the format of an Apache broker."""
    session = cluster.nodes[1].session

    async def work() -> None:
        if path in cluster.ensemble.nodes:
            await session.set(path, content)
        else:
            await session.create(path, content)

    cluster.on(cluster.nodes[1], work())


def notify(cluster: Cluster, path: str, content: bytes) -> None:
    node = cluster.nodes[1]

    async def work() -> None:
        await node.session.create(f"{path}/acl_changes_", content, sequential=True)

    cluster.on(node, work())
    cluster.wait(50)


def test_broker_creates_the_acl_paths_of_kafka(cluster: Cluster) -> None:
    types = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
    expected = {f"{root}/{each}" for root in ("/kafka-acl", "/kafka-acl-extended/prefixed") for each in types}
    expected |= {"/kafka-acl-changes", "/kafka-acl-extended-changes"}
    assert expected <= cluster.ensemble.nodes.keys()


def test_literal_acl_is_stored_with_kafkas_notification(cluster: Cluster) -> None:
    allow(cluster, acl("alice", READ, TOPIC, "orders"))
    assert data(cluster, "/kafka-acl/Topic/orders") == KAFKAS
    assert data(cluster, "/kafka-acl-changes/acl_changes_0000000000") == b"TOPIC:orders"
    assert [known(node, ORDERS) for node in cluster.nodes.values()] == [(ENTRY,), (ENTRY,)]


def test_prefixed_acl_is_stored_with_kafkas_notification(cluster: Cluster) -> None:
    allow(cluster, acl("alice", READ, GROUP, "team-", PREFIXED))
    assert data(cluster, "/kafka-acl-extended/prefixed/Group/team-") == KAFKAS
    notice = json.loads(data(cluster, "/kafka-acl-extended-changes/acl_changes_0000000000"))
    assert notice == {"version": 1, "resourceType": "GROUP", "name": "team-", "patternType": "PREFIXED"}
    assert [known(node, TEAM) for node in cluster.nodes.values()] == [(ENTRY,), (ENTRY,)]


def test_brokers_read_the_acls_that_another_broker_wrote(cluster: Cluster) -> None:
    write(cluster, "/kafka-acl/Topic/orders", KAFKAS)
    cluster.wait(50)
    assert known(cluster.nodes[2], ORDERS) == ()
    notify(cluster, "/kafka-acl-changes", b"TOPIC:orders")
    assert known(cluster.nodes[2], ORDERS) == (ENTRY,)
    write(cluster, "/kafka-acl/TransactionalId/t", KAFKAS)
    notify(cluster, "/kafka-acl-changes", b"TRANSACTIONAL_ID:t")
    transactional = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t", PatternType.LITERAL)
    assert known(cluster.nodes[2], transactional) == (ENTRY,)


def test_starting_broker_reads_all_stored_acls(cluster: Cluster) -> None:
    allow(cluster, acl("alice", READ, TOPIC, "orders"), acl("alice", READ, GROUP, "team-", PREFIXED))
    cluster.nodes[2].kill()
    cluster.expire(cluster.nodes[2])
    cluster.start(2)
    assert (known(cluster.nodes[2], ORDERS), known(cluster.nodes[2], TEAM)) == ((ENTRY,), (ENTRY,))


def delete(cluster: Cluster, **values: Any) -> Any:
    wanted = {"resource_type_filter": TOPIC, "pattern_type_filter": 3, "operation": 1, "permission_type": 1, **values}
    return send(cluster, "admin", ApiKey.DELETE_ACLS, node=cluster.nodes[1], filters=[wanted])


def test_new_session_reads_changes_that_were_missed(cluster: Cluster) -> None:
    allow(cluster, acl("alice", READ, TOPIC, "orders"))
    node = cluster.nodes[2]
    cluster.expire(node)
    delete(cluster, resource_name_filter="orders")
    cluster.wait(3_000)
    assert known(node, ORDERS) == ()


def test_last_deleted_entry_removes_the_znode(cluster: Cluster) -> None:
    allow(cluster, acl("alice", READ, TOPIC, "orders"), acl("bob", READ, TOPIC, "orders"))
    for user in ("alice", "bob"):
        assert "/kafka-acl/Topic/orders" in cluster.ensemble.nodes
        delete(cluster, resource_name_filter="orders", principal_filter=f"User:{user}")
        cluster.wait(50)
    assert "/kafka-acl/Topic/orders" not in cluster.ensemble.nodes
    assert known(cluster.nodes[2], ORDERS) == ()


def test_equal_entries_cause_no_second_notification(cluster: Cluster) -> None:
    for _ in range(2):
        allow(cluster, acl("alice", READ, TOPIC, "orders"))
    assert len(cluster.ensemble.nodes["/kafka-acl-changes"].children) == 1
    assert cluster.ensemble.nodes["/kafka-acl/Topic/orders"].version == 0


def test_concurrent_updates_of_one_pattern_are_all_stored(cluster: Cluster) -> None:
    async def create(node: Node, user: str) -> None:
        authorizer = node.broker.authorizer
        assert authorizer is not None
        entry = ENTRY._replace(principal=f"User:{user}")
        assert await authorizer.create([AclBinding(ORDERS, entry)]) == [None]

    for number in range(6):
        node = cluster.nodes[1 + number % 2]
        node.runtime.spawn(create(node, f"u{number}"), "create")
    cluster.wait(5_000)
    stored = znodes.decode_acls(data(cluster, "/kafka-acl/Topic/orders")) or ()
    assert {entry.principal for entry in stored} == {f"User:u{number}" for number in range(6)}
    assert [set(known(node, ORDERS)) for node in cluster.nodes.values()] == [set(stored), set(stored)]


def test_update_gives_up_after_ten_conflicts(cluster: Cluster) -> None:
    cluster.ensemble.unwritable["/kafka-acl/Topic/orders"] = ErrorCode.BAD_VERSION
    answer = send(cluster, "admin", ApiKey.CREATE_ACLS, creations=[acl("alice", READ, TOPIC, "orders")])
    assert answer.results[0].error_code == -1
    assert answer.results[0].error_message == "Failed to update ACLs for orders after trying a maximum of 10 times"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version":2,"acls":[]}', b'{"version":1,"acls":[{"host":"*"}]}'])
def test_damaged_znode_keeps_the_known_entries(cluster: Cluster, content: bytes) -> None:
    allow(cluster, acl("alice", READ, TOPIC, "orders"))
    write(cluster, "/kafka-acl/Topic/orders", content)
    notify(cluster, "/kafka-acl-changes", b"TOPIC:orders")
    assert known(cluster.nodes[2], ORDERS) == (ENTRY,)
    assert any("cannot decode the ACLs in /kafka-acl/Topic/orders" in line for line in cluster.nodes[2].logged)


def test_starting_broker_denies_a_resource_with_a_damaged_znode(cluster: Cluster) -> None:
    allow(cluster, acl("alice", READ, TOPIC, "orders"))
    cluster.nodes[2].kill()
    cluster.expire(cluster.nodes[2])
    write(cluster, "/kafka-acl/Topic/orders", b"{")
    cluster.start(2)
    assert known(cluster.nodes[2], ORDERS) == (DENY_ALL,)
    assert any("all access to this resource is denied" in line for line in cluster.nodes[2].logged)
    write(cluster, "/kafka-acl/Topic/orders", b'{"version":1,"acls":[]}')
    notify(cluster, "/kafka-acl-changes", b"TOPIC:orders")
    assert known(cluster.nodes[2], ORDERS) == ()


def test_notifications_are_removed_after_fifteen_minutes(cluster: Cluster) -> None:
    changes = []
    for name, wait_ms in (("a", 50), ("b", CHANGE_KEPT_MS), ("c", 100)):
        allow(cluster, acl("alice", READ, TOPIC, name))
        changes.append(len(cluster.ensemble.nodes["/kafka-acl-changes"].children))
        for change in cluster.ensemble.nodes["/kafka-acl-changes"].children:
            znode = cluster.ensemble.nodes[f"/kafka-acl-changes/{change}"]
            znode.ctime_ms = znode.ctime_ms or cluster.nodes[1].runtime.now().wall_ms
        cluster.wait(wait_ms)
    assert changes == [1, 2, 1]


@pytest.mark.parametrize(
    ("content", "is_extended", "expected"),
    [
        (b"TOPIC:a:b", False, ResourcePattern(TOPIC, "a:b", PatternType.LITERAL)),
        (b"Topic:a", False, ResourcePattern(TOPIC, "a", PatternType.LITERAL)),
        (b"NONSENSE:a", False, None),
        (b"TOPIC", False, None),
        (b"TOPIC:", False, None),
        (b"\xff\xfe", False, None),
        (b'{"version":1,"resourceType":"GROUP","name":"g","patternType":"PREFIXED"}', True,
         ResourcePattern(GROUP, "g", PREFIXED)),
        (b'{"version":2,"resourceType":"GROUP","name":"g","patternType":"PREFIXED"}', True, None),
        (b'{"version":1,"resourceType":"GROUP","name":"g","patternType":"LITERAL"}', True, None),
        (b'{"version":1,"resourceType":"GROUP","name":7,"patternType":"PREFIXED"}', True, None),
        (b"[]", True, None),
        (None, True, None),
    ],
)  # fmt: skip
def test_notification_is_decoded_as_kafka_does(
    content: bytes | None, is_extended: bool, expected: ResourcePattern | None
) -> None:
    assert znodes.decode_acl_change(content, is_extended) == expected


def test_acls_with_names_in_upper_case_are_decoded() -> None:
    text = KAFKAS.replace(b"Allow", b"DENY").replace(b"Read", b"IDEMPOTENTWRITE")
    entry = ENTRY._replace(operation=AclOperation.IDEMPOTENT_WRITE, permission=Permission.DENY)
    assert znodes.decode_acls(text) == (entry,)
    assert znodes.decode_acls(znodes.encode_acls([entry])) == (entry,)
    assert znodes.decode_acls(b"") == ()
