"""Our brokers with a zookeeper.connect whose path does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench.free_ports import free_ports
from tests.interop.interop_brokers import BrokerCluster, BrokerServer
from tests.interop.interop_servers import running

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


@pytest.mark.parametrize("kind", ["ours", "zookeeper"])
def test_broker_creates_its_zookeeper_chroot(tmp_path: Path, kind: str) -> None:
    (tmp_path / "peers").mkdir()
    with running(kind, 1, tmp_path / "peers") as ensemble:
        chroot = f"{ensemble.hosts}/data/kafka"
        first, second = free_ports(2)
        named = BrokerServer(1, first, tmp_path / "named", chroot)
        unnamed = BrokerServer(-1, second, tmp_path / "unnamed", chroot)
        try:
            # Start this broker first: it must request its id from the ensemble, below the chroot.
            unnamed.start()
            named.start()
            BrokerCluster([named, unnamed], ensemble).until(
                lambda: all(each.status().get("state") == "running" for each in (named, unnamed))
            )
            client = KazooClient(hosts=ensemble.hosts)
            client.start()
            try:
                assert sorted(client.get_children("/data/kafka/brokers/ids")) == ["1", "1001"]
                assert "brokers" not in client.get_children("/")
            finally:
                client.stop()
                client.close()
        finally:
            named.kill()
            unnamed.kill()
