"""`zabka acls`, and confluent-kafka's AdminClient, on a real broker with an authorizer.

Without ACLs, everything is allowed, so that anonymous clients are denied only what the tests deny.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from bench.free_ports import free_ports
from tests.cli.test_kafka_tools import called
from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_CLASS
from zabka.cli import acls

TOPIC = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"
WITHIN_S = 20.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    settings: dict[str, Any] = {"authorizer_class_name": AUTHORIZER_CLASS, "allow_everyone_if_no_acl_found": "true"}
    with broker_cluster(tmp_path_factory.mktemp("acls"), free_ports(1), **settings) as made:
        yield made


def tool(cluster: BrokerCluster, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    return called(acls.main, "--bootstrap-server", cluster.bootstrap, *arguments, stdin=stdin)


def test_added_acls_are_listed_and_removed_as_by_kafka_acls(cluster: BrokerCluster) -> None:
    row = "\t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)"
    denied = "\t(principal=User:bob, host=10.0.0.1, operation=READ, permissionType=DENY)"
    who = ("--allow-principal", "User:alice", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1")
    added = tool(cluster, "--add", *who, "--operation", "Read", "--topic", "orders")
    assert added == (0, f"Adding ACLs for resource `{TOPIC}`: \n {row}\n{denied} \n\n", "")
    listed = f"Current ACLs for resource `{TOPIC}`: \n {row}\n{denied} \n\n"
    assert tool(cluster, "--list", "--topic", "orders") == (0, listed, "")
    of_bob = f"ACLs for principal `User:bob`\nCurrent ACLs for resource `{TOPIC}`: \n {denied} \n\n"
    assert tool(cluster, "--list", "--principal", "User:bob") == (0, of_bob, "")
    remove = ("--remove", "--allow-principal", "User:alice", "--operation", "read", "--topic", "orders")
    code, out, _ = tool(cluster, *remove, stdin=b"n\n")
    question = f"Are you sure you want to remove ACLs: \n {row} \n from resource filter `{TOPIC}`? (y/n)\n"
    assert (code, out) == (0, question)
    assert tool(cluster, "--list", "--topic", "orders")[1] == listed
    assert tool(cluster, *remove, stdin=b"Y\n")[:2] == (0, question)
    assert tool(cluster, "--list", "--topic", "orders")[1] == listed.replace(f"{row}\n", "")
    assert tool(cluster, "--remove", "--topic", "orders", "--force") == (0, "", "")
    assert tool(cluster, "--list", "--topic", "orders") == (0, "", "")


def test_producer_and_consumer_options_add_what_clients_need(cluster: BrokerCluster) -> None:
    who = ("--allow-principal", "User:app", "--topic", "app-", "--resource-pattern-type", "prefixed")
    code, out, _ = tool(cluster, "--add", *who, "--producer", "--consumer", "--group", "app-")
    operations = [line.split("operation=")[1].split(",")[0] for line in out.splitlines() if "operation=" in line]
    assert (code, operations) == (0, ["WRITE", "DESCRIBE", "CREATE", "READ", "READ"])
    code, out, _ = tool(cluster, "--list", "--topic", "app-7", "--resource-pattern-type", "match")
    assert (code, out.count("name=app-, patternType=PREFIXED"), out.count("User:app")) == (0, 1, 4)
    for resource in ("--topic", "--group"):
        tool(cluster, "--remove", resource, "app-", "--resource-pattern-type", "prefixed", "--force")
    assert tool(cluster, "--list") == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--topic t", "Command must include exactly one action: --list, --add, --remove. "),
        ("--add --list", "Command must include exactly one action: --list, --add, --remove. "),
        ("--list --producer", 'Option "[list]" can\'t be used with option "[producer]"'),
        ("--add --producer --topic t --operation Read", 'Option "[producer]" can\'t be used with option "[operation]"'),
        ("--add --principal User:a --topic t", "The --principal option is only available if --list is set"),
        ("--add --producer --group g", "With --producer you must specify a --topic"),
        ("--add --idempotent --topic t", "The --idempotent option is only available if --producer is set"),
        ("--add --consumer --topic t", "With --consumer you must specify a --topic and a --group and no --cluster"),
        ("--add --allow-principal User:a", "You must provide at least one resource: --topic <topic> or --cluster"),
        ("--add --topic t", "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."),
        ("--add --topic t --allow-principal alice", "expected a string in format principalType:principalName but got"),
        ("--add --group g --allow-principal User:a --operation Write",
         "ResourceType GROUP only supports operations Read, Delete, Describe, All"),
        ("--add --topic t --allow-principal User:a --resource-pattern-type any",
         "A '--resource-pattern-type' value of 'ANY' is not valid when adding acls."),
        ("--list --resource-pattern-type odd", "Unknown resource-pattern-type: odd"),
    ],
)  # fmt: skip
def test_contradicting_options_are_rejected_with_kafkas_message(arguments: str, message: str) -> None:
    code, _, err = called(acls.main, *arguments.split())
    assert code == 1
    assert message in err


def test_confluent_admin_client_creates_and_deletes_acls(cluster: BrokerCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    kinds = (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    bindings = [
        AclBinding(ResourceType.TOPIC, "c-", kind, "User:carol", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
        for kind in kinds
    ]
    for future in admin.create_acls(bindings).values():
        assert future.result(WITHIN_S) is None
    nothing: Any = None  # the library's types do not allow None, which its documentation describes
    wanted = AclBindingFilter(
        ResourceType.TOPIC, "c-7", ResourcePatternType.MATCH, nothing, nothing, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(wanted).result(WITHIN_S) == [bindings[1]]
    every = AclBindingFilter(
        ResourceType.ANY,
        nothing,
        ResourcePatternType.ANY,
        "User:carol",
        nothing,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    [deleted] = admin.delete_acls([every]).values()
    assert sorted(map(str, deleted.result(WITHIN_S))) == sorted(map(str, bindings))
    assert admin.describe_acls(every).result(WITHIN_S) == []


def test_confluent_producer_is_denied_a_topic_of_another_user(cluster: BrokerCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("private", 1, 1)])["private"].result(WITHIN_S)

    def produce() -> KafkaError | None:
        # A producer remembers the error of a topic, so each record has its own producer.
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
        delivered: list[KafkaError | None] = []
        producer.produce("private", b"v", on_delivery=lambda error, _: delivered.append(error))
        producer.flush(WITHIN_S)
        return delivered.pop()

    assert produce() is None
    tool(cluster, "--add", "--allow-principal", "User:owner", "--topic", "private")
    refused = produce()
    assert refused is not None and refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as failure:
        admin.delete_topics(["private"])["private"].result(WITHIN_S)
    assert failure.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "private" not in admin.list_topics(timeout=WITHIN_S).topics
    tool(cluster, "--remove", "--topic", "private", "--force")
    assert produce() is None
