"""Settings for all tests: garbage collection and Hypothesis."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Set no deadline: on a busy machine, an example can take long without an error.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable garbage collection during test collection.

    Modules and tests stay in memory anyway, and searching them for garbage costs each worker nine seconds.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pytest_runtest_teardown() -> None:
    """Unfreeze all objects after each test.

    A peer's snapshot freezes (`gc.freeze`) all existing objects. In frozen garbage, files are finalized before the
    objects that would close them.
    """
    gc.unfreeze()
