"""The container engine shared by all tests that need one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.compose.commands import NoEngine
from tests.compose.engine import engine


@pytest.fixture(scope="session")
def container_engine() -> Iterator[None]:
    """Provide an engine that `docker` can reach. If there is none, skip the tests with the reason, or fail in CI."""
    if os.environ.get("ZABKA_TEST_COMPOSE") != "1":
        pytest.skip("make test-compose runs these")
    try:
        with engine():
            yield
    except NoEngine as reason:
        if "CI" in os.environ:
            pytest.fail(str(reason))
        pytest.skip(str(reason))
