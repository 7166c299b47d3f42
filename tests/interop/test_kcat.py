from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.interop_brokers import BrokerCluster, broker_cluster, tool


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    tool("kcat")
    with broker_cluster(tmp_path_factory.mktemp("kcat")) as running:
        yield running


def kcat(cluster: BrokerCluster, *arguments: str, stdin: str = "", timeout_s: float = 30) -> str:
    command = [tool("kcat"), "-b", cluster.bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(cluster: BrokerCluster) -> dict[str, object]:
    described: dict[str, object] = json.loads(kcat(cluster, "-L", "-J"))
    return described


def test_kcat_lists_brokers_and_the_controller(cluster: BrokerCluster) -> None:
    described = listed(cluster)
    assert sorted(row["id"] for row in described["brokers"]) == [1, 2, 3]  # type: ignore[attr-defined]
    assert described["controllerid"] == cluster.controller().broker_id


@pytest.mark.parametrize(
    "options", [(), ("-X", "acks=1"), ("-X", "acks=0"), ("-X", "enable.idempotence=true"), ("-z", "gzip")]
)
def test_records_produced_by_kcat_can_be_consumed_by_kcat(cluster: BrokerCluster, options: tuple[str, ...]) -> None:
    topic = "kcat" + "".join(c for c in "".join(options) if c.isalnum())
    lines = [f"line {number}" for number in range(2000)]
    kcat(cluster, "-P", "-t", topic, *options, stdin="\n".join(lines) + "\n")
    consumed = kcat(cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-q").splitlines()
    assert sorted(consumed) == sorted(lines)


def test_kcat_reads_from_an_offset_and_from_the_end(cluster: BrokerCluster) -> None:
    kcat(cluster, "-P", "-t", "offsets", "-p", "0", stdin="".join(f"{n}\n" for n in range(10)))
    assert kcat(cluster, "-C", "-t", "offsets", "-p", "0", "-o", "7", "-e", "-q").split() == ["7", "8", "9"]
    assert kcat(cluster, "-C", "-t", "offsets", "-p", "0", "-o", "-2", "-e", "-q").split() == ["8", "9"]
    assert kcat(cluster, "-Q", "-t", "offsets:0:-1").split() == ["offsets", "[0]", "offset", "10"]


def test_kcat_continues_after_a_failover(cluster: BrokerCluster) -> None:
    kcat(cluster, "-P", "-t", "failover", stdin="".join(f"a{n}\n" for n in range(100)))
    old = cluster.controller()
    epoch = old.status()["believes"]["controller_epoch"]
    old.kill()
    cluster.until(lambda: any(s.get("is_controller") for s in cluster.statuses()))
    new = cluster.controller()
    assert new.broker_id != old.broker_id
    assert new.status()["believes"]["controller_epoch"] == epoch + 1
    kcat(cluster, "-P", "-t", "failover", "-X", "acks=all", stdin="".join(f"b{n}\n" for n in range(100)))
    consumed = kcat(cluster, "-C", "-t", "failover", "-o", "beginning", "-e", "-q").split()
    assert sorted(consumed) == sorted([f"a{n}" for n in range(100)] + [f"b{n}" for n in range(100)])
    old.start()
    cluster.await_ready()

    def all_in_sync() -> bool:
        rows = [p for s in cluster.statuses() for p in s.get("partitions", []) if p["leader"] == s["broker_id"]]
        return bool(rows) and all(sorted(row["isr"]) == [1, 2, 3] for row in rows)

    cluster.until(all_in_sync)


def test_shutdown_of_a_broker_keeps_its_records_readable_by_kcat(cluster: BrokerCluster) -> None:
    kcat(cluster, "-P", "-t", "stopping", stdin="before\n")
    broker = next(b for b in cluster.brokers.values() if b is not cluster.controller())
    assert broker.stop() == 0
    assert "Traceback" not in broker.output()
    consumed = kcat(cluster, "-C", "-t", "stopping", "-o", "beginning", "-e", "-q").split()
    assert consumed == ["before"]
    assert [event["reason"] for event in broker.events("node_stopped")][-1] == "shutdown"
    broker.start()
    cluster.await_ready()


def test_garbage_on_the_broker_port_affects_no_client(cluster: BrokerCluster) -> None:
    broker = cluster.brokers[1]
    garbage = (
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 2**31 - 1),
        b"\x00\x00\x00\x04\xff\xff\xff\xff",
        b"\xff" * 999,
    )
    for sent in garbage:
        with socket.create_connection(("127.0.0.1", broker.port), 5) as link:
            link.settimeout(5)
            link.sendall(sent)
            try:
                assert link.recv(100) == b""
            except ConnectionResetError:
                continue
    with socket.create_connection(("127.0.0.1", broker.port), 5) as half:
        half.sendall(struct.pack(">ihh", 100, 3, 12))
        kcat(cluster, "-L")
    assert "Traceback" not in broker.output()
    # The broker counts protocol violations, and journals the counts once a second.
    cluster.until(lambda: sum(event["count"] for event in broker.events("peer_protocol_broken")) >= len(garbage))


def test_second_broker_on_a_log_directory_exits_with_one_line(cluster: BrokerCluster, tmp_path: Path) -> None:
    import sys

    from tests.interop.interop_brokers import PROGRAM, ROOT

    config = cluster.brokers[1].home / "server.properties"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(config)], capture_output=True, text=True, timeout=30, cwd=ROOT, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("zabka broker: Failed to acquire lock") and len(done.stderr.splitlines()) == 1


def test_kcat_can_produce_and_consume_while_the_ensemble_is_down(cluster: BrokerCluster) -> None:
    kcat(cluster, "-P", "-t", "headless", "-p", "0", stdin="before\n")
    controller = cluster.controller()
    epoch = controller.status()["believes"]["controller_epoch"]
    (peer,) = cluster.ensemble.servers
    peer.kill()
    cluster.until(lambda: all(s["session"]["state"] == "suspended" for s in cluster.statuses()))
    kcat(cluster, "-P", "-t", "headless", "-p", "0", "-X", "acks=all", stdin="during\n")
    assert kcat(cluster, "-C", "-t", "headless", "-o", "beginning", "-e", "-q").split() == ["before", "during"]
    peer.start()
    cluster.until(lambda: all(s["session"]["state"] == "connected" for s in cluster.statuses()))
    assert controller.status()["is_controller"] is True
    assert controller.status()["believes"]["controller_epoch"] == epoch
    kcat(cluster, "-P", "-t", "made-afterwards", stdin="x\n")


def test_resumed_controller_learns_the_epoch_of_its_successor(cluster: BrokerCluster) -> None:
    old = cluster.controller()
    epoch = old.status()["believes"]["controller_epoch"]
    old.stand_still()
    others = [broker for broker in cluster.brokers.values() if broker is not old]
    cluster.until(lambda: any(b.status().get("is_controller") for b in others))
    old.send(signal.SIGCONT)
    cluster.until(lambda: old.status().get("believes", {}).get("controller_epoch") == epoch + 1)
    assert old.status()["is_controller"] is False
    assert [event["reason"] for event in old.events("controller_resigned")][-1] in (
        "session_expired",
        "controller_moved",
    )
    cluster.await_ready()
