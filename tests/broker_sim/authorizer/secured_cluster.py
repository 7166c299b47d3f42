"""Brokers with an authorizer, and requests of users. Broker-to-broker traffic is anonymous and allowed everything."""

from __future__ import annotations

from typing import Any

from tests.broker_sim.broker_world import Cluster, Node
from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_CLASS
from zabka.broker_sim.principals import KafkaPrincipal
from zabka.broker_sim.request_context import RequestContext
from zabka.kafka.acls import AclOperation, PatternType, Permission, ResourceType
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.frames import ResponseEncoder, decode_response
from zabka.kafka.wire.kafka_schema import ApiKey, request

ADMIN = "admin"


def secured_cluster(brokers: int = 1, **keys: str) -> Cluster:
    """Start brokers with an authorizer, and the super users ANONYMOUS and admin."""
    return Cluster(
        brokers=brokers,
        authorizer_class_name=AUTHORIZER_CLASS,
        super_users=f"User:ANONYMOUS;User:{ADMIN}",
        offsets_topic_num_partitions="1",
        offsets_topic_replication_factor="1",
        transaction_state_log_num_partitions="1",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
        group_initial_rebalance_delay_ms="0",
        **keys,
    ).start()


def send(
    cluster: Cluster,
    user: str,
    key: ApiKey,
    version: int | None = None,
    /,
    node: Node | None = None,
    host: str = "10.0.0.1",
    **values: Any,
) -> Any:
    """Send a request as a user, to the controller by default. Return the response as a client decodes it."""
    node = node or cluster.controller
    message = request(key, SUPPORTED[key][1] if version is None else version, **values)
    context = RequestContext("client", "PLAINTEXT", f"/{host}", principal=KafkaPrincipal("User", user))
    answer = cluster.on(node, node.broker.serve(message, context))
    return None if answer is None else decode_response(ResponseEncoder().encode(7, answer)[4:], message)


def acl(
    user: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    pattern_type: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> dict[str, Any]:
    """Return a row of CreateAcls."""
    return {
        "resource_type": resource_type,
        "resource_name": name,
        "resource_pattern_type": pattern_type,
        "principal": f"User:{user}",
        "host": host,
        "operation": operation,
        "permission_type": permission,
    }


def allow(cluster: Cluster, *rows: dict[str, Any]) -> None:
    """Create ACLs as the administrator, and wait until every broker knows them."""
    answer = send(cluster, ADMIN, ApiKey.CREATE_ACLS, creations=list(rows))
    assert [result.error_code for result in answer.results] == [0] * len(rows)
    cluster.wait(50)
