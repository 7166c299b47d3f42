"""Settings for all tests: garbage collection, Hypothesis, and the plugins of child processes."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Set no deadline: on a busy machine, an example can take long without an error.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


PLUGINS_NOT_IN_CHILDREN = ("schemathesis", "hypothesispytest")
"""Plugins that a pytest process started by a test does not load: to import them takes most of its time."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Disable plugins in the pytest processes that tests start, but not in the workers of this session."""
    if not session.config.getoption("numprocesses", None):
        os.environ.setdefault("PYTEST_ADDOPTS", " ".join(f"-p no:{name}" for name in PLUGINS_NOT_IN_CHILDREN))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable garbage collection during test collection, and exempt what exists then from it for good.

    Modules and tests stay in memory anyway. Searching them for garbage costs each worker nine seconds during the
    collection, and a tenth of a second whenever a simulated world ends. The tests themselves neither freeze nor
    unfreeze objects: a peer's snapshot freezes all existing ones (`gc.freeze`), and in frozen garbage, files are
    finalized before the objects that would close them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()
        vars(gc).update(freeze=_nothing, unfreeze=_nothing)


def _nothing() -> None:
    pass
