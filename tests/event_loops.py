"""Fixture that runs each test of a module on asyncio's event loop and on uvloop's, which real nodes use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import uvloop


@pytest.fixture(autouse=True, params=["asyncio", "uvloop"])
def each_event_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make `asyncio.run` use the event loop that the fixture's parameter selects, during the test."""
    policy = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy() if request.param == "uvloop" else policy)
    yield
    asyncio.set_event_loop_policy(policy)
