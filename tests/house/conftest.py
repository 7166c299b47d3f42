"""Frees the syntax trees that the tests in this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house import packages


@pytest.fixture(scope="package", autouse=True)
def _shared_trees() -> Iterator[None]:
    """Free the trees after the last test. Garbage collection would search a million nodes in all later tests."""
    yield
    packages.nodes_of.cache_clear()
