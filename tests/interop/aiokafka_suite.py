"""aiokafka's own test suite in simulated worlds: a pytest plugin that replaces the suite's conftest.py.

    cp aiokafka_suite.py COPY_OF_AIOKAFKA && cd COPY_OF_AIOKAFKA && rm tests/conftest.py
    PYTHONHASHSEED=0 PYTHONPATH=. pytest -p aiokafka_suite tests

`docs/how-to/test-your-own-code.md` has the results. Each test class gets a world with one broker. The class uses the
event loop of a program in this world, which runs until the awaited coroutine has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from zabka.testing import running_world
from zabka.testing.worlds.cluster import SimulatedCluster

KAFKA_VERSION = "3.9.1"
SETTINGS = {
    "auto.create.topics.enable": "true",
    "num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
LIMIT_MS = 600_000


class SuiteLoop:
    """Event loop of a program in a simulated world.

    It has `run_until_complete` for the tests, which run outside that world.
    """

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world
        self._machine = world.world.start_service("suite", _forever)
        world.let_pass(0.1)

    def run_until_complete(self, work: Awaitable[Any]) -> Any:
        """Advance the simulated world until the coroutine has completed, and return its result."""

        async def do() -> Any:
            return await work

        assert self._machine.process is not None, "the program never ends"
        task = self._machine.process.loop.create_task(do())
        return self._world.world.until_done(task, LIMIT_MS)

    def __getattr__(self, name: str) -> Any:
        assert self._machine.process is not None, "the program never ends"
        return getattr(self._machine.process.loop, name)


async def _forever(_: str) -> None:
    await asyncio.get_running_loop().create_future()


@pytest.fixture(scope="class")
def world() -> Iterator[SimulatedCluster]:
    """Yield a simulated world with one broker, which creates missing topics with two partitions."""
    with running_world(peers=1, brokers=1, settings=SETTINGS) as started:
        yield started


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest, world: SimulatedCluster) -> None:
    """Set the event loop of a test class to the loop of a simulated program."""
    cls: Any = request.cls
    cls.loop = SuiteLoop(world)


@pytest.fixture(scope="class")
def setup_test_class(
    request: pytest.FixtureRequest, world: SimulatedCluster, setup_test_class_serverless: None
) -> None:
    """Set the attributes of a test class that contain the broker's address."""
    cls: Any = request.cls
    host, port = world.world.bootstrap[0]
    cls.kafka_host, cls.kafka_port, cls.hosts = host, port, [f"{host}:{port}"]
    cls.kafka_version = KAFKA_VERSION


for _name in ("ssl_folder", "acl_manager", "kerberos_utils", "kafka_config", "docker"):

    @pytest.fixture(scope="session", name=_name)
    def _refused() -> None:
        pytest.skip("needs a listener with TLS or SASL, or a shell in the broker's container")

    globals()[_name] = _refused
