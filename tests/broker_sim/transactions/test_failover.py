"""The coordinator of a transactional id moves with its `__transaction_state` partition.

If the commit or abort of a transaction was decided, any new coordinator completes the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster, Node
from tests.broker_sim.transactions.transaction_driver import ID, P0, P1, Given, Transactions, a_cluster
from zabka.broker_sim.transactions.metadata import TransactionState
from zabka.journal.events import TopicPartition, TransactionChanged
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, respond

NONE = ErrorCode.none
S = TransactionState


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = a_cluster()
    yield made
    made.stop_all()


@pytest.fixture
def transactions(cluster: Cluster) -> Transactions:
    return Transactions(cluster)


class Markers:
    """WriteTxnMarkers handler for all brokers. For each partition, it first returns the errors set by the test, and
    then success.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.errors: dict[TopicPartition, list[ErrorCode]] = {}
        self.received: list[tuple[int, int, int, bool, list[TopicPartition], int]] = []
        """Received markers as (broker id, producer id, producer epoch, is commit, partitions, coordinator epoch)."""
        for node in cluster.nodes.values():
            self._replace(node)

    def _replace(self, node: Node) -> None:
        async def answer(request: Any, context: Any) -> Any:
            assert api_key_of(request) == ApiKey.WRITE_TXN_MARKERS
            return respond(request, markers=[self._row(node, marker) for marker in request.markers])

        node.broker._handlers[ApiKey.WRITE_TXN_MARKERS] = answer

    def _row(self, node: Node, marker: Any) -> dict[str, Any]:
        partitions = [TopicPartition(topic.name, each) for topic in marker.topics for each in topic.partition_indexes]
        self.received.append(
            (node.broker_id, int(marker.producer_id), int(marker.producer_epoch), marker.transaction_result,
             partitions, int(marker.coordinator_epoch))
        )  # fmt: skip
        topics = [
            {"name": topic, "partitions": [{"partition_index": number, "error_code": self._error((topic, number))}]}
            for topic, number in partitions
        ]
        return {"producer_id": marker.producer_id, "topics": topics}

    def _error(self, partition: tuple[str, int]) -> ErrorCode:
        waiting = self.errors.get(TopicPartition(*partition), [])
        return waiting.pop(0) if waiting else NONE


class LostAnswers:
    """WriteTxnMarkers handler that lets brokers write markers but can lose their responses.

    While `loses` is set, the coordinator gets timeouts instead of the responses.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.loses = True
        self.count = 0
        for node in cluster.nodes.values():
            self._replace(node)

    def _replace(self, node: Node) -> None:
        write = node.broker._handlers[ApiKey.WRITE_TXN_MARKERS]

        async def answer(request: Any, context: Any) -> Any:
            self.count += 1
            written = await write(request, context)
            return respond(request, markers=list(map(self._timed_out, written.markers))) if self.loses else written

        node.broker._handlers[ApiKey.WRITE_TXN_MARKERS] = answer

    @staticmethod
    def _timed_out(row: Any) -> dict[str, Any]:
        topics = []
        for topic in row.topics:
            assert {each.error_code for each in topic.partitions} == {NONE}
            numbers = [each.partition_index for each in topic.partitions]
            rows = [{"partition_index": number, "error_code": ErrorCode.request_timed_out} for number in numbers]
            topics.append({"name": topic.name, "partitions": rows})
        return {"producer_id": row.producer_id, "topics": topics}


def fail_over(transactions: Transactions) -> Node:
    """Kill the coordinator with SIGKILL, and return the next coordinator."""
    old = transactions.coordinator
    old.kill()
    transactions.cluster.expire(old)
    transactions.cluster.wait(2_000)
    assert transactions.coordinator is not old
    return transactions.coordinator


def open_transaction(transactions: Transactions) -> Given:
    producer = transactions.init()
    assert transactions.add(producer, P0, P1) == [NONE, NONE]
    return producer


def test_open_transaction_survives_coordinator_failure(transactions: Transactions) -> None:
    producer = open_transaction(transactions)
    fail_over(transactions)
    assert (transactions.state.state, sorted(transactions.state.partitions)) == (S.ONGOING, [P0, P1])
    assert transactions.end(producer) is NONE
    transactions.cluster.wait(1_000)
    assert transactions.state.state is S.COMPLETE_COMMIT


def test_next_coordinator_journals_the_unfinished_transaction(transactions: Transactions) -> None:
    producer = open_transaction(transactions)
    (loaded,) = fail_over(transactions).of(TransactionChanged)
    partition = transactions.partition
    epoch = transactions.coordinator.broker.replicas.partitions[partition].leader_epoch
    assert (loaded.after, loaded.state, loaded.producer_id) == ("loaded", "Ongoing", producer.producer_id)
    assert loaded.caused_by == f"election {partition}@{epoch}"


@pytest.mark.parametrize(("committed", "outcome"), [(True, S.COMPLETE_COMMIT), (False, S.COMPLETE_ABORT)])
def test_next_coordinator_sends_the_markers(
    transactions: Transactions, committed: bool, outcome: TransactionState
) -> None:
    markers = Markers(transactions.cluster)
    markers.errors = {P0: [ErrorCode.not_enough_replicas] * 10_000}
    producer = open_transaction(transactions)
    assert transactions.end(producer, committed) is NONE
    transactions.cluster.wait(500)
    assert list(transactions.state.partitions) == [P0]
    before = markers.received[-1]
    fail_over(transactions)
    markers.errors.clear()
    transactions.cluster.wait(1_000)
    assert transactions.state.state is outcome
    after = markers.received[-1]
    assert after[1:4] == before[1:4] == (producer.producer_id, 0, committed)
    assert after[5] > before[5]


def test_each_partition_leader_receives_its_markers(transactions: Transactions) -> None:
    markers = Markers(transactions.cluster)
    producer = open_transaction(transactions)
    transactions.end(producer)
    transactions.cluster.wait(500)
    leaders = {
        each: transactions.coordinator.broker.metadata.partition(each).leader  # type: ignore[union-attr]
        for each in (P0, P1)
    }
    assert {(row[0], each) for row in markers.received for each in row[4]} == {
        (leader, each) for each, leader in leaders.items()
    }
    assert transactions.state.state is S.COMPLETE_COMMIT


@pytest.mark.parametrize("fails_over", [False, True])
def test_markers_with_lost_responses_are_written_again(transactions: Transactions, fails_over: bool) -> None:
    """A new or retrying coordinator writes markers again after their responses were lost.

    KAFKA-19999: with transaction version 2, Kafka rejects repeated markers with the same epoch, so that the transaction
    never completes. Version 1, as here, accepts them.
    """
    answers = LostAnswers(transactions.cluster)
    producer = open_transaction(transactions)
    assert transactions.end(producer) is NONE
    transactions.cluster.wait(1_000)
    assert transactions.state.state is S.PREPARE_COMMIT and answers.count > 4
    if fails_over:
        fail_over(transactions)
    answers.loses = False
    transactions.cluster.wait(1_000)
    assert transactions.state.state is S.COMPLETE_COMMIT
    assert transactions.add(producer, P0) == [NONE]


@pytest.mark.parametrize("error", [
    ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append, ErrorCode.request_timed_out, ErrorCode.kafka_storage_error,
])  # fmt: skip
def test_marker_is_resent_after_a_transient_error(transactions: Transactions, error: ErrorCode) -> None:
    markers = Markers(transactions.cluster)
    markers.errors = {P1: [error, error]}
    transactions.end(open_transaction(transactions))
    transactions.cluster.wait(1_000)
    assert transactions.state.state is S.COMPLETE_COMMIT
    sent = [each for row in markers.received for each in row[4]]
    assert (sent.count(P0), sent.count(P1)) == (1, 3)


@pytest.mark.parametrize("error", [ErrorCode.unsupported_for_message_format, ErrorCode.unsupported_version])
def test_marker_unsupported_by_a_partition_log_counts_as_written(transactions: Transactions, error: ErrorCode) -> None:
    markers = Markers(transactions.cluster)
    markers.errors = {P0: [error]}
    transactions.end(open_transaction(transactions))
    transactions.cluster.wait(1_000)
    assert transactions.state.state is S.COMPLETE_COMMIT


@pytest.mark.parametrize("error", [ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced])
def test_fenced_coordinator_stops_sending_the_marker(transactions: Transactions, error: ErrorCode) -> None:
    markers = Markers(transactions.cluster)
    markers.errors = {P0: [error]}
    transactions.end(open_transaction(transactions))
    transactions.cluster.wait(3_000)
    assert transactions.state.state is S.PREPARE_COMMIT
    assert [each for row in markers.received for each in row[4]].count(P0) == 1


def test_deleted_partition_needs_no_marker(transactions: Transactions) -> None:
    cluster = transactions.cluster
    cluster.run(cluster.client.create_topic("gone", 1, 3))
    cluster.wait(500)
    producer = transactions.init()
    assert transactions.add(producer, TopicPartition("gone", 0)) == [NONE]
    cluster.run(cluster.client.delete_topic("gone"))
    cluster.wait(2_000)
    assert transactions.end(producer) is NONE
    cluster.wait(500)
    assert transactions.state.state is S.COMPLETE_COMMIT


def test_marker_waits_until_its_partition_has_a_leader() -> None:
    cluster = a_cluster(2, transaction_state_log_min_isr="1")
    transactions = Transactions(cluster)
    Markers(cluster)
    (other,) = [node for node in cluster.nodes.values() if node is not transactions.coordinator]
    cluster.run(cluster.client.create_topic("far", 2, 1))
    cluster.wait(500)
    rows = cluster.controller.broker.metadata.partitions("far")
    (far,) = [TopicPartition("far", row.partition) for row in rows if row.leader == other.broker_id]
    producer = transactions.init()
    assert transactions.add(producer, far) == [NONE]
    other.kill()
    cluster.expire(other)
    cluster.wait(5_000)
    assert transactions.end(producer) is NONE
    cluster.wait(5_000)
    assert transactions.state.state is S.PREPARE_COMMIT
    cluster.start(other.broker_id)
    Markers(cluster)
    cluster.wait(10_000)
    assert transactions.state.state is S.COMPLETE_COMMIT
    cluster.stop_all()


def test_transaction_completion_waits_for_enough_replicas(transactions: Transactions) -> None:
    cluster = transactions.cluster
    Markers(cluster)
    producer = open_transaction(transactions)
    transactions.end(producer)
    others = [node for node in cluster.nodes.values() if node is not transactions.coordinator]
    for node in others:
        node.kill()
        cluster.expire(node)
    cluster.wait(8_000)
    coordinator = transactions.coordinator
    assert transactions.end(producer) in (ErrorCode.concurrent_transactions, NONE)
    cluster.start(*(node.broker_id for node in others))
    cluster.wait(10_000)
    assert transactions.coordinator is coordinator
    assert transactions.state.state is S.COMPLETE_COMMIT


def test_coordinator_is_unavailable_with_too_few_replicas(transactions: Transactions) -> None:
    cluster = transactions.cluster
    producer = open_transaction(transactions)
    for node in [node for node in cluster.nodes.values() if node is not transactions.coordinator]:
        node.kill()
        cluster.expire(node)
    cluster.wait(8_000)
    assert transactions.end(producer) is ErrorCode.coordinator_not_available
    assert (transactions.state.state, transactions.state.pending_state) == (S.ONGOING, None)


def test_fencing_after_a_failed_attempt_reuses_its_epoch(transactions: Transactions) -> None:
    cluster = transactions.cluster
    open_transaction(transactions)
    others = [node for node in cluster.nodes.values() if node is not transactions.coordinator]
    for node in others:
        node.kill()
        cluster.expire(node)
    cluster.wait(8_000)
    for _ in range(3):
        assert transactions.init().error is ErrorCode.coordinator_not_available
        assert (transactions.state.producer_epoch, transactions.state.has_failed_epoch_fence) == (1, True)
    cluster.start(*(node.broker_id for node in others))
    cluster.wait(10_000)
    assert transactions.init().error is ErrorCode.concurrent_transactions
    cluster.wait(1_000)
    assert transactions.init().epoch == 2


def test_expired_transactional_id_is_unknown_to_next_coordinator() -> None:
    cluster = a_cluster(
        3, transactional_id_expiration_ms="10000", transaction_remove_expired_transaction_cleanup_interval_ms="1000"
    )
    transactions = Transactions(cluster)
    transactions.init()
    cluster.wait(12_000)
    fail_over(transactions)
    assert transactions.describe(ID).error_code is ErrorCode.transactional_id_not_found
    cluster.stop_all()


def test_restarted_brokers_load_all_transactional_ids(transactions: Transactions) -> None:
    cluster = transactions.cluster
    producer = open_transaction(transactions)
    for node in cluster.nodes.values():
        cluster.on(node, node.broker.stop())
        node.runtime.stop()
    cluster.start()
    cluster.wait(5_000)
    state = transactions.state
    assert (state.state, state.producer_id, state.timeout_ms) == (S.ONGOING, producer.producer_id, 60_000)
