"""Request faults at a broker: each type applies only to client requests, is counted, and is journaled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.request_context import RequestContext, RequestRefused, Unanswered
from zabka.ensemble.request_fault import HeldRequestFault
from zabka.journal.events import RequestFaultApplied
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.record_batch import Record, build_batch, checksum_holds, read_header
from zabka.kafka.wire.data_messages import PartitionProduceData, ProduceRequest, TopicProduceData
from zabka.kafka.wire.kafka_schema import ApiKey, as_time, milliseconds, request

BATCH = build_batch([Record(None, b"v")])


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(1)
    made.start()
    for topic in ("orders", "payments"):
        made.run(made.client.create_topic(topic, assignment={0: (1,), 1: (1,)}))
    made.wait(200)
    yield made
    made.stop_all()


def fault(**fields: Any) -> HeldRequestFault:
    return HeldRequestFault(**{"id": "f1", "kind": "request", "api": "Produce", **fields})


def hold(cluster: Cluster, *faults: HeldRequestFault) -> None:
    cluster.nodes[1].broker.hold_faults(faults)


def produce(*topics: str, acks: int = -1, partitions: tuple[int, ...] = (0,)) -> ProduceRequest:
    rows = [PartitionProduceData(number, BATCH) for number in partitions]
    return ProduceRequest(9, acks, as_time(1_000), [TopicProduceData(name, rows) for name in topics or ("orders",)])


def fetch(
    topic: str = "orders", *, version: int = 12, session: tuple[int, int] = (0, -1), **values: Any
) -> KafkaMessage:
    topics = [{"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}]
    topics = topics if topic else []
    given = {"replica_id": -1, "max_bytes": 1 << 20, "session_id": session[0], "session_epoch": session[1]}
    return request(ApiKey.FETCH, version, **{**given, "topics": topics, **values})


def ask(cluster: Cluster, message: KafkaMessage, client_id: str = "shop-1") -> KafkaMessage | None:
    return cluster.on(cluster.nodes[1], cluster.nodes[1].broker.handle(message, client_id, "PLAINTEXT", "/10.0.0.9"))


def raised(cluster: Cluster, message: KafkaMessage) -> type[Exception] | None:
    async def attempt() -> type[Exception] | None:
        try:
            await cluster.nodes[1].broker.handle(message, "shop-1")
        except (RequestRefused, Unanswered) as found:
            return type(found)
        return None

    found: type[Exception] | None = cluster.on(cluster.nodes[1], attempt())
    return found


def produced_errors(answer: Any) -> dict[str, list[str]]:
    return {topic.name: [row.error_code.name for row in topic.partition_responses] for topic in answer.responses}


def log_end(cluster: Cluster, topic: str = "orders", partition: int = 0) -> int:
    rows = cluster.nodes[1].broker.status()["partitions"]
    return next(int(row["leo"]) for row in rows if (row["topic"], row["partition"]) == (topic, partition))


def counts(cluster: Cluster) -> Any:
    return cluster.nodes[1].broker.status()["request_faults"]


# ---- errors -------------------------------------------------------------------------------------------------------


def test_produce_fault_returns_an_error_and_appends_nothing(cluster: Cluster) -> None:
    hold(cluster, fault(topic="orders", effect="error", error="NOT_LEADER_OR_FOLLOWER", times=1))
    assert produced_errors(ask(cluster, produce())) == {"orders": ["not_leader_or_follower"]}
    assert log_end(cluster) == 0
    assert produced_errors(ask(cluster, produce())) == {"orders": ["none"]}
    assert log_end(cluster) == 1


def test_produce_fault_for_one_topic_does_not_affect_the_others(cluster: Cluster) -> None:
    hold(cluster, fault(topic="orders", effect="error", error="NOT_ENOUGH_REPLICAS"))
    answer = ask(cluster, produce("orders", "payments"))
    assert produced_errors(answer) == {"payments": ["none"], "orders": ["not_enough_replicas"]}
    assert (log_end(cluster), log_end(cluster, "payments")) == (0, 1)


def test_produce_fault_without_acks_closes_the_connection(cluster: Cluster) -> None:
    hold(cluster, fault(effect="error", error="NOT_LEADER_OR_FOLLOWER"))
    assert raised(cluster, produce(acks=0)) is RequestRefused
    assert log_end(cluster) == 0


def test_fetch_fault_applies_to_partitions_of_a_fetch_session(cluster: Cluster) -> None:
    ask(cluster, produce())
    first: Any = ask(cluster, fetch(session=(0, 0)))
    hold(cluster, fault(api="Fetch", topic="orders", effect="error", error="NOT_LEADER_OR_FOLLOWER", times=1))
    second: Any = ask(cluster, fetch("", session=(first.session_id, 1)))
    assert [(row.error_code.name, row.records) for row in second.responses[0].partitions] == [
        ("not_leader_or_follower", b"")
    ]
    third: Any = ask(cluster, fetch("", session=(first.session_id, 2)))
    assert third.error_code is ErrorCode.none
    assert bytes(third.responses[0].partitions[0].records) != b""


def test_fetch_fault_matches_topics_sent_by_id(cluster: Cluster) -> None:
    topic_id = cluster.nodes[1].broker.metadata.topic_id("orders")
    rows = [{"topic_id": topic_id, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}]
    hold(cluster, fault(api="Fetch", topic="orders", effect="error", error="UNKNOWN_TOPIC_ID"))
    answer: Any = ask(cluster, fetch("", version=13, topics=rows))
    assert [(topic.topic_id, topic.partitions[0].error_code.name) for topic in answer.responses] == [
        (topic_id, "unknown_topic_id")
    ]


def test_fetch_session_error_fault_applies_to_the_whole_response(cluster: Cluster) -> None:
    hold(cluster, fault(api="Fetch", effect="error", error="FETCH_SESSION_ID_NOT_FOUND"))
    answer: Any = ask(cluster, fetch())
    assert (answer.error_code, list(answer.responses)) == (ErrorCode.fetch_session_id_not_found, [])


def test_metadata_fault_returns_its_error_for_the_topic(cluster: Cluster) -> None:
    hold(cluster, fault(api="Metadata", topic="orders", effect="error", error="LEADER_NOT_AVAILABLE"))
    answer: Any = ask(cluster, request(ApiKey.METADATA, 9, topics=None))
    assert {topic.name: topic.error_code.name for topic in answer.topics} == {
        "orders": "leader_not_available",
        "payments": "none",
    }


def test_metadata_fault_does_not_apply_to_broker_requests(cluster: Cluster) -> None:
    hold(cluster, fault(api="Metadata", effect="error", error="LEADER_NOT_AVAILABLE"))
    answer: Any = ask(cluster, request(ApiKey.METADATA, 9, topics=[]))
    assert len(answer.brokers) == 1 and counts(cluster) == {"f1": [0, 0]}


def test_coordinator_fault_applies_only_to_its_group(cluster: Cluster) -> None:
    hold(cluster, fault(api="FindCoordinator", group="g", effect="error", error="COORDINATOR_NOT_AVAILABLE"))
    answer: Any = ask(cluster, request(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g", "h"]))
    assert {row.key: row.error_code.name for row in answer.coordinators}["g"] == "coordinator_not_available"
    beat: Any = ask(cluster, request(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m"))
    assert beat.error_code is not ErrorCode.coordinator_not_available


# ---- delays and lost messages -------------------------------------------------------------------------------------


def test_delay_before_the_handler_delays_the_append(cluster: Cluster) -> None:
    hold(cluster, fault(effect="delay_before", delay_ms=500))
    asking = cluster.nodes[1].runtime.spawn(cluster.nodes[1].broker.handle(produce(), "shop-1"), "asking")
    cluster.wait(450)
    assert (log_end(cluster), asking.done()) == (0, False)
    cluster.wait(100)
    assert (log_end(cluster), asking.done()) == (1, True)


def test_delay_after_the_handler_delays_only_the_response(cluster: Cluster) -> None:
    hold(cluster, fault(effect="delay_after", delay_ms=500))
    asking = cluster.nodes[1].runtime.spawn(cluster.nodes[1].broker.handle(produce(), "shop-1"), "asking")
    cluster.wait(450)
    assert (log_end(cluster), asking.done()) == (1, False)
    cluster.wait(100)
    assert asking.done()


@pytest.mark.parametrize(
    ("fields", "expected", "appended"),
    [
        ({"effect": "drop_response"}, RequestRefused, 1),
        ({"effect": "drop_response", "keep_open": True}, Unanswered, 1),
        ({"effect": "drop_request"}, Unanswered, 0),
        ({"effect": "hang"}, Unanswered, 0),
        ({"effect": "close"}, RequestRefused, 0),
    ],
)
def test_request_is_appended_if_only_its_response_is_lost(
    cluster: Cluster, fields: dict[str, Any], expected: type[Exception], appended: int
) -> None:
    hold(cluster, fault(**fields))
    assert raised(cluster, produce()) is expected
    assert log_end(cluster) == appended


def test_truncate_fault_marks_the_response_as_truncated(cluster: Cluster) -> None:
    hold(cluster, fault(effect="truncate"))
    context = RequestContext("shop-1", "PLAINTEXT")
    cluster.on(cluster.nodes[1], cluster.nodes[1].broker.serve(produce(), context))
    assert context.truncated and log_end(cluster) == 1


# ---- other fault types --------------------------------------------------------------------------------------------


def test_throttle_fault_sets_throttle_time_and_mutes_the_client(cluster: Cluster) -> None:
    hold(cluster, fault(effect="throttle", throttle_ms=700))
    context = RequestContext("shop-1", "PLAINTEXT")
    answer: Any = cluster.on(cluster.nodes[1], cluster.nodes[1].broker.serve(produce(), context))
    assert (milliseconds(answer.throttle_time), context.muted_ms, log_end(cluster)) == (700, 700, 1)


def test_corrupted_produce_request_is_rejected_by_the_broker(cluster: Cluster) -> None:
    hold(cluster, fault(effect="corrupt", topic="orders"))
    answer = ask(cluster, produce("orders", "payments"))
    assert produced_errors(answer) == {"orders": ["corrupt_message"], "payments": ["none"]}


def test_corrupt_fetch_fault_is_used_only_by_responses_with_data(cluster: Cluster) -> None:
    hold(cluster, fault(api="Fetch", effect="corrupt", topic="orders", times=1))
    ask(cluster, fetch())
    assert counts(cluster) == {"f1": [0, 0]}
    ask(cluster, produce())
    damaged: Any = ask(cluster, fetch())
    records = bytes(damaged.responses[0].partitions[0].records)
    header = read_header(records)
    assert header is not None and not checksum_holds(records, 0, header)
    assert counts(cluster) == {"f1": [1, 1]}
    whole: Any = ask(cluster, fetch())
    assert whole.responses[0].partitions[0].records != records


def test_stale_metadata_fault_returns_the_previous_leader() -> None:
    cluster = Cluster(2).start()
    cluster.run(cluster.client.create_topic("orders", assignment={0: (1, 2)}))
    cluster.wait(200)
    node = cluster.nodes[2]
    node.broker.hold_faults([fault(api="Metadata", effect="stale", topic="orders", for_ms=60_000)])
    cluster.nodes[1].kill()
    cluster.expire(cluster.nodes[1])
    cluster.wait(2_000)

    def leaders() -> list[tuple[str, list[int]]]:
        asked = request(ApiKey.METADATA, 9, topics=[{"name": "orders"}])
        answer: Any = cluster.on(node, node.broker.handle(asked, "shop-1", "PLAINTEXT"))
        return [(topic.error_code.name, [row.leader_id for row in topic.partitions]) for topic in answer.topics]

    assert leaders() == [("none", [1])]
    node.broker.hold_faults([])
    assert leaders() == [("none", [2])]
    cluster.stop_all()


def test_stale_metadata_fault_omits_topics_created_after_it(cluster: Cluster) -> None:
    hold(cluster, fault(api="Metadata", effect="stale"))
    cluster.run(cluster.client.create_topic("later", assignment={0: (1,)}))
    cluster.wait(200)
    answer: Any = ask(cluster, request(ApiKey.METADATA, 9, topics=[{"name": "later"}]))
    assert [topic.error_code.name for topic in answer.topics] == ["unknown_topic_or_partition"]


# ---- hit counts and the journal ------------------------------------------------------------------------------------


def test_applied_request_fault_is_journaled_with_its_cause(cluster: Cluster) -> None:
    hold(cluster, fault(effect="error", error="NOT_LEADER_OR_FOLLOWER", topic="orders", every=2))
    for _ in range(4):
        ask(cluster, produce())
    assert cluster.nodes[1].of(RequestFaultApplied) == [
        RequestFaultApplied("f1", "Produce", "shop-1", "orders-0", "error", use, "fault f1") for use in (1, 2)
    ]
    assert counts(cluster) == {"f1": [4, 2]}


def test_request_faults_do_not_apply_to_broker_requests(cluster: Cluster) -> None:
    hold(cluster, fault(api="*", effect="close"))
    assert ask(cluster, request(ApiKey.METADATA, 9, topics=[]), client_id="broker-2") is not None
    assert counts(cluster) == {"f1": [0, 0]}


def test_removed_request_faults_have_no_effect_and_no_counts(cluster: Cluster) -> None:
    hold(cluster, fault(effect="close"))
    hold(cluster)
    assert produced_errors(ask(cluster, produce())) == {"orders": ["none"]}
    assert counts(cluster) == {}
