"""What holds for every test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A machine may be busy: how long an example takes proves nothing.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests stay: to look for garbage among them while they come up takes each worker nine seconds."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pytest_runtest_teardown() -> None:
    """Nothing stays frozen, as a peer's snapshots leave what there is: of what is frozen in between, files go before
    those who would have closed them."""
    gc.unfreeze()
