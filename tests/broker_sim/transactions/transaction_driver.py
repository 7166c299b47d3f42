"""Transactional producers for tests. A test sends a producer's request, and need not wait for the response."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster, Node
from zabka.broker_sim.transactions.metadata import TransactionMetadata
from zabka.journal.events import TopicPartition
from zabka.kafka.wire.kafka_schema import ApiKey, request

ID = "payments"
TIMEOUT_MS = 60_000
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Given(NamedTuple):
    """Result of an InitProducerId request."""

    error: ErrorCode
    producer_id: int = -1
    epoch: int = -1


def a_cluster(brokers: int = 3, **keys: str) -> Cluster:
    """Start brokers with a topic and a `__transaction_state` topic of four partitions, all with leaders."""
    keys = {"transaction_state_log_num_partitions": "4", "offsets_topic_num_partitions": "4", **keys}
    keys.setdefault("transaction_state_log_replication_factor", str(min(3, brokers)))
    keys.setdefault("transaction_state_log_min_isr", str(min(2, brokers)))
    keys.setdefault("offsets_topic_replication_factor", str(min(3, brokers)))
    cluster = Cluster(brokers, **keys).start()
    cluster.run(cluster.client.create_topic("orders", 2, min(3, brokers)))
    find(cluster.controller)
    cluster.wait(3_000)
    return cluster


def find(node: Node, version: int = 6, key_type: int = 1) -> Any:
    """Send FindCoordinator to that broker, and return the response."""
    asked = request(ApiKey.FIND_COORDINATOR, version, key_type=key_type, coordinator_keys=[ID], key=ID)
    answer = node.cluster.on(node, node.broker.handle(asked, "c", "PLAINTEXT"))
    return answer.coordinators[0] if version >= 4 else answer


class Transactions:
    """Producers with the same transactional id. They send requests to its current coordinator."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def partition(self) -> TopicPartition:
        any_node = next(iter(self.cluster.nodes.values()))
        return TopicPartition("__transaction_state", any_node.broker.transactions.store.partition_for(ID))

    @property
    def coordinator(self) -> Node:
        leaders = [
            node
            for node in self.cluster.nodes.values()
            if not node.runtime.stopped and self.partition in node.broker.replicas.partitions
            if node.broker.replicas.partitions[self.partition].is_leader
        ]
        return max(leaders, key=lambda node: node.broker.replicas.partitions[self.partition].leader_epoch)

    @property
    def state(self) -> TransactionMetadata:
        coordinated = self.coordinator.broker.transactions.store.find(ID)
        assert coordinated is not None
        return coordinated.metadata

    def ask(self, key: ApiKey, version: int, node: Node | None = None, **values: Any) -> Any:
        at = node or self.coordinator
        return self.cluster.on(at, at.broker.handle(request(key, version, **values), "tester", "PLAINTEXT"))

    def init(
        self,
        version: int = 5,
        timeout_ms: int = TIMEOUT_MS,
        had: Given | None = None,
        transactional_id: str | None = ID,
        node: Node | None = None,
    ) -> Given:
        answer = self.ask(
            ApiKey.INIT_PRODUCER_ID,
            version,
            node,
            transactional_id=transactional_id,
            transaction_timeout=timeout_ms,
            producer_id=-1 if had is None else had.producer_id,
            producer_epoch=-1 if had is None else had.epoch,
        )
        return Given(ErrorCode(answer.error_code), int(answer.producer_id), int(answer.producer_epoch))

    def add(self, producer: Given, *partitions: TopicPartition, version: int = 3) -> list[ErrorCode]:
        answer = self.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics_of(partitions),
        )
        return errors_of(answer.results_by_topic_v3_and_below)

    def batch(self, producer: Given, *partitions: TopicPartition, verify_only: bool, version: int = 5) -> Any:
        row = {
            "transactional_id": ID,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "verify_only": verify_only,
            "topics": topics_of(partitions),
        }
        (result,) = self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[row]).results_by_transaction
        assert result.transactional_id == ID
        return errors_of(result.topic_results)

    def add_offsets(self, producer: Given, group_id: str, version: int = 4) -> ErrorCode:
        answer = self.ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            version,
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )
        return ErrorCode(answer.error_code)

    def end(self, producer: Given, committed: bool = True, version: int = 4) -> ErrorCode:
        answer = self.ask(
            ApiKey.END_TXN,
            version,
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        return ErrorCode(answer.error_code)

    def describe(self, transactional_id: str = ID) -> Any:
        answer = self.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id])
        return answer.transaction_states[0]

    def listed(self, **filters: Any) -> Any:
        return self.ask(ApiKey.LIST_TRANSACTIONS, 1, **{"duration_filter": -1, **filters})


def topics_of(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()]


def errors_of(topics: Iterable[Any]) -> list[ErrorCode]:
    return [ErrorCode(row.partition_error_code) for topic in topics for row in topic.results_by_partition]
