"""ZooKeeper alone: the fixture, the container's interface, and kazoo's harness."""

from __future__ import annotations

import asyncio

import pytest

from zabka.ensemble.client.aio import connect
from zabka.testing import ClusterFailed, LiveEnsemble, ZabkaZooKeeper, running_ensemble
from zabka.testing.kazoo_harness import KazooTestCase, Server


def names(ensemble: LiveEnsemble, create: str = "") -> list[str]:
    async def read() -> list[str]:
        async with connect(ensemble.zookeeper_connect) as client:
            if create:
                await client.create(create)
            return sorted(await client.get_children("/"))

    return asyncio.run(read())


def test_ensemble_survives_the_loss_of_its_leader(zabka_ensemble: LiveEnsemble) -> None:
    names(zabka_ensemble, create="/leader")
    first = zabka_ensemble.until(lambda: zabka_ensemble.zab_leader)
    first.kill()
    zabka_ensemble.until(lambda: zabka_ensemble.zab_leader not in (None, first))
    assert names(zabka_ensemble) == ["leader", "zookeeper"]
    assert zabka_ensemble.until(lambda: zabka_ensemble.events("leader_established"))


def test_ensemble_is_running_and_empty_when_a_test_starts(zabka_ensemble: LiveEnsemble) -> None:
    assert names(zabka_ensemble, create="/consumers") == ["consumers", "zookeeper"]
    zabka_ensemble.peers[2].kill()
    zabka_ensemble.start_test()
    assert names(zabka_ensemble) == ["zookeeper"]
    assert {peer.process for peer in zabka_ensemble.peers.values()} == {"running"}


@pytest.mark.zabka(peers=1)
def test_marker_sets_the_number_of_ensemble_peers(zabka_ensemble: LiveEnsemble) -> None:
    assert list(zabka_ensemble.peers) == [1]
    assert names(zabka_ensemble) == ["zookeeper"]
    assert zabka_ensemble.settings()["clientPort"] in zabka_ensemble.zookeeper_connect


def test_zabka_zookeeper_has_the_interface_of_testcontainers() -> None:
    with ZabkaZooKeeper() as zookeeper:
        host, port = zookeeper.get_container_host_ip(), zookeeper.get_exposed_port()
        assert zookeeper.get_connection_string() == f"{host}:{port}"
        assert names(zookeeper.ensemble) == ["zookeeper"]
        with pytest.raises(ValueError, match="exposes port 2181, not 9092"):
            zookeeper.get_exposed_port(9092)
        data = zookeeper.ensemble.data
    assert not data.exists()
    with pytest.raises(RuntimeError, match="not started"):
        zookeeper.get_connection_string()


def test_invalid_ensemble_setting_raises_cluster_failed() -> None:
    with pytest.raises(ClusterFailed, match="cannot be started"), running_ensemble(settings={"no.such.key": "1"}):
        pass


class TestKazooHarness(KazooTestCase):
    """A user's test case, written for kazoo's harness."""

    def test_kazoo_harness_provides_a_connected_client(self) -> None:
        self.client.create("/leader", b"1", ephemeral=True)
        other = self._get_client()
        other.start()
        assert other.get("/leader")[0] == b"1"
        assert len(self.servers.split(",")) == 3

    def test_kazoo_harness_can_expire_the_session(self) -> None:
        session_id, _ = self.client.client_id
        self.expire_session(self.client.handler.event_object)
        assert self.client.client_id[0] != session_id

    def test_kazoo_harness_can_stop_and_run_servers(self) -> None:
        server: Server = self.cluster[0]
        server.stop()
        assert not server.running
        server.run()
        assert server.running and server.get_logs()
        self.cluster.ensemble.until_ready()
