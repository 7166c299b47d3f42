from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_sim.replication.replication_cluster import Cluster


@pytest.fixture(autouse=True)
def no_task_outlives_its_test() -> Iterator[None]:
    yield
    Cluster.stop_all()
