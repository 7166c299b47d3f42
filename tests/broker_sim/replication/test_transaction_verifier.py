"""A leader's verification requests to a transaction coordinator.

Waiting entries share one request, and a newer entry of the same producer replaces an older one.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.replication.transaction_verifier import TransactionVerifier
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import ChannelBroken, Endpoint
from zabka.kafka.wire.kafka_schema import respond
from zabka.simulation.engine.scheduler import Scheduler

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
COORDINATOR = Endpoint(3, "sim", 9092)


class World:
    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.runtime = SimRuntime(self.scheduler, Random(1))
        self.calls: list[tuple[Any, Any]] = []
        self.verifier = TransactionVerifier(self.runtime, self, lambda _: COORDINATOR, 30_000)

    def call(self, to: Endpoint, message: Any, timeout_ms: int) -> Any:
        answer: Any = self.runtime.future()
        self.calls.append((message, answer))
        return answer

    def forget(self, broker_id: int) -> None:
        raise AssertionError("not used")

    def verify(self, transactional_id: str, *partitions: TopicPartition, epoch: int = 0) -> Any:
        answer = self.verifier.verify(transactional_id, 7, epoch, partitions, True)
        self.settle()
        return answer

    def settle(self) -> None:
        self.scheduler.run_until(self.scheduler.now_us + 1_000)

    def answer(self, error: ErrorCode = ErrorCode.none, **whole: Any) -> None:
        message, answer = self.calls[-1]
        rows = [
            {
                "transactional_id": each.transactional_id,
                "topic_results": [
                    {
                        "name": topic.name,
                        "results_by_partition": [
                            {"partition_index": n, "partition_error_code": error} for n in topic.partitions
                        ],
                    }
                    for topic in each.topics
                ],
            }
            for each in message.transactions
        ]
        answer.set_result(respond(message, results_by_transaction=rows, **whole))
        self.settle()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.runtime.stop()


def test_waiting_verifications_share_the_next_request(world: World) -> None:
    first = world.verify("a", P0)
    second, third = world.verify("b", P0), world.verify("c", P1)
    assert len(world.calls) == 1
    world.answer()
    assert first.result() == {} and len(world.calls) == 2
    assert [each.transactional_id for each in world.calls[-1][0].transactions] == ["b", "c"]
    world.answer(ErrorCode.invalid_txn_state)
    assert second.result() == {P0: ErrorCode.invalid_txn_state}
    assert third.result() == {P1: ErrorCode.invalid_txn_state}


def test_repeated_verification_request_replaces_the_waiting_one(world: World) -> None:
    world.verify("other", P0)
    first, again = world.verify("a", P0), world.verify("a", P0)
    assert first.result() == {P0: ErrorCode.network_exception}
    fenced = world.verify("a", P0, epoch=1)
    assert again.result() == {P0: ErrorCode.invalid_producer_epoch}
    assert world.verify("a", P0, epoch=0).result() == {P0: ErrorCode.invalid_producer_epoch}
    world.answer()
    world.answer()
    assert fenced.result() == {}


def test_broken_connection_fails_all_its_verifications(world: World) -> None:
    first = world.verify("a", P0, P1)
    world.calls[-1][1].set_exception(ChannelBroken("gone"))
    world.settle()
    assert first.result() == dict.fromkeys((P0, P1), ErrorCode.network_exception)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.cluster_authorization_failed, ErrorCode.invalid_txn_state),
        (ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_load_in_progress),
    ],
)
def test_top_level_error_fails_every_verification_of_the_request(
    world: World, error: ErrorCode, expected: ErrorCode
) -> None:
    answer = world.verify("a", P0)
    world.answer(error_code=error)
    assert answer.result() == {P0: expected}
