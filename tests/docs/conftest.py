"""The cluster that the tests of all documents share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.started import Started


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Yield a cluster started by the README's first command. At the end, it must stop as described in the README."""
    cluster = Started(tmp_path_factory.mktemp("documents") / "data")
    yield cluster
    assert "stopped" in cluster.end()
