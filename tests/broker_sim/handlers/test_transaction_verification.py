"""A partition leader verifies a transaction with its coordinator before it appends the first record (KIP-890, part
1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster, Node
from tests.broker_sim.transactional_client import ID, PRODUCER, leader_of, marker, produce, write_markers
from zabka.broker_sim.request_context import RequestContext
from zabka.journal.events import TopicPartition
from zabka.kafka.wire.kafka_schema import ApiKey, request, respond

P0 = TopicPartition("orders", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
NONE = ErrorCode.none


class Coordinator:
    """Coordinator that responds to a broker's AddPartitionsToTxn requests with `error`, and records the requests."""

    def __init__(self, node: Node) -> None:
        self.error = NONE
        self.asked: list[Any] = []
        self.before_answer: Any = None
        node.broker._handlers[ApiKey.ADD_PARTITIONS_TO_TXN] = self.answer

    async def answer(self, message: Any, context: RequestContext) -> Any:
        self.asked += message.transactions
        if self.before_answer is not None:
            await self.before_answer()
        rows = [
            {
                "transactional_id": each.transactional_id,
                "topic_results": [
                    {
                        "name": topic.name,
                        "results_by_partition": [
                            {"partition_index": n, "partition_error_code": self.error} for n in topic.partitions
                        ],
                    }
                    for topic in each.topics
                ],
            }
            for each in message.transactions
        ]
        return respond(message, results_by_transaction=rows)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    keys = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
    made = Cluster(1, offsets_topic_replication_factor="1", **keys).start()
    made.run(made.client.create_topic("orders", 1, 1))
    made.run(made.client.create_topic("__transaction_state", 1, 1))
    made.run(made.client.create_topic("__consumer_offsets", 1, 1))
    made.wait(1_000)
    yield made
    made.stop_all()


@pytest.fixture
def coordinator(cluster: Cluster) -> Coordinator:
    return Coordinator(leader_of(cluster, P0))


def test_only_the_first_batch_of_a_transaction_is_verified(cluster: Cluster, coordinator: Coordinator) -> None:
    assert produce(cluster, P0, 0).error_code is NONE
    assert produce(cluster, P0, 1).error_code is NONE
    (asked,) = coordinator.asked
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.verify_only) == (
        ID, PRODUCER, 0, True,
    )  # fmt: skip
    assert [(topic.name, tuple(topic.partitions)) for topic in asked.topics] == [("orders", (0,))]
    write_markers(cluster, leader_of(cluster, P0), marker(P0, commit=True))
    assert produce(cluster, P0, 2).error_code is NONE
    assert len(coordinator.asked) == 2, "the next transaction is verified again"


def test_late_batch_of_an_aborted_transaction_is_rejected(cluster: Cluster, coordinator: Coordinator) -> None:
    coordinator.error = ErrorCode.invalid_txn_state
    row = produce(cluster, P0, 0)
    assert (row.error_code, row.error_message) == (
        ErrorCode.invalid_txn_state,
        "Partition was not added to the transaction",
    )
    assert leader_of(cluster, P0).broker.replicas.partitions[P0].log.end_offset == 0


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (ErrorCode.concurrent_transactions, 11, ErrorCode.not_enough_replicas),
        (ErrorCode.not_coordinator, 11, ErrorCode.not_enough_replicas),
        (ErrorCode.producer_fenced, 11, ErrorCode.invalid_producer_epoch),
        (ErrorCode.invalid_producer_id_mapping, 11, ErrorCode.invalid_producer_id_mapping),
        (ErrorCode.transaction_abortable, 11, ErrorCode.transaction_abortable),
        (ErrorCode.transaction_abortable, 10, ErrorCode.invalid_txn_state),
    ],
)
def test_transaction_verification_returns_kafkas_error_codes(
    cluster: Cluster, coordinator: Coordinator, error: ErrorCode, version: int, expected: ErrorCode
) -> None:
    coordinator.error = error
    assert produce(cluster, P0, 0, version=version).error_code is expected


def test_verification_without_a_coordinator_is_retriable() -> None:
    cluster = Cluster(1).start()
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    row = produce(cluster, P0, 0)
    assert row.error_code is ErrorCode.not_enough_replicas
    assert row.error_message.endswith("Underlying error: COORDINATOR_NOT_AVAILABLE")
    cluster.stop_all()


def test_batch_is_rejected_if_its_txn_ends_during_verification(cluster: Cluster, coordinator: Coordinator) -> None:
    node = leader_of(cluster, P0)

    async def abort() -> None:
        await node.broker.handle(request(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker(P0, commit=False)]))

    coordinator.before_answer = abort
    assert produce(cluster, P0, 0).error_code is ErrorCode.invalid_txn_state
    coordinator.before_answer = None
    assert produce(cluster, P0, 0).error_code is NONE


def test_batch_after_a_rejected_first_batch_is_out_of_order(cluster: Cluster, coordinator: Coordinator) -> None:
    coordinator.error = ErrorCode.not_coordinator
    produce(cluster, P0, 0)
    coordinator.error = NONE
    assert produce(cluster, P0, 1).error_code is ErrorCode.out_of_order_sequence_number
    assert produce(cluster, P0, 0).error_code is NONE
    assert produce(cluster, P0, 1).error_code is NONE


def test_verification_can_be_disabled_at_run_time(cluster: Cluster, coordinator: Coordinator) -> None:
    coordinator.error = ErrorCode.invalid_txn_state
    assert produce(cluster, P0, 0).error_code is ErrorCode.invalid_txn_state
    resource = {
        "resource_type": 4,
        "resource_name": "",
        "configs": [
            {"name": "transaction.partition.verification.enable", "config_operation": 0, "value": "false"},
        ],
    }
    node = leader_of(cluster, P0)
    message = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    assert cluster.on(node, node.broker.handle(message)).responses[0].error_code is NONE
    cluster.wait(1_000)
    assert produce(cluster, P0, 0).error_code is NONE


def commit(cluster: Cluster) -> ErrorCode:
    node = leader_of(cluster, OFFSETS)
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    message = request(
        ApiKey.TXN_OFFSET_COMMIT, 4, transactional_id=ID, group_id="g", producer_id=PRODUCER, producer_epoch=0,
        generation_id=-1, topics=topics,
    )  # fmt: skip
    answer = cluster.on(node, node.broker.handle(message))
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NONE, NONE),
        (ErrorCode.invalid_txn_state, ErrorCode.invalid_txn_state),
        (ErrorCode.network_exception, ErrorCode.coordinator_load_in_progress),
        (ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
    ],
)
def test_transactional_offset_commit_is_verified(
    cluster: Cluster, coordinator: Coordinator, error: ErrorCode, expected: ErrorCode
) -> None:
    coordinator.error = error
    assert commit(cluster) is expected
    (asked,) = coordinator.asked
    assert [(topic.name, tuple(topic.partitions)) for topic in asked.topics] == [("__consumer_offsets", (0,))]
