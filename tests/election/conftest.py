"""Fixture `cluster`: each test that uses it runs twice, on virtual time and with real processes.

If another test with real processes covers the same behavior, the variant with real processes runs only in `make
test-long`.
"""

from __future__ import annotations

import pytest

from zabka.testing.cluster import Cluster


@pytest.fixture(params=["simulated", "live"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue("zabka_world" if request.param == "simulated" else "zabka_cluster")
    return found
