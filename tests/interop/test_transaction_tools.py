"""kafka-transactions.sh prints the same for our brokers as for Kafka's, and so does `zabka transactions`.

Columns that differ between clusters (ids, times and coordinators) are not compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.kafka_tools import Output, TwoClusters, called, two_clusters
from tests.interop.produced_answers import Wire
from zabka.cli import transactions
from zabka.kafka.record_batch import TRANSACTIONAL, Record, build_batch
from zabka.kafka.wire.kafka_schema import ApiKey

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

WAIT_S = 60.0
TOPIC = "paid"
HANGING_ID, HANGING_EPOCH, OLD_MS = 424_242, 3, 30 * 60_000
BROKER_1 = ("configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
DIFFERENT = {
    "Coordinator", "CoordinatorId", "CurrentTransactionStartTimeMs", "Duration(min)", "LastTimestamp",
    "LatestCoordinatorEpoch", "ProducerId", "TransactionDurationMs",
}  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    with two_clusters(tmp_path_factory.mktemp("transaction-tools")) as clusters:
        clusters.run("topics", "--create", "--topic", TOPIC, "--replica-assignment", "1:2:3,2:3:1")
        open_producers = [transact(bootstrap) for bootstrap in (clusters.kafka, clusters.ours.bootstrap)]
        yield clusters
        del open_producers


def transact(bootstrap: str) -> Producer:
    """Leave one committed, one aborted and one open transaction. Return the producer of the open one."""
    for outcome in ("commits", "aborts", "stays-open"):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": outcome, "transaction.timeout.ms": 600_000}
        )
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(TOPIC, outcome.encode(), partition=partition)
        producer.flush(WAIT_S)
        if outcome == "commits":
            producer.commit_transaction(WAIT_S)
        elif outcome == "aborts":
            producer.abort_transaction(WAIT_S)
    return producer


def table(output: Output) -> list[list[str]]:
    """Return a table without the columns that differ between clusters: the header, followed by the sorted rows."""
    assert output.code == 0, output.err
    header, *rows = [line.split() for line in output.out.splitlines()]
    kept = [number for number, name in enumerate(header) if name not in DIFFERENT]
    # The last column, the partitions, can be missing. Sort the partitions, because Kafka keeps them in a hash
    # set.
    cells = ([row[number] for number in kept if number < len(row)] for row in (header, *sorted(rows)))
    return [[",".join(sorted(cell.split(","))) for cell in row] for row in cells]


def same_tables(both: TwoClusters, *arguments: str) -> list[list[str]]:
    """Run a tool on both clusters, and our own tool on our cluster. Return the rows, which must be equal."""
    kafka, ours = both.run("transactions", *arguments)
    own = called(transactions.main, "--bootstrap-server", both.ours.bootstrap, *arguments)
    found: list[list[str]] = table(kafka)
    assert table(ours) == found
    assert table(own) == found
    return found


def until_complete(both: TwoClusters) -> None:
    """Wait until the markers of the committed and the aborted transaction are written."""
    both.until(lambda output: "CompleteCommit" in output and "CompleteAbort" in output, "transactions", "list")


def test_transactions_are_listed(both: TwoClusters) -> None:
    until_complete(both)
    assert same_tables(both, "list")[1:] == [
        ["aborts", "CompleteAbort"],
        ["commits", "CompleteCommit"],
        ["stays-open", "Ongoing"],
    ]
    assert len(same_tables(both, "list", "--duration-filter", "600000")) == 1


def test_transactional_id_is_described(both: TwoClusters) -> None:
    until_complete(both)
    opened = same_tables(both, "describe", "--transactional-id", "stays-open")[1]
    assert opened == ["stays-open", "0", "Ongoing", "600000", f"{TOPIC}-0,{TOPIC}-1"]
    assert same_tables(both, "describe", "--transactional-id", "commits")[1][2] == "CompleteCommit"


def test_unknown_transactional_id_is_rejected_with_exit_code_1(both: TwoClusters) -> None:
    arguments = ("describe", "--transactional-id", "nothing")
    kafka, ours = both.run("transactions", *arguments)
    own = called(transactions.main, "--bootstrap-server", both.ours.bootstrap, *arguments)
    assert kafka.code == ours.code == own.code == 1
    assert kafka.err.splitlines()[0] == ours.err.splitlines()[0]
    for output in (kafka, own):
        assert output.err.startswith("Failed to describe transaction state of transactional-id `nothing`")


def test_producers_of_a_partition_are_described(both: TwoClusters) -> None:
    until_complete(both)
    rows = same_tables(both, "describe-producers", "--topic", TOPIC, "--partition", "0")
    assert sorted(row[-1] for row in rows[1:]) == ["4", "None", "None"]
    assert same_tables(both, "describe-producers", "--topic", TOPIC, "--partition", "0", "--broker-id", "2") == rows


def hang(both: TwoClusters, bootstrap: str) -> None:
    """Append an old transactional batch of a transaction that no coordinator knows, as was possible before KIP-890."""
    port = int(bootstrap.partition(",")[0].rpartition(":")[2])
    wire = Wire(port)
    try:
        batch = build_batch(
            [Record(None, b"hangs", time.time_ns() // 1_000_000 - OLD_MS)],
            producer_id=HANGING_ID, producer_epoch=HANGING_EPOCH, base_sequence=0, attributes=TRANSACTIONAL,
        )  # fmt: skip
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
        answer = wire.ask(
            ApiKey.PRODUCE, 9, transactional_id="hangs", acks=-1, timeout=10_000, topic_data=data
        )  # fmt: skip
        assert answer.responses[0].partition_responses[0].error_code == 0
    finally:
        wire.close()


def test_hanging_transaction_is_found_and_aborted(both: TwoClusters) -> None:
    key = "transaction.partition.verification.enable"
    for value in ("false", "true"):
        both.run("configs", "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", f"{key}={value}")
        if value == "false":
            both.until(lambda output: f"{key}=false" in output, *BROKER_1)
            for bootstrap in (both.kafka, both.ours.bootstrap):
                hang(both, bootstrap)
    hanging = [TOPIC, "0", str(HANGING_EPOCH), "-1", "5"]
    for limits in (("--topic", TOPIC), ("--topic", TOPIC, "--partition", "0"), ("--broker-id", "1")):
        found = same_tables(both, "find-hanging", *limits)
        assert found[1:] == [hanging], limits
    assert len(same_tables(both, "find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "60")) == 1
    aborted = both.run("transactions", "abort", "--topic", TOPIC, "--partition", "0", "--start-offset", "5")
    assert [output.code for output in aborted] == [0, 0]
    assert len(same_tables(both, "find-hanging", "--topic", TOPIC)) == 1
    for bootstrap in (both.kafka, both.ours.bootstrap):
        assert b"hangs" not in committed(bootstrap)


def committed(bootstrap: str) -> list[bytes | None]:
    """Return the committed records of partition 0 up to the first open transaction."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found
