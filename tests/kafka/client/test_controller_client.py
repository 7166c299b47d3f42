"""The client sends requests to the current controller, even after another broker became controller.

The tests use virtual time.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.virtual_time.runtime import SimRuntime, run_task
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaFateUnknown, KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage, NeverSent
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, respond
from zabka.simulation.engine.scheduler import Scheduler

FAILOVER_MS = 6_000


class Brokers:
    """Three fake brokers whose metadata contains the same controller. Frozen brokers accept requests and do not
    reply.
    """

    def __init__(self, runtime: SimRuntime) -> None:
        self._runtime = runtime
        self._waiting: dict[int, list[Any]] = {}
        self.controller_id = 1
        self.frozen: set[int] = set()
        self.gone: set[int] = set()
        self.topics: set[str] = set()
        self.carried_out: list[tuple[int, str]] = []

    async def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> KafkaMessage:
        number = int(to.host.removeprefix("broker-"))
        if number in self.gone:
            raise NeverSent(f"broker {number}: connection refused")
        if number in self.frozen:
            await self._silence(to.broker_id, number, timeout_ms)
        return self._metadata(request) if api_key_of(request) == ApiKey.METADATA else self._change(number, request)

    async def _silence(self, key: int, number: int, timeout_ms: int) -> None:
        waits = self._runtime.future()
        self._waiting.setdefault(key, []).append(waits)

        def over(reason: str = "no answer in time") -> None:
            if not waits.done():
                waits.set_exception(ChannelBroken(f"broker {number}: {reason}"))

        self._runtime.call_later(timeout_ms, over)
        await waits

    def forget(self, broker_id: int) -> None:
        for waits in self._waiting.pop(broker_id, []):
            if not waits.done():
                waits.set_exception(ChannelBroken(f"broker {broker_id}: disconnected"))

    def _metadata(self, request: KafkaMessage) -> KafkaMessage:
        rows = [{"node_id": n, "host": f"broker-{n}", "port": 9092} for n in (1, 2, 3)]
        return respond(request, brokers=rows, cluster_id="c", controller_id=self.controller_id, topics=[])

    def _change(self, number: int, request: KafkaMessage) -> KafkaMessage:
        (name,) = (str(row.name) for row in request.topics)
        error = ErrorCode.none
        if number != self.controller_id:
            error = ErrorCode.not_controller
        elif name in self.topics:
            error = ErrorCode.topic_already_exists
        else:
            self.topics.add(name)
            self.carried_out.append((number, name))
        return respond(request, topics=[{"name": name, "error_code": error}])


class Bench:
    """The client under test and its fake brokers."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.runtime = SimRuntime(self.scheduler, Random(0))
        self.brokers = Brokers(self.runtime)
        self.client = AdminClient(self.brokers, self.runtime, [(f"broker-{n}", 9092) for n in (1, 2, 3)])

    def run(self, work: Coroutine[Any, Any, Any]) -> int:
        """Run the coroutine, and return how many milliseconds it took."""
        began_us = self.scheduler.now_us
        run_task(self.scheduler, self.runtime, work, 120_000)
        return (self.scheduler.now_us - began_us) // 1000

    def refused(self, work: Coroutine[Any, Any, Any]) -> Exception:
        """Run the coroutine, and return the exception that it raises."""
        found: list[Exception] = []

        async def attempt() -> None:
            try:
                await work
            except (KafkaRequestFailed, KafkaUnavailable) as refusal:
                found.append(refusal)

        self.run(attempt())
        return found[0]

    def fail_over_to(self, broker_id: int, after_ms: int = FAILOVER_MS) -> None:
        def elected() -> None:
            self.brokers.controller_id = broker_id

        self.runtime.call_later(after_ms, elected)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.runtime.stop()


def test_change_is_retried_if_the_frozen_controller_is_replaced(bench: Bench) -> None:
    bench.brokers.frozen.add(1)
    bench.fail_over_to(2)
    assert bench.run(bench.client.create_topic("orders", timeout_ms=15_000)) < FAILOVER_MS + 1_000
    assert bench.brokers.carried_out == [(2, "orders")]


def test_client_leaves_a_replaced_controller_immediately(bench: Bench) -> None:
    bench.run(bench.client.create_topic("before"))
    bench.brokers.controller_id = 2
    bench.brokers.frozen.add(1)
    assert bench.run(bench.client.create_topic("orders")) < 1_000
    assert bench.brokers.carried_out[1:] == [(2, "orders")]


def test_outcome_of_a_change_by_a_frozen_controller_is_unknown(bench: Bench) -> None:
    bench.brokers.frozen.add(1)
    bench.brokers.topics.add("orders")
    bench.fail_over_to(2)
    refusal = bench.refused(bench.client.create_topic("orders"))
    assert isinstance(refusal, KafkaFateUnknown)
    assert "broker 2 says TOPIC_ALREADY_EXISTS: the change may have been made" in str(refusal)
    assert bench.brokers.carried_out == []


def test_change_has_unknown_outcome_if_no_controller_is_elected(bench: Bench) -> None:
    bench.brokers.frozen.add(1)
    assert isinstance(bench.refused(bench.client.create_topic("orders", timeout_ms=5_000)), KafkaFateUnknown)


def test_change_that_was_never_sent_fails_as_unavailable(bench: Bench) -> None:
    bench.run(bench.client.create_topic("before"))
    bench.brokers.gone.add(1)
    refusal = bench.refused(bench.client.create_topic("orders", timeout_ms=2_000))
    assert (type(refusal), "connection refused" in str(refusal)) == (KafkaUnavailable, True)


def test_definite_rejection_is_raised_with_kafkas_error(bench: Bench) -> None:
    bench.brokers.topics.add("orders")
    refusal = bench.refused(bench.client.create_topic("orders"))
    assert isinstance(refusal, KafkaRequestFailed)
    assert refusal.error is ErrorCode.topic_already_exists


def test_metadata_request_skips_frozen_brokers_quickly(bench: Bench) -> None:
    bench.brokers.frozen |= {1, 2}
    assert bench.run(bench.client.metadata([])) < 2_500
