"""The transaction coordinator, compared with TransactionCoordinator and KafkaApis of Kafka 3.9.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.transactions.transaction_driver import (
    ID,
    P0,
    P1,
    TIMEOUT_MS,
    Given,
    Transactions,
    a_cluster,
    find,
)
from zabka.broker_sim.transactions.metadata import TransactionMetadata, TransactionState
from zabka.journal.events import TopicPartition, TransactionChanged
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds

NONE = ErrorCode.none
S = TransactionState
MISSING = TopicPartition("orders", 9)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = a_cluster(1)
    yield made
    made.stop_all()


@pytest.fixture
def transactions(cluster: Cluster) -> Transactions:
    return Transactions(cluster)


# ---- FindCoordinator ------------------------------------------------------------------------------------------


def test_transaction_state_topic_is_created_on_demand() -> None:
    cluster = Cluster(1, transaction_state_log_replication_factor="1", transaction_state_log_segment_bytes="1048576",
                      transaction_state_log_min_isr="1", transaction_state_log_num_partitions="7",
                      auto_create_topics_enable="false").start()  # fmt: skip
    node = cluster.controller
    assert find(node).error_code is ErrorCode.coordinator_not_available
    cluster.wait(3_000)
    found = find(node)
    assert (found.error_code, found.node_id) == (NONE, 1)
    settings = node.broker.replicas.settings(TopicPartition("__transaction_state", 6))
    assert settings is not None
    assert (settings.compacts, settings.deletes, settings.segment_bytes) == (True, False, 1_048_576)
    assert settings.min_insync_replicas == 1
    assert node.broker.metadata.partition(TopicPartition("__transaction_state", 7)) is None
    cluster.stop_all()


@pytest.mark.parametrize("version", [1, 2, 3, 4, 6])
def test_find_coordinator_supports_every_version(transactions: Transactions, version: int) -> None:
    found = find(transactions.coordinator, version)
    assert (found.error_code, found.node_id) == (NONE, transactions.coordinator.broker_id)


# ---- InitProducerId -------------------------------------------------------------------------------------------


def test_each_init_producer_id_increments_the_epoch(transactions: Transactions) -> None:
    first, second = transactions.init(), transactions.init()
    assert (first.error, first.epoch, second) == (NONE, 0, Given(NONE, first.producer_id, 1))


def test_producer_can_resume_with_its_current_epoch(transactions: Transactions) -> None:
    first = transactions.init()
    assert transactions.init(had=first) == Given(NONE, first.producer_id, 1)
    assert transactions.init(had=first) == Given(NONE, first.producer_id, 1)
    transactions.init()
    assert transactions.init(had=first).error is ErrorCode.producer_fenced
    assert transactions.init(had=first, version=3).error is ErrorCode.invalid_producer_epoch


def test_init_producer_id_for_an_unknown_producer_id_is_fenced(transactions: Transactions) -> None:
    first = transactions.init()
    stranger = Given(NONE, first.producer_id + 5_000, 0)
    assert transactions.init(had=stranger).error is ErrorCode.producer_fenced


@pytest.mark.parametrize(("timeout_ms", "error"), [
    (900_000, NONE), (900_001, ErrorCode.invalid_transaction_timeout), (0, ErrorCode.invalid_transaction_timeout),
])  # fmt: skip
def test_transaction_timeout_is_limited(transactions: Transactions, timeout_ms: int, error: ErrorCode) -> None:
    assert transactions.init(timeout_ms=timeout_ms).error is error


def test_transaction_max_timeout_ms_takes_effect() -> None:
    cluster = a_cluster(1, transaction_max_timeout_ms="5000")
    transactions = Transactions(cluster)
    assert transactions.init(timeout_ms=5_001).error is ErrorCode.invalid_transaction_timeout
    assert transactions.init(timeout_ms=5_000).error is NONE
    cluster.stop_all()


def test_init_producer_id_rejects_empty_or_incomplete_ids(transactions: Transactions) -> None:
    assert transactions.init(transactional_id="").error is ErrorCode.invalid_request
    assert transactions.init(had=Given(NONE, 5, -1)).error is ErrorCode.invalid_request
    assert transactions.init(had=Given(NONE, -1, 5)).error is ErrorCode.invalid_request


def test_idempotent_producers_get_new_producer_ids(transactions: Transactions) -> None:
    first, second = transactions.init(transactional_id=None), transactions.init(transactional_id=None)
    assert (first.epoch, second.epoch) == (0, 0) and first.producer_id != second.producer_id


def test_producer_with_exhausted_epochs_gets_a_new_producer_id(transactions: Transactions) -> None:
    old = transactions.init()
    transactions.state.producer_epoch = 32_766
    new = transactions.init(had=Given(NONE, old.producer_id, 32_766))
    assert (new.error, new.epoch) == (NONE, 0) and new.producer_id != old.producer_id
    # The producer did not receive the response, so it sends the request again with its previous producer id.
    assert transactions.init(had=Given(NONE, old.producer_id, 32_766)) == new


def test_init_producer_id_first_aborts_the_open_transaction(transactions: Transactions) -> None:
    zombie = transactions.init()
    transactions.add(zombie, P0)
    assert transactions.init().error is ErrorCode.concurrent_transactions
    transactions.cluster.wait(500)
    assert transactions.state.state is S.COMPLETE_ABORT
    assert transactions.init() == Given(NONE, zombie.producer_id, 2)
    assert transactions.end(zombie) is ErrorCode.producer_fenced
    assert transactions.end(zombie, version=1) is ErrorCode.invalid_producer_epoch
    assert transactions.add(zombie, P0) == [ErrorCode.producer_fenced]
    assert transactions.add(zombie, P0, version=1) == [ErrorCode.invalid_producer_epoch]


# ---- AddPartitionsToTxn and AddOffsetsToTxn -------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_add_partitions_starts_the_transaction(transactions: Transactions, version: int) -> None:
    producer = transactions.init()
    assert transactions.add(producer, P0, P1, version=version) == [NONE, NONE]
    assert (transactions.state.state, list(transactions.state.partitions)) == (S.ONGOING, [P0, P1])


def test_unknown_partition_prevents_adding_other_partitions(transactions: Transactions) -> None:
    producer = transactions.init()
    assert transactions.add(producer, P0, MISSING) == [
        ErrorCode.operation_not_attempted, ErrorCode.unknown_topic_or_partition,
    ]  # fmt: skip
    assert transactions.state.state is S.EMPTY


def test_unknown_producer_ids_are_rejected(transactions: Transactions) -> None:
    stranger = Given(NONE, 1, 0)
    assert transactions.add(stranger, P0) == [ErrorCode.invalid_producer_id_mapping]
    transactions.init()
    assert transactions.add(stranger, P0) == [ErrorCode.invalid_producer_id_mapping]
    assert transactions.end(stranger) is ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_can_verify_partitions_of_a_transaction(transactions: Transactions, version: int) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    verified = transactions.batch(producer, P0, P1, verify_only=True, version=version)
    assert verified == [NONE, ErrorCode.transaction_abortable]
    zombie = producer._replace(epoch=7)
    assert transactions.batch(zombie, P0, verify_only=True, version=version) == [ErrorCode.producer_fenced]
    assert list(transactions.state.partitions) == [P0]


def test_batched_add_partitions_request_adds_its_partitions(transactions: Transactions) -> None:
    producer = transactions.init()
    assert transactions.batch(producer, P0, P1, verify_only=False) == [NONE, NONE]
    assert list(transactions.state.partitions) == [P0, P1]


@pytest.mark.parametrize("version", [0, 2, 4])
def test_add_offsets_adds_the_offsets_partition_of_the_group(transactions: Transactions, version: int) -> None:
    producer = transactions.init()
    assert transactions.add_offsets(producer, "group", version) is NONE
    number = transactions.coordinator.broker.groups.store.partition_for("group")
    assert list(transactions.state.partitions) == [TopicPartition("__consumer_offsets", number)]


# ---- EndTxn ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("committed", "state"), [(True, S.COMPLETE_COMMIT), (False, S.COMPLETE_ABORT)])
def test_end_txn_completes_the_transaction_and_can_be_repeated(
    transactions: Transactions, committed: bool, state: TransactionState
) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    assert transactions.end(producer, committed) is NONE
    transactions.cluster.wait(500)
    assert (transactions.state.state, list(transactions.state.partitions)) == (state, [])
    assert transactions.end(producer, committed) is NONE
    assert transactions.end(producer, not committed) is ErrorCode.invalid_txn_state


def test_transaction_without_partitions_cannot_be_ended(transactions: Transactions) -> None:
    assert transactions.end(transactions.init()) is ErrorCode.invalid_txn_state


def test_journal_contains_every_state_change_and_its_reason(transactions: Transactions) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    transactions.end(producer)
    transactions.cluster.wait(500)
    events = transactions.coordinator.of(TransactionChanged)
    assert [(event.state, event.partitions, event.after) for event in events] == [
        ("Empty", [], "producer started"),
        ("Ongoing", ["orders-0"], "partitions added"),
        ("PrepareCommit", ["orders-0"], "ended by its producer"),
        ("CompleteCommit", [], "markers written"),
    ]


def test_state_change_event_has_request_client_and_times(transactions: Transactions) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    transactions.end(producer)
    transactions.cluster.wait(500)
    events = transactions.coordinator.of(TransactionChanged)
    assert [str(event.caused_by) for event in events[:3]] == [
        "request InitProducerId", "request AddPartitionsToTxn", "request EndTxn",
    ]  # fmt: skip
    assert events[3].caused_by.startswith("broker-1#"), "the decision that the markers carried out"
    assert {event.client_id for event in events} == {"tester"}
    assert events[0].started_ms == -1 < events[1].started_ms == events[3].started_ms
    assert events[1].timeout_ms == TIMEOUT_MS


def test_add_offsets_to_txn_is_the_cause_of_its_state_change(transactions: Transactions) -> None:
    transactions.add_offsets(transactions.init(), "group")
    assert transactions.coordinator.of(TransactionChanged)[-1].caused_by == "request AddOffsetsToTxn"


def test_abort_event_refers_to_the_timeout_or_fencing_as_cause(transactions: Transactions) -> None:
    transactions.add(transactions.init(timeout_ms=1_000), P0)
    transactions.cluster.wait(12_000)
    transactions.add(transactions.init(), P0)
    transactions.init()
    aborted = [event for event in transactions.coordinator.of(TransactionChanged) if event.state == "PrepareAbort"]
    assert [(event.after, event.caused_by) for event in aborted] == [
        ("timed out", "timer transaction-abort"), ("fenced", "request InitProducerId"),
    ]  # fmt: skip


# ---- administration -------------------------------------------------------------------------------------------


def test_open_transaction_is_described(transactions: Transactions) -> None:
    producer = transactions.init()
    transactions.add(producer, P0, P1)
    row = transactions.describe()
    assert (row.error_code, row.transaction_state, row.producer_id, row.producer_epoch) == (
        NONE, "Ongoing", producer.producer_id, 0,
    )  # fmt: skip
    assert milliseconds(row.transaction_timeout) == TIMEOUT_MS
    assert [(topic.topic, topic.partitions) for topic in row.topics] == [("orders", (0, 1))]


def test_describing_a_missing_or_empty_transactional_id_fails(transactions: Transactions) -> None:
    assert transactions.describe(ID).error_code is ErrorCode.transactional_id_not_found
    assert transactions.describe("").error_code is ErrorCode.invalid_request


def test_transactions_are_listed_with_filters(transactions: Transactions) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    transactions.cluster.wait(2_000)

    def ids(**filters: Any) -> list[str]:
        return [row.transactional_id for row in transactions.listed(**filters).transaction_states]

    assert ids() == [ID]
    assert ids(state_filters=["Ongoing"]) == [ID]
    assert ids(state_filters=["Empty"]) == []
    assert ids(producer_id_filters=[producer.producer_id]) == [ID]
    assert ids(producer_id_filters=[producer.producer_id + 1]) == []
    assert ids(duration_filter=1_000) == [ID]
    assert ids(duration_filter=10_000) == []
    answer = transactions.listed(state_filters=["Slow", "Ongoing"])
    assert (answer.unknown_state_filters, len(answer.transaction_states)) == (("Slow",), 1)


# ---- timeouts and expiry --------------------------------------------------------------------------------------


def test_timed_out_transaction_is_aborted_and_producer_fenced() -> None:
    cluster = a_cluster(1, transaction_abort_timed_out_transaction_cleanup_interval_ms="1000")
    transactions = Transactions(cluster)
    producer = transactions.init(timeout_ms=5_000)
    transactions.add(producer, P0)
    cluster.wait(4_000)
    assert transactions.state.state is S.ONGOING
    cluster.wait(2_500)
    assert (transactions.state.state, transactions.state.producer_epoch) == (S.COMPLETE_ABORT, 1)
    assert transactions.end(producer) is ErrorCode.producer_fenced
    cluster.stop_all()


def test_unused_transactional_id_expires() -> None:
    cluster = a_cluster(
        1, transactional_id_expiration_ms="10000", transaction_remove_expired_transaction_cleanup_interval_ms="1000"
    )
    transactions = Transactions(cluster)
    first = transactions.init()
    cluster.wait(9_000)
    assert transactions.describe().error_code is NONE
    cluster.wait(3_000)
    assert transactions.describe().error_code is ErrorCode.transactional_id_not_found
    assert transactions.end(first) is ErrorCode.invalid_producer_id_mapping
    again = transactions.init()
    assert again.epoch == 0 and again.producer_id != first.producer_id
    cluster.stop_all()


def test_id_of_an_open_transaction_does_not_expire() -> None:
    cluster = a_cluster(
        1, transactional_id_expiration_ms="10000", transaction_remove_expired_transaction_cleanup_interval_ms="1000"
    )
    transactions = Transactions(cluster)
    transactions.add(transactions.init(), P0)
    cluster.wait(20_000)
    assert transactions.state.state is S.ONGOING
    cluster.stop_all()


def test_request_during_transition_gets_concurrent_transactions(transactions: Transactions) -> None:
    producer = transactions.init()
    metadata: TransactionMetadata = transactions.state
    metadata.prepare_add([P0], 1)
    assert transactions.init().error is ErrorCode.concurrent_transactions
    assert transactions.add(producer, P1) == [ErrorCode.concurrent_transactions]
    assert transactions.end(producer) is ErrorCode.concurrent_transactions


def test_brokers_that_are_not_the_coordinator_return_an_error() -> None:
    cluster = a_cluster(2)
    transactions = Transactions(cluster)
    (other,) = [node for node in cluster.nodes.values() if node is not transactions.coordinator]
    assert transactions.init(node=other).error is ErrorCode.not_coordinator
    answer = transactions.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, other, transactional_ids=[ID])
    assert answer.transaction_states[0].error_code is ErrorCode.not_coordinator
    cluster.stop_all()
