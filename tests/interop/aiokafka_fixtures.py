"""Fixtures for aiokafka's own tests. They use brokers that already run, instead of a Docker container.

This file replaces the suite's conftest.py, and reads the broker's address and version from the environment.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield an event loop for the tests of one class."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    """Set the attributes that the suite's test classes read, such as the broker's address."""
    host, _, port = os.environ["AIOKAFKA_TESTS_BROKER"].partition(":")
    attributes = {
        "loop": loop,
        "kafka_host": host,
        "kafka_port": int(port),
        "hosts": [f"{host}:{port}"],
        "kafka_version": os.environ["AIOKAFKA_TESTS_KAFKA_VERSION"],
    }
    for name, value in attributes.items():
        setattr(request.cls, name, value)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    """Set the event loop for test classes that need no broker."""
    request.cls.loop = loop
