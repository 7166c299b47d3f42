"""Each API checks the permissions that Kafka checks. The expected values are from KafkaApis of Kafka 3.9.1.

Every case is sent twice: without permissions, which must be denied, and with exactly the permissions of the case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import msgspec
import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.authorizer.secured_cluster import ADMIN, acl, allow, secured_cluster, send
from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.authorizer.request_guard import UNGUARDED
from zabka.kafka.acls import AclOperation as Op
from zabka.kafka.acls import PatternType, Permission, ResourceType
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.kafka_schema import ApiKey

TOPIC, GROUP, CLUSTER, TXN = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
ON_CLUSTER = "kafka-cluster"
DENIED = {
    TOPIC: ErrorCode.topic_authorization_failed,
    GROUP: ErrorCode.group_authorization_failed,
    CLUSTER: ErrorCode.cluster_authorization_failed,
    TXN: ErrorCode.transactional_id_authorization_failed,
}
Grant = tuple[Op, ResourceType, str]


class Case(NamedTuple):
    """A request, the type of the denied resource, and the permissions that the request needs."""

    key: ApiKey
    values: dict[str, Any]
    denied: ResourceType
    grants: tuple[Grant, ...]
    version: int | None = None


def on_cluster(key: ApiKey, operation: Op, version: int | None = None, **values: Any) -> Case:
    return Case(key, values, CLUSTER, ((operation, CLUSTER, ON_CLUSTER),), version)


BATCH = build_batch([Record(None, b"v")])
PRODUCED = [{"name": "orders", "partition_data": [{"index": 0, "records": BATCH}]}]
PARTITIONS = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
OFFSETS = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}]
EPOCHS = [{"topic": "orders", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]
TOPIC_CONFIG = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None, "configs": []}
BROKER_CONFIG = {"resource_type": 4, "resource_name": "1", "configuration_keys": None, "configs": []}
IN_GROUP: tuple[Grant, ...] = ((Op.READ, GROUP, "g"),)
IN_TRANSACTION: tuple[Grant, ...] = ((Op.WRITE, TXN, "t"),)
FILTER = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}

CASES = [
    Case(ApiKey.PRODUCE, {"acks": 1, "timeout": 100, "topic_data": PRODUCED}, TOPIC, ((Op.WRITE, TOPIC, "orders"),), 9),
    Case(ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": PARTITIONS}, TOPIC, ((Op.DESCRIBE, TOPIC, "orders"),)),
    Case(ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": PARTITIONS}, TOPIC, ((Op.READ, TOPIC, "orders"),), 0),
    Case(ApiKey.METADATA, {"topics": [{"name": "orders"}]}, TOPIC, ((Op.DESCRIBE, TOPIC, "orders"),)),
    Case(ApiKey.METADATA, {"topics": [{"name": "orders"}]}, TOPIC, ((Op.WRITE, TOPIC, "orders"),), 0),
    on_cluster(ApiKey.LEADER_AND_ISR, Op.CLUSTER_ACTION, controller_epoch=0, controller_id=1),
    on_cluster(ApiKey.STOP_REPLICA, Op.CLUSTER_ACTION, controller_epoch=0, controller_id=1),
    on_cluster(ApiKey.UPDATE_METADATA, Op.CLUSTER_ACTION, controller_epoch=0, controller_id=1),
    on_cluster(ApiKey.CONTROLLED_SHUTDOWN, Op.CLUSTER_ACTION, broker_id=9, broker_epoch=1),
    on_cluster(ApiKey.ALTER_PARTITION, Op.CLUSTER_ACTION, broker_id=9, broker_epoch=1),
    on_cluster(ApiKey.ALLOCATE_PRODUCER_IDS, Op.CLUSTER_ACTION, broker_id=9, broker_epoch=1),
    on_cluster(ApiKey.WRITE_TXN_MARKERS, Op.CLUSTER_ACTION,
               markers=[{"producer_id": 7, "topics": [{"name": "orders", "partition_indexes": [0]}]}]),
    on_cluster(ApiKey.WRITE_TXN_MARKERS, Op.ALTER,
               markers=[{"producer_id": 7, "topics": [{"name": "orders", "partition_indexes": [0]}]}]),
    on_cluster(ApiKey.ALTER_PARTITION_REASSIGNMENTS, Op.ALTER,
               topics=[{"name": "orders", "partitions": [{"partition_index": 0, "replicas": None}]}]),
    on_cluster(ApiKey.LIST_PARTITION_REASSIGNMENTS, Op.DESCRIBE, topics=None),
    on_cluster(ApiKey.ELECT_LEADERS, Op.ALTER, topic_partitions=[{"topic": "orders", "partitions": [0]}]),
    on_cluster(ApiKey.ELECT_LEADERS, Op.ALTER, 0, topic_partitions=[{"topic": "orders", "partitions": [0]}]),
    Case(ApiKey.DESCRIBE_ACLS, FILTER, CLUSTER, ((Op.DESCRIBE, CLUSTER, ON_CLUSTER),)),
    on_cluster(ApiKey.CREATE_ACLS, Op.ALTER, creations=[acl("x", Op.READ, TOPIC, "x")]),
    on_cluster(ApiKey.DELETE_ACLS, Op.ALTER, filters=[{**FILTER, "principal_filter": "User:x"}]),
    on_cluster(ApiKey.UPDATE_FEATURES, Op.ALTER, feature_updates=[{"feature": "f", "max_version_level": 1}]),
    on_cluster(ApiKey.DESCRIBE_CLIENT_QUOTAS, Op.DESCRIBE_CONFIGS),
    on_cluster(ApiKey.ALTER_CLIENT_QUOTAS, Op.ALTER_CONFIGS, validate_only=True,
               entries=[{"entity": [{"entity_type": "user", "entity_name": "x"}], "ops": []}]),
    on_cluster(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, Op.DESCRIBE, users=None),
    on_cluster(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, Op.ALTER, deletions=[{"name": "x", "mechanism": 1}]),
    on_cluster(ApiKey.DESCRIBE_LOG_DIRS, Op.DESCRIBE, 4, topics=None),
    on_cluster(ApiKey.ALTER_REPLICA_LOG_DIRS, Op.ALTER,
               dirs=[{"path": "/no", "topics": [{"name": "orders", "partitions": [0]}]}]),
    Case(ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": ["g"]}, GROUP, ((Op.DESCRIBE, GROUP, "g"),)),
    Case(ApiKey.FIND_COORDINATOR, {"key_type": 1, "coordinator_keys": ["t"]}, TXN, ((Op.DESCRIBE, TXN, "t"),)),
    Case(ApiKey.FIND_COORDINATOR, {"key": "g"}, GROUP, ((Op.READ, GROUP, "g"),), 0),
    Case(ApiKey.FIND_COORDINATOR, {"key_type": 1, "key": "t"}, TXN, ((Op.WRITE, TXN, "t"),), 3),
    Case(ApiKey.JOIN_GROUP, {"group_id": "g", "session_timeout": 10_000, "protocol_type": "consumer",
                             "protocols": [{"name": "range"}]}, GROUP, IN_GROUP),
    Case(ApiKey.SYNC_GROUP, {"group_id": "g", "protocol_type": "c", "protocol_name": "p"}, GROUP, IN_GROUP),
    Case(ApiKey.HEARTBEAT, {"group_id": "g"}, GROUP, IN_GROUP),
    Case(ApiKey.LEAVE_GROUP, {"group_id": "g"}, GROUP, IN_GROUP),
    Case(ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]}, GROUP, ((Op.DESCRIBE, GROUP, "g"),)),
    Case(ApiKey.DELETE_GROUPS, {"groups_names": ["g"]}, GROUP, ((Op.DELETE, GROUP, "g"),)),
    Case(ApiKey.OFFSET_COMMIT, {"group_id": "g", "topics": OFFSETS}, GROUP, (*IN_GROUP, (Op.READ, TOPIC, "orders"))),
    Case(ApiKey.OFFSET_FETCH, {"groups": [{"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}]},
         GROUP, ((Op.DESCRIBE, GROUP, "g"), (Op.DESCRIBE, TOPIC, "orders"))),
    *(
        Case(ApiKey.OFFSET_FETCH, {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]},
             GROUP, ((Op.DESCRIBE, GROUP, "g"), (Op.DESCRIBE, TOPIC, "orders")), version)
        for version in (0, 1, 2, 7)
    ),
    Case(ApiKey.OFFSET_DELETE, {"group_id": "g", "topics": PARTITIONS}, GROUP,
         ((Op.DELETE, GROUP, "g"), (Op.READ, TOPIC, "orders"))),
    Case(ApiKey.CREATE_TOPICS, {"topics": [{"name": "new-1", "num_partitions": 1, "replication_factor": 1}]},
         TOPIC, ((Op.CREATE, TOPIC, "new-1"), (Op.DESCRIBE_CONFIGS, TOPIC, "new-1"))),
    Case(ApiKey.CREATE_TOPICS, {"topics": [{"name": "new-2", "num_partitions": 1, "replication_factor": 1}]},
         TOPIC, ((Op.CREATE, CLUSTER, ON_CLUSTER),), 2),
    Case(ApiKey.DELETE_TOPICS, {"topics": [{"name": "doomed", "topic_id": None}]}, TOPIC,
         ((Op.DELETE, TOPIC, "doomed"),)),
    Case(ApiKey.DELETE_TOPICS, {"topic_names": ["missing"]}, TOPIC, ((Op.DELETE, TOPIC, "missing"),), 1),
    Case(ApiKey.CREATE_PARTITIONS, {"topics": [{"name": "orders", "count": 1, "assignments": None}]}, TOPIC,
         ((Op.ALTER, TOPIC, "orders"),)),
    Case(ApiKey.DELETE_RECORDS, {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 0}]}]},
         TOPIC, ((Op.DELETE, TOPIC, "orders"),)),
    Case(ApiKey.OFFSET_FOR_LEADER_EPOCH, {"replica_id": -1, "topics": EPOCHS}, TOPIC,
         ((Op.DESCRIBE, TOPIC, "orders"),)),
    Case(ApiKey.OFFSET_FOR_LEADER_EPOCH, {"replica_id": 2, "topics": EPOCHS}, TOPIC,
         ((Op.CLUSTER_ACTION, CLUSTER, ON_CLUSTER),)),
    Case(ApiKey.DESCRIBE_CONFIGS, {"resources": [TOPIC_CONFIG]}, TOPIC, ((Op.DESCRIBE_CONFIGS, TOPIC, "orders"),)),
    Case(ApiKey.DESCRIBE_CONFIGS, {"resources": [BROKER_CONFIG]}, CLUSTER,
         ((Op.DESCRIBE_CONFIGS, CLUSTER, ON_CLUSTER),)),
    Case(ApiKey.ALTER_CONFIGS, {"validate_only": True, "resources": [TOPIC_CONFIG]}, TOPIC,
         ((Op.ALTER_CONFIGS, TOPIC, "orders"),)),
    Case(ApiKey.INCREMENTAL_ALTER_CONFIGS, {"validate_only": True, "resources": [BROKER_CONFIG]}, CLUSTER,
         ((Op.ALTER_CONFIGS, CLUSTER, ON_CLUSTER),)),
    Case(ApiKey.INIT_PRODUCER_ID, {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}, CLUSTER,
         ((Op.IDEMPOTENT_WRITE, CLUSTER, ON_CLUSTER),)),
    Case(ApiKey.INIT_PRODUCER_ID, {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}, CLUSTER,
         ((Op.WRITE, TOPIC, "any"),)),
    Case(ApiKey.INIT_PRODUCER_ID, {"transactional_id": "t", "transaction_timeout": 9_000, "producer_id": -1,
                                   "producer_epoch": -1}, TXN, IN_TRANSACTION),
    Case(ApiKey.ADD_PARTITIONS_TO_TXN, {"v3_and_below_transactional_id": "t",
                                        "v3_and_below_topics": [{"name": "orders", "partitions": [0]}]},
         TXN, (*IN_TRANSACTION, (Op.WRITE, TOPIC, "orders")), 3),
    on_cluster(ApiKey.ADD_PARTITIONS_TO_TXN, Op.CLUSTER_ACTION, 4, transactions=[]),
    Case(ApiKey.ADD_OFFSETS_TO_TXN, {"transactional_id": "t", "group_id": "g"}, TXN, (*IN_TRANSACTION, *IN_GROUP)),
    Case(ApiKey.END_TXN, {"transactional_id": "t"}, TXN, IN_TRANSACTION),
    Case(ApiKey.TXN_OFFSET_COMMIT, {"transactional_id": "t", "group_id": "g", "topics": OFFSETS}, TXN,
         (*IN_TRANSACTION, *IN_GROUP, (Op.READ, TOPIC, "orders"))),
    Case(ApiKey.DESCRIBE_PRODUCERS, {"topics": [{"name": "orders", "partition_indexes": [0]}]}, TOPIC,
         ((Op.READ, TOPIC, "orders"),)),
    Case(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["absent"]}, TXN, ((Op.DESCRIBE, TXN, "absent"),)),
]  # fmt: skip
HIDDEN = (ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS)
"""APIs that hide what the client cannot see instead of returning an error."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = secured_cluster()
    for name in ("orders", "doomed", "hidden"):
        made.run(made.client.create_topic(name, 1, 1))
    for kind, key in ((0, "g"), (1, "t")):
        send(made, ADMIN, ApiKey.FIND_COORDINATOR, key_type=kind, coordinator_keys=[key])
    made.wait(2_000)
    yield made
    made.stop_all()


def errors(answer: Any) -> set[ErrorCode]:
    """Return all error codes in a response, at any depth."""
    if isinstance(answer, ErrorCode):
        return {answer}
    if isinstance(answer, list | tuple):
        return {error for each in answer for error in errors(each)}
    if isinstance(answer, msgspec.Struct):
        return errors([getattr(answer, name) for name in answer.__struct_fields__])
    if is_dataclass(answer):
        return errors([getattr(answer, field.name) for field in fields(answer)])
    return set()


def of_permissions(answer: Any) -> set[ErrorCode]:
    return errors(answer) & set(DENIED.values())


def named(case: Case) -> str:
    return f"{case.key.name}-{case.version}-{'+'.join(grant[0].name for grant in case.grants)}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_request_needs_exactly_the_permissions_of_kafka(cluster: Cluster, case: Case) -> None:
    user = f"user-{CASES.index(case)}"
    denied = send(cluster, user, case.key, case.version, **case.values)
    assert of_permissions(denied) == {DENIED[case.denied]}
    for number in range(len(case.grants)):
        some = f"{user}-without-{number}"
        rows = [acl(some, *grant) for each, grant in enumerate(case.grants) if each != number]
        if rows and case.grants[number][0] is not Op.DESCRIBE_CONFIGS:
            allow(cluster, *rows)
            missing = DENIED[case.grants[number][1]]
            assert of_permissions(send(cluster, some, case.key, case.version, **case.values)) == {missing}
    allow(cluster, *(acl(user, *grant) for grant in case.grants))
    assert of_permissions(send(cluster, user, case.key, case.version, **case.values)) == set()


def test_each_api_is_checked_or_known_to_need_no_permission() -> None:
    checked = {case.key for case in CASES} | set(HIDDEN)
    assert checked | set(UNGUARDED) == set(SUPPORTED)
    assert not checked & set(UNGUARDED)


def test_super_users_are_allowed_every_request(cluster: Cluster) -> None:
    for case in CASES:
        assert of_permissions(send(cluster, ADMIN, case.key, case.version, **case.values)) == set(), case.key


# ---- Produce and Fetch ----------------------------------------------------------------------------------------


def test_produce_stores_only_the_records_of_allowed_topics(cluster: Cluster) -> None:
    allow(cluster, acl("producer", Op.WRITE, TOPIC, "orders"))
    rows = [{**PRODUCED[0], "name": name} for name in ("hidden", "orders", "missing")]
    answer = send(cluster, "producer", ApiKey.PRODUCE, 9, acks=1, timeout=100, topic_data=rows)
    found = {str(topic.name): topic.partition_responses[0].error_code for topic in answer.responses}
    denied = ErrorCode.topic_authorization_failed
    assert found == {"orders": ErrorCode.none, "hidden": denied, "missing": denied}


def test_denied_produce_is_throttled_by_quotas(cluster: Cluster) -> None:
    cluster.ensemble.put("/config/clients/client", b'{"version":1,"config":{"producer_byte_rate":"1"}}')
    cluster.ensemble.put("/config/changes/config_change_0000000099", b'{"version":2,"entity_path":"clients/client"}')
    cluster.wait(100)
    answer = send(cluster, "outsider", ApiKey.PRODUCE, 9, acks=1, timeout=100, topic_data=PRODUCED)
    assert of_permissions(answer) == {ErrorCode.topic_authorization_failed}
    assert answer.throttle_time.total_seconds() > 0


@pytest.mark.parametrize("is_writer", [True, False])
def test_byte_quota_counts_the_whole_denied_request(cluster: Cluster, is_writer: bool) -> None:
    """As in Kafka, the size is that of the request, whatever topics of it are denied."""
    cluster.ensemble.put("/config/clients/client", b'{"version":1,"config":{"producer_byte_rate":"1000"}}')
    cluster.ensemble.put("/config/changes/config_change_0000000099", b'{"version":2,"entity_path":"clients/client"}')
    cluster.wait(100)
    if is_writer:
        allow(cluster, acl("producer", Op.WRITE, TOPIC, "orders"))
    large = [{"index": 0, "records": build_batch([Record(None, b"v" * 100_000)])}]
    rows = [PRODUCED[0], {"name": "hidden", "partition_data": large}]
    answer = send(cluster, "producer", ApiKey.PRODUCE, 9, acks=1, timeout=100, topic_data=rows)
    assert answer.throttle_time.total_seconds() > 50


def test_cluster_denial_has_the_text_of_kafka(cluster: Cluster) -> None:
    creation = {
        "resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3, "principal": "User:eve", "host": "*",
        "operation": 3, "permission_type": 3,
    }  # fmt: skip
    (created,) = send(cluster, "eve", ApiKey.CREATE_ACLS, 3, creations=[creation]).results
    assert created.error_message == (
        "Request Request(processor=0, connectionId=-0, session=Session(User:eve,/10.0.0.1), "
        "listenerName=ListenerName(PLAINTEXT), securityProtocol=PLAINTEXT, buffer=null, envelope=None) "
        "is not authorized."
    )
    described = send(cluster, "eve", ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)
    assert described.error_code is ErrorCode.cluster_authorization_failed and described.error_message is None


def test_denied_produce_without_acks_closes_the_connection(cluster: Cluster) -> None:
    for topics in (PRODUCED, [PRODUCED[0], {**PRODUCED[0], "name": "hidden"}]):
        with pytest.raises(AssertionError, match="the client is denied a topic"):
            send(cluster, "producer-0", ApiKey.PRODUCE, 9, acks=0, timeout=100, topic_data=topics)


def test_transactional_records_need_the_transactional_id(cluster: Cluster) -> None:
    records = build_batch([Record(None, b"v")], producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10)
    rows = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    values: dict[str, Any] = {"acks": -1, "timeout": 100, "transactional_id": "p", "topic_data": rows}
    allow(cluster, acl("transactor", Op.WRITE, TOPIC, "orders"))
    answer = send(cluster, "transactor", ApiKey.PRODUCE, 9, **values)
    assert of_permissions(answer) == {ErrorCode.transactional_id_authorization_failed}
    allow(cluster, acl("transactor", Op.WRITE, TXN, "p"))
    assert of_permissions(send(cluster, "transactor", ApiKey.PRODUCE, 9, **values)) == set()


def fetch(cluster: Cluster, user: str, *names: str, replica_id: int = -1, **session: int) -> dict[str, ErrorCode]:
    topics = [
        {"topic": name, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}
        for name in names
    ]
    values: dict[str, Any] = {"max_wait": 10, "min_bytes": 0, "max_bytes": 1000, "session_epoch": -1, **session}
    answer = send(cluster, user, ApiKey.FETCH, 12, replica_id=replica_id, topics=topics, **values)
    assert answer.error_code is ErrorCode.none
    return {str(topic.topic): topic.partitions[0].error_code for topic in answer.responses}


def test_consumer_fetches_only_topics_that_it_can_read(cluster: Cluster) -> None:
    allow(cluster, acl("consumer", Op.READ, TOPIC, "orders"))
    denied = ErrorCode.topic_authorization_failed
    assert fetch(cluster, "consumer", "orders", "hidden", "missing") == {
        "orders": ErrorCode.none,
        "hidden": denied,
        "missing": denied,
    }


def test_follower_fetch_needs_cluster_action(cluster: Cluster) -> None:
    allow(cluster, acl("replica", Op.READ, TOPIC, "orders"))
    assert fetch(cluster, "replica", "orders", replica_id=2) == {"orders": ErrorCode.topic_authorization_failed}
    allow(cluster, acl("replica", Op.CLUSTER_ACTION, CLUSTER, ON_CLUSTER))
    assert fetch(cluster, "replica", "orders", replica_id=2) != {"orders": ErrorCode.topic_authorization_failed}


def test_fetch_session_is_checked_again_after_each_change(cluster: Cluster) -> None:
    row = acl("reader", Op.READ, TOPIC, "orders")
    allow(cluster, row)
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}]
    values: dict[str, Any] = {"max_wait": 10, "min_bytes": 0, "max_bytes": 1000, "replica_id": -1}
    first = send(cluster, "reader", ApiKey.FETCH, 12, topics=topics, session_epoch=0, **values)
    assert (first.session_id > 0, errors(first)) == (True, {ErrorCode.none})
    allow(cluster, {**row, "permission_type": Permission.DENY})
    later = send(cluster, "reader", ApiKey.FETCH, 12, topics=[], session_id=first.session_id, session_epoch=1, **values)
    assert errors(later) == {ErrorCode.none, ErrorCode.topic_authorization_failed}


# ---- what clients see -----------------------------------------------------------------------------------------


def seen(answer: Any) -> dict[str, ErrorCode]:
    return {str(topic.name): topic.error_code for topic in answer.topics}


def test_metadata_of_all_topics_hides_the_denied_ones(cluster: Cluster) -> None:
    allow(cluster, acl("viewer", Op.READ, TOPIC, "ord", PatternType.PREFIXED))
    for version, topics in ((0, []), (12, None)):
        answer = send(cluster, "viewer", ApiKey.METADATA, version, topics=topics)
        assert seen(answer) == {"orders": ErrorCode.none}
        assert len(answer.brokers) == 1


def test_metadata_does_not_reveal_whether_a_denied_topic_exists(cluster: Cluster) -> None:
    for version in (0, 12):
        asked = [{"name": "hidden"}, {"name": "missing"}]
        answer = send(cluster, "stranger", ApiKey.METADATA, version, topics=asked)
        denied = ErrorCode.topic_authorization_failed
        assert seen(answer) == {"hidden": denied, "missing": denied}
        assert [topic.partitions for topic in answer.topics] == [(), ()]
        assert len(answer.brokers) == 1


def test_metadata_by_id_does_not_name_a_denied_topic(cluster: Cluster) -> None:
    topic_id = cluster.controller.broker.metadata.topic_id("hidden")
    [row] = send(cluster, "stranger", ApiKey.METADATA, topics=[{"name": None, "topic_id": topic_id}]).topics
    assert (row.error_code, row.name, row.topic_id) == (ErrorCode.topic_authorization_failed, None, topic_id)


def test_missing_topic_is_created_only_with_permission(cluster: Cluster) -> None:
    asked: dict[str, Any] = {"topics": [{"name": "auto"}], "allow_auto_topic_creation": True}
    allow(cluster, acl("creator", Op.DESCRIBE, TOPIC, "auto"))
    assert seen(send(cluster, "creator", ApiKey.METADATA, **asked)) == {"auto": ErrorCode.topic_authorization_failed}
    unasked = send(cluster, "creator", ApiKey.METADATA, topics=[{"name": "auto"}], allow_auto_topic_creation=False)
    assert seen(unasked) == {"auto": ErrorCode.unknown_topic_or_partition}
    allow(cluster, acl("creator", Op.CREATE, TOPIC, "auto"))
    assert seen(send(cluster, "creator", ApiKey.METADATA, **asked)) == {"auto": ErrorCode.leader_not_available}
    cluster.wait(1_000)
    assert seen(send(cluster, "creator", ApiKey.METADATA, **asked)) == {"auto": ErrorCode.none}


def test_group_list_hides_the_denied_groups(cluster: Cluster) -> None:
    for group in ("seen", "unseen"):
        send(cluster, ADMIN, ApiKey.OFFSET_COMMIT, group_id=group, topics=OFFSETS, generation_id_or_member_epoch=-1)
    allow(cluster, acl("lister", Op.READ, GROUP, "seen"), acl("operator", Op.DESCRIBE, CLUSTER, ON_CLUSTER))

    def listed(user: str) -> set[str]:
        return {str(row.group_id) for row in send(cluster, user, ApiKey.LIST_GROUPS).groups}

    assert (listed("stranger"), listed("lister")) == (set(), {"seen"})
    assert listed("operator") >= {"seen", "unseen"}


def test_transaction_list_hides_the_denied_transactions(cluster: Cluster) -> None:
    values: dict[str, Any] = {"transaction_timeout": 9_000, "producer_id": -1, "producer_epoch": -1}
    assert send(cluster, ADMIN, ApiKey.INIT_PRODUCER_ID, transactional_id="mine", **values).error_code == 0

    def listed(user: str) -> set[str]:
        answer = send(cluster, user, ApiKey.LIST_TRANSACTIONS)
        return {str(row.transactional_id) for row in answer.transaction_states}

    allow(cluster, acl("owner", Op.DESCRIBE, TXN, "mine"))
    assert (listed("stranger"), listed("owner")) == (set(), {"mine"})


def test_offsets_of_denied_topics_are_hidden_or_refused(cluster: Cluster) -> None:
    allow(cluster, acl("c2", Op.READ, GROUP, "seen"), acl("c2", Op.READ, TOPIC, "orders"))
    rows = [{**OFFSETS[0], "name": name} for name in ("orders", "hidden")]
    send(cluster, ADMIN, ApiKey.OFFSET_COMMIT, group_id="seen", topics=rows, generation_id_or_member_epoch=-1)
    every = send(cluster, "c2", ApiKey.OFFSET_FETCH, groups=[{"group_id": "seen", "topics": None}])
    assert [str(topic.name) for topic in every.groups[0].topics] == ["orders"]
    asked = [{"name": name, "partition_indexes": [0]} for name in ("hidden", "orders")]
    found = send(cluster, "c2", ApiKey.OFFSET_FETCH, groups=[{"group_id": "seen", "topics": asked}])
    assert {str(topic.name): topic.partitions[0].error_code for topic in found.groups[0].topics} == {
        "orders": ErrorCode.none,
        "hidden": ErrorCode.topic_authorization_failed,
    }


def test_new_topic_hides_its_configs_without_describe_configs(cluster: Cluster) -> None:
    allow(cluster, acl("maker", Op.CREATE, TOPIC, "made", PatternType.PREFIXED))
    rows = [{"name": "made-1", "num_partitions": 1, "replication_factor": 1}]
    [made] = send(cluster, "maker", ApiKey.CREATE_TOPICS, topics=rows).topics
    assert (made.error_code, made.topic_config_error_code) == (0, ErrorCode.topic_authorization_failed)
    assert (made.num_partitions, made.replication_factor, made.configs, made.topic_id) == (-1, -1, (), None)


def test_one_denied_topic_fails_the_whole_transaction_request(cluster: Cluster) -> None:
    allow(cluster, acl("t2", Op.WRITE, TXN, "t"), acl("t2", Op.WRITE, TOPIC, "orders"))
    topics = [{"name": name, "partitions": [0]} for name in ("orders", "hidden")]
    values: dict[str, Any] = {"v3_and_below_transactional_id": "t", "v3_and_below_topics": topics}
    answer = send(cluster, "t2", ApiKey.ADD_PARTITIONS_TO_TXN, 3, **values)
    found = {
        str(topic.name): topic.results_by_partition[0].partition_error_code
        for topic in answer.results_by_topic_v3_and_below
    }
    assert found == {
        "orders": ErrorCode.operation_not_attempted,
        "hidden": ErrorCode.topic_authorization_failed,
    }


def test_deletion_by_id_does_not_name_a_topic_without_describe(cluster: Cluster) -> None:
    topic_id = cluster.controller.broker.metadata.topic_id("hidden")
    asked = [{"name": None, "topic_id": topic_id}]
    [row] = send(cluster, "stranger", ApiKey.DELETE_TOPICS, topics=asked).responses
    assert (row.error_code, row.name) == (ErrorCode.topic_authorization_failed, None)
    allow(cluster, acl("watcher", Op.DESCRIBE, TOPIC, "hidden"))
    [row] = send(cluster, "watcher", ApiKey.DELETE_TOPICS, topics=asked).responses
    assert (row.error_code, row.name, row.topic_id) == (ErrorCode.topic_authorization_failed, "hidden", topic_id)


# ---- authorized operations (KIP-430) --------------------------------------------------------------------------


def bits(*operations: Op) -> int:
    return sum(1 << operation for operation in operations)


def test_authorized_operations_are_those_of_the_client(cluster: Cluster) -> None:
    allow(
        cluster,
        acl("kip", Op.WRITE, TOPIC, "orders"),
        acl("kip", Op.READ, GROUP, "g"),
        acl("kip", Op.ALTER_CONFIGS, CLUSTER, ON_CLUSTER),
    )
    topics = [{"name": "orders"}, {"name": "hidden"}]
    answer = send(cluster, "kip", ApiKey.METADATA, topics=topics, include_topic_authorized_operations=True)
    operations = {str(topic.name): topic.topic_authorized_operations for topic in answer.topics}
    assert operations == {"orders": bits(Op.WRITE, Op.DESCRIBE), "hidden": -(2**31)}
    group = send(cluster, "kip", ApiKey.DESCRIBE_GROUPS, groups=["g"], include_authorized_operations=True)
    assert group.groups[0].authorized_operations == bits(Op.READ, Op.DESCRIBE)
    for version, key in ((10, ApiKey.METADATA), (1, ApiKey.DESCRIBE_CLUSTER)):
        values: dict[str, Any] = {"include_cluster_authorized_operations": True, "topics": []}
        if key is ApiKey.DESCRIBE_CLUSTER:
            values = {"include_cluster_authorized_operations": True, "endpoint_type": 1}
        assert send(cluster, "kip", key, version, **values).cluster_authorized_operations == 0
        allow(cluster, acl(f"ops-{version}", Op.DESCRIBE, CLUSTER, ON_CLUSTER))
        found = send(cluster, f"ops-{version}", key, version, **values).cluster_authorized_operations
        assert found == bits(Op.DESCRIBE)
