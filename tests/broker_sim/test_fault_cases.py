"""Test cases of kfake (franz-go, pkg/kfake), translated to request fault rules of a broker.

kfake intercepts requests with control functions. A function that replies once becomes a rule with `times=1`. A function
that stays installed becomes a rule that applies until it is removed. A function that sleeps becomes `delay_before`.
kfake can also apply a request and return an error; a rule here loses the response to an applied request instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.test_request_faults import ask, counts, fault, hold, log_end, produce, produced_errors, raised
from zabka.broker_sim.request_context import RequestRefused
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, request


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(1, offsets_topic_num_partitions="1", offsets_topic_replication_factor="1")
    made.start()
    for topic in ("orders", "payments"):
        made.run(made.client.create_topic(topic, assignment={0: (1,), 1: (1,)}))
    made.wait(200)
    yield made
    made.stop_all()


def refusal(error: str, **fields: Any) -> Any:
    return fault(effect="error", error=error, **fields)


def load_coordinator(cluster: Cluster, group: str) -> None:
    """Create __consumer_offsets by looking up the group's coordinator, and wait until an offset commit succeeds."""
    ask(cluster, request(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group]))
    for _ in range(20):
        if set(commit_errors(ask(cluster, commit(group, 1)))) == {"none"}:
            return
        cluster.wait(200)
    raise AssertionError("no coordinator")


def beat(cluster: Cluster, group: str) -> str:
    answer: Any = ask(cluster, request(ApiKey.HEARTBEAT, 4, group_id=group, generation_id=1, member_id="m"))
    return str(answer.error_code.name)


def commit(group: str, offset: int = 7) -> KafkaMessage:
    rows = [{"partition_index": number, "committed_offset": offset} for number in (0, 1)]
    return request(
        ApiKey.OFFSET_COMMIT, 8, group_id=group, generation_id_or_member_epoch=-1, member_id="",
        topics=[{"name": "orders", "partitions": rows}],
    )  # fmt: skip


def commit_errors(answer: Any) -> list[str]:
    return [row.error_code.name for topic in answer.topics for row in topic.partitions]


def test_produce_fault_rejects_only_its_partition(cluster: Cluster) -> None:
    hold(cluster, refusal("NOT_ENOUGH_REPLICAS", topic="orders", partition=1))
    errors = produced_errors(ask(cluster, produce(partitions=(0, 1))))
    assert sorted(errors["orders"]) == ["none", "not_enough_replicas"]
    assert (log_end(cluster), log_end(cluster, partition=1)) == (1, 0)


def test_heartbeat_fault_applies_only_to_its_group(cluster: Cluster) -> None:
    hold(cluster, refusal("REBALANCE_IN_PROGRESS", api="Heartbeat", group="g"))
    assert (beat(cluster, "g"), beat(cluster, "h") != "rebalance_in_progress") == ("rebalance_in_progress", True)
    assert counts(cluster) == {"f1": [1, 1]}


def test_offset_commit_fault_rejects_all_partitions_of_its_group(cluster: Cluster) -> None:
    load_coordinator(cluster, "g")
    hold(cluster, refusal("NOT_COORDINATOR", api="OffsetCommit", group="g"))
    assert commit_errors(ask(cluster, commit("g"))) == ["not_coordinator"] * 2
    assert commit_errors(ask(cluster, commit("h"))) == ["none"] * 2
    assert counts(cluster) == {"f1": [1, 1]}


def test_describe_groups_fault_rejects_only_its_group(cluster: Cluster) -> None:
    hold(cluster, refusal("GROUP_AUTHORIZATION_FAILED", api="DescribeGroups", group="g"))
    answer: Any = ask(cluster, request(ApiKey.DESCRIBE_GROUPS, 5, groups=["g", "h"]))
    errors = {row.group_id: row.error_code.name for row in answer.groups}
    assert errors["g"] == "group_authorization_failed"
    assert set(errors) == {"g", "h"} and errors["h"] != errors["g"]


def test_transactional_id_fault_rejects_each_of_three_requests(cluster: Cluster) -> None:
    apis = ("InitProducerId", "EndTxn", "TxnOffsetCommit")
    hold(cluster, *(refusal("PRODUCER_FENCED", api=api, id=api, transactional_id="x") for api in apis))
    begin = request(
        ApiKey.INIT_PRODUCER_ID, 4, transactional_id="x", transaction_timeout=10_000, producer_id=-1,
        producer_epoch=-1,
    )  # fmt: skip
    end = request(ApiKey.END_TXN, 3, transactional_id="x", producer_id=1, producer_epoch=0, committed=True)
    offsets = request(
        ApiKey.TXN_OFFSET_COMMIT, 3, transactional_id="x", group_id="g", producer_id=1, producer_epoch=0,
        topics=[{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 7}]}],
    )  # fmt: skip
    answers: list[Any] = [ask(cluster, message) for message in (begin, end, offsets)]
    assert [answer.error_code.name for answer in answers[:2]] == ["producer_fenced"] * 2
    assert commit_errors(answers[2]) == ["producer_fenced"]
    assert counts(cluster) == {api: [1, 1] for api in apis}


def test_request_fault_applies_once_or_until_it_is_removed(cluster: Cluster) -> None:
    hold(cluster, refusal("NOT_ENOUGH_REPLICAS", times=1))
    answers = [produced_errors(ask(cluster, produce())) for _ in range(2)]
    assert answers == [{"orders": ["not_enough_replicas"]}, {"orders": ["none"]}]
    hold(cluster, refusal("NOT_ENOUGH_REPLICAS", id="f2"))
    assert [produced_errors(ask(cluster, produce())) for _ in range(3)] == [{"orders": ["not_enough_replicas"]}] * 3
    hold(cluster)
    assert produced_errors(ask(cluster, produce())) == {"orders": ["none"]}


def test_only_the_oldest_of_two_matching_faults_is_applied(cluster: Cluster) -> None:
    hold(
        cluster,
        refusal("NOT_ENOUGH_REPLICAS", topic="orders"),
        refusal("INVALID_RECORD", id="f2", topic="orders"),
        refusal("KAFKA_STORAGE_ERROR", id="f3", topic="payments"),
    )
    assert produced_errors(ask(cluster, produce())) == {"orders": ["not_enough_replicas"]}
    assert produced_errors(ask(cluster, produce("payments"))) == {"payments": ["kafka_storage_error"]}
    assert [used for _, used in counts(cluster).values()] == [1, 0, 1]


def test_delayed_request_does_not_delay_other_clients(cluster: Cluster) -> None:
    hold(cluster, fault(effect="delay_before", delay_ms=500, client_id="shop-1"))
    node = cluster.nodes[1]
    asking = node.runtime.spawn(node.broker.handle(produce(), "shop-1"), "asking")
    cluster.wait(100)
    assert produced_errors(ask(cluster, produce("payments"), "shop-2")) == {"payments": ["none"]}
    assert (asking.done(), log_end(cluster)) == (False, 0)
    cluster.wait(500)
    assert (asking.done(), log_end(cluster)) == (True, 1)


def test_fault_added_during_a_delay_applies_only_after_the_delay(cluster: Cluster) -> None:
    hold(cluster, fault(effect="delay_before", delay_ms=500, times=1))
    node = cluster.nodes[1]
    asking = node.runtime.spawn(node.broker.handle(produce(), "shop-1"), "asking")
    cluster.wait(100)
    hold(cluster, refusal("NOT_ENOUGH_REPLICAS", id="f2"))
    assert produced_errors(ask(cluster, produce())) == {"orders": ["not_enough_replicas"]}
    cluster.wait(500)
    assert (asking.done(), log_end(cluster)) == (True, 1)


def test_offset_commit_with_a_lost_response_is_stored(cluster: Cluster) -> None:
    load_coordinator(cluster, "g")
    hold(cluster, fault(api="OffsetCommit", group="g", effect="drop_response"))
    assert raised(cluster, commit("g")) is RequestRefused
    asked = request(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=[{"name": "orders", "partition_indexes": [0, 1]}])
    answer: Any = ask(cluster, asked)
    assert [row.committed_offset for row in answer.topics[0].partitions] == [7, 7]


def test_create_topics_with_a_lost_response_creates_the_topic(cluster: Cluster) -> None:
    hold(cluster, fault(api="CreateTopics", topic="later", effect="drop_response"))
    topic = {"name": "later", "num_partitions": 1, "replication_factor": 1}
    asked = request(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=5_000)
    assert raised(cluster, asked) is RequestRefused
    cluster.wait(500)
    assert log_end(cluster, "later") == 0


def test_delete_records_takes_effect_if_its_response_is_lost(cluster: Cluster) -> None:
    for _ in range(3):
        ask(cluster, produce())
    hold(cluster, fault(api="DeleteRecords", topic="orders", effect="drop_response"))
    rows = [{"partition_index": 0, "offset": 2}]
    asked = request(ApiKey.DELETE_RECORDS, 2, topics=[{"name": "orders", "partitions": rows}], timeout=1_000)
    assert raised(cluster, asked) is RequestRefused
    earliest = [{"partition_index": 0, "timestamp": -2}]
    answer: Any = ask(cluster, request(ApiKey.LIST_OFFSETS, 7, topics=[{"name": "orders", "partitions": earliest}]))
    assert answer.topics[0].partitions[0].offset == 2


def test_offset_fetch_fault_rejects_only_its_partition(cluster: Cluster) -> None:
    load_coordinator(cluster, "g")
    ask(cluster, commit("g"))
    hold(cluster, refusal("UNSTABLE_OFFSET_COMMIT", api="OffsetFetch", topic="orders", partition=1, times=1))
    asked = request(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=[{"name": "orders", "partition_indexes": [0, 1]}])
    found = []
    for _ in range(2):
        answer: Any = ask(cluster, asked)
        rows = {row.partition_index: (row.error_code.name, row.committed_offset) for row in answer.topics[0].partitions}
        found.append([rows[0], rows[1]])
    assert found == [[("none", 7), ("unstable_offset_commit", -1)], [("none", 7), ("none", 7)]]


@pytest.mark.parametrize(
    ("error", "of_group", "of_partitions"),
    [
        ("UNSTABLE_OFFSET_COMMIT", "none", ["unstable_offset_commit"] * 2),
        ("TOPIC_AUTHORIZATION_FAILED", "none", ["topic_authorization_failed"] * 2),
        ("NOT_COORDINATOR", "not_coordinator", []),
    ],
)
def test_offset_fetch_fault_sets_a_partition_or_group_error(
    cluster: Cluster, error: str, of_group: str, of_partitions: list[str]
) -> None:
    """UNSTABLE_OFFSET_COMMIT is the error of each partition, as in Kafka, because clients retry it only there."""
    hold(cluster, refusal(error, api="OffsetFetch", group="g"))
    topics = [{"name": "orders", "partition_indexes": [0, 1]}]
    answer: Any = ask(cluster, request(ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": "g", "topics": topics}]))
    (group,) = answer.groups
    found = [row.error_code.name for topic in group.topics for row in topic.partitions]
    assert (group.group_id, group.error_code.name, found) == ("g", of_group, of_partitions)


def test_offset_query_fault_affects_only_its_partition(cluster: Cluster) -> None:
    """Faults for one partition make offset queries fail for that partition only.

    The queries are ListOffsets and OffsetForLeaderEpoch, as in franz-go's tests of an offset reload.
    """
    ask(cluster, produce(partitions=(0, 1)))
    where = {"topic": "orders", "partition": 0}
    apis = ("ListOffsets", "OffsetForLeaderEpoch")
    hold(cluster, *(refusal("UNKNOWN_LEADER_EPOCH", api=api, id=api, **where) for api in apis))
    latest = [{"partition_index": number, "timestamp": -1} for number in (0, 1)]
    listed: Any = ask(cluster, request(ApiKey.LIST_OFFSETS, 7, topics=[{"name": "orders", "partitions": latest}]))
    rows = {row.partition_index: (row.error_code.name, row.offset) for row in listed.topics[0].partitions}
    assert rows == {0: ("unknown_leader_epoch", -1), 1: ("none", 1)}
    epochs = [{"partition": number, "leader_epoch": 0} for number in (0, 1)]
    asked = request(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, replica_id=-1, topics=[{"topic": "orders", "partitions": epochs}]
    )
    ends: Any = ask(cluster, asked)
    found = {row.partition: (row.error_code.name, row.end_offset) for topic in ends.topics for row in topic.partitions}
    assert found == {0: ("unknown_leader_epoch", -1), 1: ("none", 1)}


def test_leave_group_fault_keeps_the_member_until_its_retry(cluster: Cluster) -> None:
    load_coordinator(cluster, "g")
    joining = request(
        ApiKey.JOIN_GROUP, 3, group_id="g", session_timeout=30_000, rebalance_timeout=30_000, member_id="",
        protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}],
    )  # fmt: skip
    joined: Any = ask(cluster, joining)
    assert joined.error_code.name == "none"
    hold(cluster, refusal("NOT_COORDINATOR", api="LeaveGroup", group="g", times=1))
    leaving = request(ApiKey.LEAVE_GROUP, 2, group_id="g", member_id=joined.member_id)
    answers: list[Any] = []
    for _ in range(2):
        left: Any = ask(cluster, leaving)
        described: Any = ask(cluster, request(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"]))
        answers.append((left.error_code.name, len(described.groups[0].members)))
    assert answers == [("not_coordinator", 1), ("none", 0)]
