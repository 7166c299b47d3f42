"""A broker restores its registration if another client changes it. It stops if no ensemble server is reachable."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_sim import broker_world
from zabka.journal import events as e
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import BrokerEndpoint, BrokerInfo

PATH = "/brokers/ids/2"


@pytest.fixture
def cluster() -> Iterator[broker_world.Cluster]:
    made = broker_world.Cluster(3)
    made.start()
    yield made
    made.stop_all()


def registered(cluster: broker_world.Cluster) -> BrokerInfo | None:
    return znodes.decode_broker(2, cluster.ensemble.data(PATH))


@pytest.mark.parametrize(
    "data", [b"rubbish", b"", znodes.encode_broker(BrokerInfo(2, (BrokerEndpoint("PLAINTEXT", "elsewhere", 1),)), 0)]
)
def test_overwritten_registration_is_restored(cluster: broker_world.Cluster, data: bytes) -> None:
    node = cluster.nodes[2]
    before, epoch = registered(cluster), node.broker.controller.broker_epoch
    for _ in range(2):
        node.logged.clear()
        cluster.ensemble.put(PATH, data)
        cluster.wait(2_500)
        assert registered(cluster) == before
        assert node.logged == [f"{PATH} was overwritten by somebody else; writing it again"]
    assert node.broker.controller.broker_epoch == epoch == cluster.ensemble.nodes[PATH].czxid
    first = cluster.controller
    first.kill()
    cluster.expire(first)
    cluster.wait(1_000)
    # The next controller has read the restored registration, and sent its endpoints to all brokers.
    brokers = cluster.controller.broker.metadata.brokers()
    assert sorted(broker.broker_id for broker in brokers) == sorted({1, 2, 3} - {first.broker_id})


def test_deleted_registration_is_recreated_with_a_new_epoch(cluster: broker_world.Cluster) -> None:
    node = cluster.nodes[2]
    before, epoch = registered(cluster), node.broker.controller.broker_epoch
    cluster.ensemble.delete(PATH)
    cluster.wait(2_500)
    assert registered(cluster) == before and node.broker.controller.broker_epoch > epoch
    assert node.logged == [f"{PATH} was deleted by somebody else; registering again"]
    assert cluster.ensemble.nodes[PATH].owner == node.session.session_id
    assert sorted(broker.broker_id for broker in cluster.nodes[1].broker.metadata.brokers()) == [1, 2, 3]


def test_registration_of_an_expired_session_is_not_reported(cluster: broker_world.Cluster) -> None:
    node = cluster.nodes[2]
    cluster.expire(node)
    cluster.wait(3_000)
    assert registered(cluster) is not None and node.logged == []
    assert len(node.of(e.BrokerRegistered)) == 2
    cluster.ensemble.put(PATH, b"rubbish")
    cluster.wait(2_500)
    assert registered(cluster) is not None, "the new session's registration is watched, too"


@pytest.mark.parametrize("key", ["zookeeper.connection.timeout.ms", "zookeeper.session.timeout.ms"])
def test_unreachable_ensemble_is_reported_in_one_line(tmp_path: Path, key: str) -> None:
    # If zookeeper.connection.timeout.ms is not set, it has the value of zookeeper.session.timeout.ms.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connect = f"127.0.0.1:{silent.getsockname()[1]}"
        config = tmp_path / "server.properties"
        config.write_text(
            f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path / 'logs'}\n"
            f"zookeeper.connect={connect}\n{key}=300\n"
        )
        program = (
            "import sys, pathlib, zabka.broker_sim.broker_process as b; sys.exit(b.main(pathlib.Path(sys.argv[1])))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(config)],
            capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parents[2],
        )  # fmt: skip
    expected = f"zabka broker: no connection to {connect} within zookeeper.connection.timeout.ms=300\n"
    assert (done.returncode, done.stderr) == (1, expected)
