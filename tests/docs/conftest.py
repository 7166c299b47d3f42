"""One cluster shared by the tests of all documents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.started import Started


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Cluster started by the README's first command. It must stop as documented."""
    cluster = Started(tmp_path_factory.mktemp("documents") / "data")
    yield cluster
    assert "stopped" in cluster.end()
