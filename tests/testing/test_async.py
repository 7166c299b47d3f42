"""Asynchronous tests: `async with`, anyio's plugin, and unittest."""

from __future__ import annotations

import asyncio
import unittest
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.testing.test_product import run_pytest
from zabka.testing import ClusterFailed, running_cluster, running_ensemble

ASYNC_TEST = """
import pytest
from aiokafka import AIOKafkaProducer
from zabka.testing import running_cluster

{mark}
async def test_it(zabka_cluster):
    zabka_cluster.topics.create("orders")
    async with AIOKafkaProducer(acks="all", **zabka_cluster.client_config("aiokafka")) as producer:
        await producer.send_and_wait("orders", b"a")
    assert await zabka_cluster.aio.consume("orders") == ["a"]
    await zabka_cluster.aio.until(lambda: zabka_cluster.controller)
"""


class TestWithUnittest(unittest.IsolatedAsyncioTestCase):
    """A user's test case."""

    async def asyncSetUp(self) -> None:
        self.cluster = await self.enterAsyncContext(running_cluster(peers=1, brokers=1))

    async def test_consumer_reads_the_produced_records(self) -> None:
        await asyncio.to_thread(self.cluster.topics.create, "orders")
        config = self.cluster.client_config("aiokafka")
        async with AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait("orders", b"a")
        async with AIOKafkaConsumer("orders", auto_offset_reset="earliest", group_id="g", **config) as consumer:
            assert (await consumer.getone()).value == b"a"
            await asyncio.to_thread(self.cluster.until_stable, "g", 1)


def test_async_context_stops_its_processes() -> None:
    async def use() -> Path:
        async with running_ensemble(peers=1) as ensemble:
            assert await ensemble.aio.until(lambda: ensemble.zab_leader)
            return ensemble.data

    assert not asyncio.run(use()).exists()


def test_async_context_raises_the_reason_if_the_start_failed() -> None:
    async def use() -> None:
        async with running_cluster(peers=0):
            pass

    with pytest.raises(ClusterFailed, match="takes 1 to 255, not 0"):
        asyncio.run(use())


def test_cancelled_start_leaves_no_processes(tmp_path: Path) -> None:
    async def use() -> None:
        async with asyncio.timeout(0.1), running_ensemble(peers=1, data=tmp_path):
            pass

    with pytest.raises(TimeoutError):
        asyncio.run(use())
    with running_ensemble(peers=1, data=tmp_path) as again:
        assert again.zab_leader is not None


def test_cluster_fixture_works_in_async_tests_of_anyio(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(ASYNC_TEST.format(mark="@pytest.mark.anyio"))
    (tmp_path / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    )
    arguments = ("-p", "anyio.pytest_plugin", "--zabka-peers", "1", "--zabka-brokers", "1")
    output = run_pytest(tmp_path, *arguments, f"--basetemp={tmp_path / 'temporary'}", "test_mine.py", code=0)
    assert "1 passed" in output
