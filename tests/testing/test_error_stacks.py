"""Several request faults in a row with real brokers, as in librdkafka's tests of its mock cluster.

The cases are from its tests 0031, 0034, 0076, 0105, 0106, 0113, 0117, 0138 and 0144.

The oldest rule of an API applies first. Therefore several rules that each apply once act as a stack of errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

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


@pytest.mark.parametrize(
    ("error", "retries", "code"),
    [
        ("KAFKA_STORAGE_ERROR", 10, None),
        ("KAFKA_STORAGE_ERROR", 1, KafkaError.KAFKA_STORAGE_ERROR),
        ("CORRUPT_MESSAGE", 10, None),
    ],
)
def test_producer_retries_storage_errors_up_to_its_limit(
    cluster: LiveCluster, error: str, retries: int, code: int | None
) -> None:
    made = producer(cluster, retries=retries, **{"retry.backoff.ms": 50})
    faults = stack(cluster, "Produce", *[error] * 3)
    assert send(made, b"a") == code
    assert sum(fault.used for fault in faults) == (3 if code is None else 2)
    assert cluster.consume(TOPIC) == (["a"] if code is None else [])


def test_failed_commit_during_a_rebalance_does_not_stop_fetches(cluster: LiveCluster) -> None:
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
    # The coordinator rejects the metadata of a member that has not joined if the group has a new generation meanwhile.
    cluster.until(lambda: member.poll(0.1) is not None or bool(member.assignment()))
    faults += stack(cluster, "TxnOffsetCommit", "NOT_COORDINATOR")
    made.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 12)], member.consumer_group_metadata(), 30)
    faults += stack(cluster, "EndTxn", *coordinator)
    made.commit_transaction(30)
    assert is_used_up(faults)
    assert committed(member) == 12
    cluster.until(lambda: committed_values(cluster) == [b"a"], 30)
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
    cluster.until(lambda: committed_values(cluster) == [b"c"], 30)


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
    cluster.until(lambda: committed_values(cluster) == ([b"a", b"b"] if commits else []), 30)


# ---- transactions -------------------------------------------------------------------------------------------------


def transactional(cluster: LiveCluster, name: str, **config: Any) -> Producer:
    """Return a producer in a transaction that has one record."""
    made = producer(cluster, **{"transactional.id": name, **config})
    made.init_transactions(30)
    made.begin_transaction()
    assert send(made, b"a") is None
    return made


def outside(cluster: LiveCluster, group: str) -> Consumer:
    """Return a client that has the group's id but does not join the group."""
    return Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})


def failure(call: Callable[[float], None]) -> KafkaError:
    """Return the error of a call of the transactional API."""
    with pytest.raises(KafkaException) as failed:
        call(30)
    error: KafkaError = failed.value.args[0]
    return error


def committed_values(cluster: LiveCluster) -> list[bytes | None]:
    """Return the committed values.

    The latest may still be missing: a coordinator replies to a commit before it writes the markers, as Kafka's does.
    """
    return [each.value for each in cluster.records(TOPIC, isolation_level="read_committed")]


def commit_another(cluster: LiveCluster, made: Producer) -> None:
    """Commit one more transaction, and check that it is the only committed one."""
    made.begin_transaction()
    assert send(made, b"z") is None
    made.commit_transaction(30)
    cluster.until(lambda: committed_values(cluster) == [b"z"], 30)


@pytest.mark.parametrize("error", ["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"])
def test_fencing_during_producer_id_renewal_is_fatal(cluster: LiveCluster, error: str) -> None:
    made = transactional(cluster, f"renewed-{error}")
    faults = stack(cluster, "InitProducerId", error) + stack(cluster, "Produce", "UNKNOWN_PRODUCER_ID")
    send(made, b"b")
    assert failure(made.abort_transaction).fatal()
    assert is_used_up(faults)


@pytest.mark.parametrize(
    ("errors", "commits", "severity"),
    [
        (["CONCURRENT_TRANSACTIONS"] * 3, True, "none"),
        (["INVALID_PRODUCER_ID_MAPPING"], True, "abort"),
        (["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"], True, "fatal"),
        (["INVALID_PRODUCER_EPOCH"], False, "fatal"),
    ],
)
def test_end_of_transaction_reports_the_severity_of_its_error(
    cluster: LiveCluster, errors: list[str], commits: bool, severity: str
) -> None:
    made = transactional(cluster, f"ended-{errors[0]}-{commits}")
    faults = stack(cluster, "EndTxn", *errors)
    end = made.commit_transaction if commits else made.abort_transaction
    if severity == "none":
        end(30)
    else:
        found = failure(end)
        assert (found.txn_requires_abort(), found.fatal()) == (severity == "abort", severity == "fatal")
    if severity == "abort":
        made.abort_transaction(30)
        commit_another(cluster, made)
    assert is_used_up(faults)


def test_offsets_of_an_aborted_transaction_are_not_committed(cluster: LiveCluster) -> None:
    """Offsets are added after recoverable errors, and an abort still reaches the coordinator."""
    made = transactional(cluster, "offsets")
    member = outside(cluster, "of-the-transaction")
    faults = stack(cluster, "AddOffsetsToTxn", "CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR")
    faults += stack(cluster, "TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_TOPIC_OR_PARTITION")
    made.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 12)], member.consumer_group_metadata(), 30)
    made.abort_transaction(30)
    assert (committed(member), is_used_up(faults)) == (OFFSET_INVALID, True)
    commit_another(cluster, made)
    member.close()


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Produce", "TOPIC_AUTHORIZATION_FAILED"),
        ("AddPartitionsToTxn", "TOPIC_AUTHORIZATION_FAILED"),
        ("AddOffsetsToTxn", "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_authorization_error_requires_an_abort(cluster: LiveCluster, api: str, error: str) -> None:
    cluster.topics.create("payments", partitions=1, replication_factor=3)
    made = transactional(cluster, f"unauthorized-{api}")
    member = outside(cluster, f"unauthorized-{api}")
    faults = stack(cluster, api, error)
    if api == "AddOffsetsToTxn":
        offsets, group = [TopicPartition(TOPIC, 0, 12)], member.consumer_group_metadata()
        found = failure(lambda limit_s: made.send_offsets_to_transaction(offsets, group, limit_s))
        assert found.name() == error
    else:
        made.produce("payments", b"b")
    assert failure(made.commit_transaction).txn_requires_abort()
    made.abort_transaction(30)
    assert is_used_up(faults)
    assert [cluster.records(topic, isolation_level="read_committed") for topic in (TOPIC, "payments")] == [[], []]
    member.close()


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("InitProducerId", "CLUSTER_AUTHORIZATION_FAILED"),
        ("FindCoordinator", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_unauthorized_transactional_id_is_fatal(cluster: LiveCluster, api: str, error: str) -> None:
    made = producer(cluster, **{"transactional.id": "unauthorized"})
    faults = stack(cluster, api, error)
    found = failure(made.init_transactions)
    assert (found.name(), found.fatal(), found.retriable(), is_used_up(faults)) == (error, True, False, True)


# ---- offsets and groups -------------------------------------------------------------------------------------------


def test_watermark_query_times_out_if_the_answer_is_late(cluster: LiveCluster) -> None:
    send(producer(cluster), b"a")
    asking = consumer(cluster, "asking")
    late = cluster.faults.on_request("ListOffsets").delay_before(2_000).once()
    with pytest.raises(KafkaException) as failed:
        asking.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=1)
    assert (failed.value.args[0].code(), late.used) == (KafkaError._TIMED_OUT, 1)
    assert asking.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20) == (0, 1)
    asking.close()


@pytest.mark.parametrize(
    ("reset", "error", "reported"),
    [
        ("earliest", None, None),
        ("earliest", "TOPIC_AUTHORIZATION_FAILED", KafkaError.TOPIC_AUTHORIZATION_FAILED),
        ("error", None, KafkaError._AUTO_OFFSET_RESET),
    ],
)
def test_offset_reset_repeats_a_lost_request_but_reports_errors(
    cluster: LiveCluster, reset: str, error: str | None, reported: int | None
) -> None:
    """The first ListOffsets request is lost or fails, and the consumer sends it again or reports the error.

    With auto.offset.reset=error, the consumer sends no ListOffsets request and reports an error.
    """
    send(producer(cluster), b"a")
    selected = cluster.faults.on_request("ListOffsets")
    fault = selected.error(error).once() if error else selected.close().once()
    member = consumer(cluster, f"reset-{reset}-{error}", **{"auto.offset.reset": reset})
    if reported is None:
        assert first(member) == b"a"
    else:
        assert next(filter(None, (member.poll(0.1) for _ in range(300)))).error().code() == reported
    assert fault.used == (0 if reset == "error" else 1)
    member.close()


def test_unstable_offset_is_fetched_again_until_the_timeout(cluster: LiveCluster) -> None:
    member = outside(cluster, "unstable")
    member.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    faults = stack(cluster, "OffsetFetch", *["UNSTABLE_OFFSET_COMMIT"] * 6)
    assert (committed(member), is_used_up(faults)) == (1, True)
    cluster.faults.on_request("OffsetFetch").error("UNSTABLE_OFFSET_COMMIT").until_removed()
    with pytest.raises(KafkaException) as failed:
        member.committed([TopicPartition(TOPIC, 0)], timeout=0.2)
    assert failed.value.args[0].code() == KafkaError._TIMED_OUT
    cluster.faults.heal()
    member.close()


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Heartbeat", "ILLEGAL_GENERATION"),
        ("OffsetCommit", "ILLEGAL_GENERATION"),
        ("OffsetCommit", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_member_that_lost_its_partitions_joins_again(cluster: LiveCluster, api: str, error: str) -> None:
    """A member that is unknown joins as a new one, while the broker waits for the session of the old one to end.

    franz-go has the cases of OffsetCommit, too (kfake, TestCommitFatalMemberErrorTriggersRejoin).
    """
    send(producer(cluster), b"a")
    seen: list[str] = []
    group = f"lost-{api}-{error}"
    member = consumer(cluster, group, **{"heartbeat.interval.ms": 200, "session.timeout.ms": 6_000})
    member.subscribe(
        [TOPIC],
        on_assign=lambda *_: seen.append("assigned"),
        on_revoke=lambda *_: seen.append("revoked"),
        on_lost=lambda *_: seen.append("lost"),
    )
    assert first(member) == b"a"
    fault = cluster.faults.on_request(api, group=group).error(error).once()
    if api == "OffsetCommit":
        with pytest.raises(KafkaException) as failed:
            member.commit(asynchronous=False)
        assert failed.value.args[0].name() == error
    # The group has no committed offset, so the member reads the record again.
    assert (first(member), seen, fault.used) == (b"a", ["assigned", "lost", "assigned"], 1)
    member.commit(asynchronous=False)
    assert committed(member) == 1
    member.close()


def test_group_session_times_out_while_no_coordinator_is_found(cluster: LiveCluster) -> None:
    """Each failed heartbeat leads to a search for the coordinator (librdkafka's tests 0106 and 0143)."""
    send(producer(cluster), b"a")
    lost: list[Any] = []
    member = consumer(cluster, "expiring", **{"heartbeat.interval.ms": 200, "session.timeout.ms": 6_000})
    member.subscribe([TOPIC], on_lost=lambda *_: lost.append(failed_commit(member)))
    assert first(member) == b"a"
    searches = cluster.faults.on_request("FindCoordinator", group="expiring").delay_before(1).until_removed()
    beats = cluster.faults.on_request("Heartbeat", group="expiring").error("NOT_COORDINATOR").until_removed()
    cluster.until(lambda: member.poll(0.1) is None and lost, 30, "the loss of the partitions")
    assert (beats.used > 1, searches.used > 1) == (True, True)
    beats.heal()
    assert first(member) == b"a"
    assert all(lost)
    member.close()


def failed_commit(member: Consumer) -> str | None:
    """Return the name of the error with which a commit fails, or None if it succeeds."""
    try:
        member.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    except KafkaException as failed:
        return str(failed.args[0].name())
    return None


def test_alter_group_offsets_reports_each_offset_commit_error(cluster: LiveCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    errors = (
        "COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
        "INVALID_GROUP_ID", "INVALID_COMMIT_OFFSET_SIZE", "GROUP_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION",
        "OFFSET_METADATA_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED",
    )  # fmt: skip
    found = {}
    for error in errors:
        stack(cluster, "OffsetCommit", error)
        altered = ConsumerGroupTopicPartitions("altered", [TopicPartition(TOPIC, 0, 3)])
        (future,) = admin.alter_consumer_group_offsets([altered]).values()
        (row,) = future.result(30).topic_partitions
        found[error] = row.error.name() if row.error else None
    named = {"UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART"}
    assert found == {error: named.get(error, error) for error in errors}
