"""Fixtures for aiokafka's own tests: brokers that run already, instead of a container of Docker.

It replaces the suite's conftest.py, and reads the address of a broker and the version from the environment.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop for the tests of a class."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    """The attributes that the suite's classes read."""
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
    """The event loop for classes without a broker."""
    request.cls.loop = loop
