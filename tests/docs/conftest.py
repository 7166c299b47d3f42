"""One cluster for every document."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.started import Started


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Started by the README's first command; ends as it says."""
    cluster = Started(tmp_path_factory.mktemp("documents") / "data")
    yield cluster
    assert "stopped" in cluster.end()
