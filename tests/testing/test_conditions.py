"""Waiting for a condition: which errors cause a retry, and the error message after a timeout."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator

import pytest
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaError, KafkaException
from kazoo.exceptions import ConnectionLoss

from zabka.testing import ClusterFailed, LiveCluster, SimulatedCluster, running_world
from zabka.testing.conditions import SOURCE_LINES_MAX, Wait, source_of

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function of importlib.resources that is deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaTimeoutError


@pytest.fixture(scope="module")
def world() -> Iterator[SimulatedCluster]:
    with running_world(peers=1, brokers=1) as made:
        yield made


ERRORS = [
    AssertionError("not yet"),
    KafkaException(KafkaError(KafkaError._TIMED_OUT)),
    KafkaTimeoutError(),
    KafkaConnectionError(),
    ConnectionLoss(),
    ConnectionRefusedError(),
    KeyError("orders"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_condition_is_evaluated_again_after_a_client_error(error: Exception, world: SimulatedCluster) -> None:
    results: list[Exception | str] = [error, "done"]

    def condition() -> str:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    assert world.until(condition) == "done"


def test_programming_error_in_a_condition_ends_the_wait(world: SimulatedCluster) -> None:
    with pytest.raises(ZeroDivisionError):
        world.until(lambda: 1 // 0)


def test_failed_wait_reports_the_condition_source_and_last_value(world: SimulatedCluster) -> None:
    seen = [1, 2]
    with pytest.raises(ClusterFailed) as failed:
        world.until(
            lambda: len(seen) == 3
            and seen[0] == 1, 0.5
        )  # fmt: skip
    assert "`len(seen) == 3 and seen[0] == 1` did not come true within 0.5 s; it last returned False" in str(
        failed.value
    )


def test_failed_wait_reports_source_lines_and_last_exception(world: SimulatedCluster) -> None:
    def has_three() -> bool:
        assert len("ab") == 3, "too few"
        return True

    with pytest.raises(ClusterFailed) as failed:
        world.until(has_three, 0.5, "three letters")
    assert '        assert len("ab") == 3, "too few"\n' in str(failed.value)
    assert "three letters" in str(failed.value) and "it last raised AssertionError: too few" in str(failed.value)


def test_condition_with_a_long_source_is_shown_by_its_repr() -> None:
    long = "def long():\n" + "    pass\n" * 40
    scope: dict[str, object] = {}
    exec(compile(long, "nowhere.py", "exec"), scope)
    made = scope["long"]
    assert callable(made) and source_of(made) == repr(made)
    assert source_of(print) == "<built-in function print>"
    assert len(source_of(Wait.failure).splitlines()) <= SOURCE_LINES_MAX + 1


def test_async_cluster_calls_do_not_block_the_event_loop(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders")
    aio = zabka_cluster.aio
    has_turned = threading.Event()

    async def turn() -> None:
        while True:
            await asyncio.sleep(0.01)
            has_turned.set()

    async def written() -> list[str]:
        return await aio.consume("orders")

    def while_the_loop_turns() -> bool:
        has_turned.clear()
        return has_turned.wait(30)

    async def use() -> None:
        turning = asyncio.create_task(turn())
        await aio.produce("orders", ["a", b"b"])
        assert await aio.until(written) == ["a", "b"]
        assert [r.offset for r in await aio.records("orders")] == [0, 1]
        assert await aio.until(while_the_loop_turns)
        with pytest.raises(ClusterFailed, match=r"`zabka_cluster.consume.*it last returned False"):
            await aio.until(lambda: zabka_cluster.consume("orders") == ["c"], 0.2)
        with pytest.raises(ClusterFailed, match=r"await the call of `cluster\.aio`"):
            zabka_cluster.produce("orders", ["c"])
        turning.cancel()

    asyncio.run(use())
