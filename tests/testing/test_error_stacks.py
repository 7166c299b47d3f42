"""Several request faults in a row with real brokers, as in librdkafka's mock tests 0105, 0117 and 0144.

The oldest rule of an API applies first. Therefore several rules that each apply once act as a stack of errors.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from zabka.testing import LiveCluster

TOPIC = "orders"


@pytest.fixture
def cluster(zabka_cluster: LiveCluster) -> LiveCluster:
    zabka_cluster.topics.create(TOPIC, partitions=1, replication_factor=3)
    return zabka_cluster


def stack(cluster: LiveCluster, api: str, *errors: str) -> list[Any]:
    """Make the next requests of an API fail with these errors, one error per request."""
    return [cluster.faults.on_request(api).error(error).once() for error in errors]


def is_used_up(faults: list[Any]) -> bool:
    return all(fault.used == 1 for fault in faults)


def producer(cluster: LiveCluster, **config: Any) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **config})


def send(made: Producer, value: bytes) -> int | None:
    """Produce a record. Return the error code of its delivery, or None if it was delivered."""
    errors: list[KafkaError | None] = []
    made.produce(TOPIC, value, on_delivery=lambda error, message: errors.append(error))
    assert made.flush(30) == 0
    (error,) = errors
    return None if error is None else int(error.code())


def consumer(cluster: LiveCluster, group: str, **config: Any) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **config,
        }
    )
    made.subscribe([TOPIC])
    return made


def first(made: Consumer) -> bytes | None:
    """Return the value of the first record that the consumer gets.

    The test fails if the client returns an error instead.
    """
    end = time.monotonic() + 30
    while time.monotonic() < end:
        message = made.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            return message.value()
    raise AssertionError("no record came")


def committed(made: Consumer) -> int:
    (found,) = made.committed([TopicPartition(TOPIC, 0)], timeout=10)
    return int(found.offset)


@pytest.mark.parametrize(("retries", "code"), [(10, None), (1, KafkaError.KAFKA_STORAGE_ERROR)])
def test_producer_retries_storage_errors_up_to_its_limit(cluster: LiveCluster, retries: int, code: int | None) -> None:
    made = producer(cluster, retries=retries, **{"retry.backoff.ms": 50})
    faults = stack(cluster, "Produce", *["KAFKA_STORAGE_ERROR"] * 3)
    assert send(made, b"a") == code
    assert sum(fault.used for fault in faults) == (3 if code is None else 2)
    assert cluster.consume(TOPIC) == (["a"] if code is None else [])


def test_commit_during_a_rebalance_fails_but_fetches_continue(cluster: LiveCluster) -> None:
    made = producer(cluster)
    send(made, b"a")
    member = consumer(cluster, "rebalancing")
    assert first(member) == b"a"
    (fault,) = stack(cluster, "OffsetCommit", "REBALANCE_IN_PROGRESS")
    with pytest.raises(KafkaException) as failed:
        member.commit(asynchronous=False)
    assert failed.value.args[0].code() == KafkaError.REBALANCE_IN_PROGRESS
    send(made, b"b")
    assert (first(member), fault.used) == (b"b", 1)
    member.close()


@pytest.mark.parametrize("closes", [True, False])
def test_commit_is_repeated_until_the_coordinator_has_loaded(cluster: LiveCluster, closes: bool) -> None:
    send(producer(cluster), b"a")
    group = f"committing-{closes}"
    member = consumer(cluster, group, **{"enable.auto.commit": closes, "auto.commit.interval.ms": 90_000})
    assert first(member) == b"a"
    faults = stack(cluster, "OffsetCommit", *["COORDINATOR_LOAD_IN_PROGRESS"] * 2)
    if not closes:
        member.commit(asynchronous=False)
    member.close()
    later = consumer(cluster, group)
    assert (committed(later), is_used_up(faults)) == (1, True)
    later.close()


def test_member_joins_after_several_coordinator_errors(cluster: LiveCluster) -> None:
    send(producer(cluster), b"a")
    faults = stack(cluster, "FindCoordinator", "COORDINATOR_NOT_AVAILABLE")
    faults += stack(cluster, "JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
    member = consumer(cluster, "joining")
    assert (first(member), is_used_up(faults)) == (b"a", True)
    member.close()


def test_transaction_commits_despite_recoverable_errors(cluster: LiveCluster) -> None:
    made = producer(cluster, **{"transactional.id": "recoverable"})
    coordinator = ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS")
    faults = stack(cluster, "InitProducerId", *coordinator)
    made.init_transactions(30)
    made.begin_transaction()
    faults += stack(cluster, "AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS")
    faults += stack(cluster, "Produce", "NOT_ENOUGH_REPLICAS")
    assert send(made, b"a") is None
    member = consumer(cluster, "transactional")
    faults += stack(cluster, "TxnOffsetCommit", "NOT_COORDINATOR")
    made.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 12)], member.consumer_group_metadata(), 30)
    faults += stack(cluster, "EndTxn", *coordinator)
    made.commit_transaction(30)
    assert is_used_up(faults)
    assert committed(member) == 12
    assert [each.value for each in cluster.records(TOPIC, isolation_level="read_committed")] == [b"a"]
    member.close()


def test_unknown_producer_id_aborts_only_one_transaction(cluster: LiveCluster) -> None:
    made = producer(cluster, **{"transactional.id": "unknown"})
    made.init_transactions(30)
    made.begin_transaction()
    assert send(made, b"a") is None
    faults = stack(cluster, "Produce", "UNKNOWN_PRODUCER_ID")
    send(made, b"b")
    with pytest.raises(KafkaException) as failed:
        made.commit_transaction(30)
    assert failed.value.args[0].txn_requires_abort() and not failed.value.args[0].fatal()
    made.abort_transaction(30)
    made.begin_transaction()
    assert send(made, b"c") is None
    made.commit_transaction(30)
    assert is_used_up(faults)
    assert [each.value for each in cluster.records(TOPIC, isolation_level="read_committed")] == [b"c"]


def test_fenced_producer_has_a_fatal_error(cluster: LiveCluster) -> None:
    made = producer(cluster, **{"transactional.id": "fenced"})
    made.init_transactions(30)
    made.begin_transaction()
    assert send(made, b"a") is None
    stack(cluster, "EndTxn", "INVALID_PRODUCER_EPOCH")
    with pytest.raises(KafkaException) as failed:
        made.commit_transaction(30)
    assert failed.value.args[0].fatal()


def test_late_response_times_out_although_the_record_is_stored(cluster: LiveCluster) -> None:
    made = producer(cluster, **{"message.timeout.ms": 1_000, "enable.idempotence": False})
    assert send(made, b"a") is None
    fault = cluster.faults.on_request("Produce").delay_after(3_000).once()
    assert send(made, b"b") == KafkaError._MSG_TIMED_OUT
    assert (cluster.consume(TOPIC), fault.used) == (["a", "b"], 1)


def test_record_order_is_kept_despite_lost_responses_and_errors(cluster: LiveCluster) -> None:
    """Records stay in order if a response is lost and a later request is rejected.

    Five requests are in flight. The response to the first is lost, and a later request, which may be its retry, is
    rejected.
    """
    made = producer(cluster, **{"enable.idempotence": True, "batch.num.messages": 1, "linger.ms": 0})
    assert send(made, b"0") is None
    lost = cluster.faults.on_request("Produce").drop_response().once()
    faults = stack(cluster, "Produce", "NOT_ENOUGH_REPLICAS")
    errors: list[KafkaError | None] = []
    for number in range(1, 6):
        made.produce(TOPIC, str(number), on_delivery=lambda error, message: errors.append(error))
    assert made.flush(30) == 0
    assert (errors, lost.used, is_used_up(faults)) == ([None] * 5, 1, True)
    assert cluster.consume(TOPIC) == ["0", "1", "2", "3", "4", "5"]


def test_slow_coordinator_causes_a_retriable_error(cluster: LiveCluster) -> None:
    made = producer(cluster, **{"transactional.id": "slow"})
    fault = cluster.faults.on_request("InitProducerId").delay_before(3_000).once()
    with pytest.raises(KafkaException) as failed:
        made.init_transactions(1)
    assert failed.value.args[0].retriable()
    made.init_transactions(30)
    assert fault.used == 1


@pytest.mark.parametrize("commits", [True, False])
def test_transaction_completes_although_every_response_is_late(cluster: LiveCluster, commits: bool) -> None:
    made = producer(cluster, **{"transactional.id": f"late-{commits}", "client.id": "late"})
    made.init_transactions(30)
    made.begin_transaction()
    assert send(made, b"a") is None
    fault = cluster.faults.on_request("*", client_id="late").delay_before(700).until_removed()
    made.produce(TOPIC, b"b")
    if commits:
        made.commit_transaction(30)
    else:
        made.abort_transaction(30)
    assert fault.used > 0
    fault.heal()
    found = [each.value for each in cluster.records(TOPIC, isolation_level="read_committed")]
    assert found == ([b"a", b"b"] if commits else [])
