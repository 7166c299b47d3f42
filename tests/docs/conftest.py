"""The cluster that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.started import Started


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Yield a cluster started by the README's first command. At the end, it must stop as described in the README.

    Each module has its own cluster, because commands of different documents create the same topics.
    """
    cluster = Started(tmp_path_factory.mktemp("documents") / "data")
    yield cluster
    assert "stopped" in cluster.end()
