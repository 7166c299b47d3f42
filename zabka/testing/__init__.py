"""Clusters for tests: real processes (`running_cluster`) or simulated in virtual time (`running_world`).

The names in `__all__` are the public interface; `tests/testing/surface.txt` lists their members. pytest loads the
fixtures from `pytest_plugin` without an import; `cluster` describes the interface of both kinds of cluster; `live` and
`worlds` implement it. Importing this package loads none of these modules: each name is loaded when it is first used, so
that pytest starts quickly in projects that have zabka installed. The package imports compose, api and simulation;
tests, bench and the command line import the package. To learn the code, read `cluster` first.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zabka.testing.cluster import Cluster as Cluster
    from zabka.testing.cluster import ClusterFailed as ClusterFailed
    from zabka.testing.container import ZabkaContainer as ZabkaContainer
    from zabka.testing.container import ZabkaZooKeeper as ZabkaZooKeeper
    from zabka.testing.live.cluster import LiveCluster as LiveCluster
    from zabka.testing.live.ensemble import LiveEnsemble as LiveEnsemble
    from zabka.testing.live.start import running_cluster as running_cluster
    from zabka.testing.live.start import running_ensemble as running_ensemble
    from zabka.testing.records import Record as Record
    from zabka.testing.state_machine import ClusterMachine as ClusterMachine
    from zabka.testing.worlds.cluster import SimulatedCluster as SimulatedCluster
    from zabka.testing.worlds.cluster import running_world as running_world
    from zabka.testing.worlds.decorator import simulated as simulated
    from zabka.testing.worlds.world import SimulatedWorld as SimulatedWorld

_HOMES = {
    "Cluster": "cluster",
    "ClusterFailed": "cluster",
    "ClusterMachine": "state_machine",
    "LiveCluster": "live.cluster",
    "LiveEnsemble": "live.ensemble",
    "Record": "records",
    "SimulatedCluster": "worlds.cluster",
    "ZabkaContainer": "container",
    "ZabkaZooKeeper": "container",
    "running_cluster": "live.start",
    "running_ensemble": "live.start",
    "running_world": "worlds.cluster",
    "simulated": "worlds.decorator",
    "SimulatedWorld": "worlds.world",
}
__all__ = [
    "Cluster",
    "ClusterFailed",
    "ClusterMachine",
    "LiveCluster",
    "LiveEnsemble",
    "Record",
    "SimulatedCluster",
    "SimulatedWorld",
    "ZabkaContainer",
    "ZabkaZooKeeper",
    "running_cluster",
    "running_ensemble",
    "running_world",
    "simulated",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
