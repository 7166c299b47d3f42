"""Two bugs of ZooKeeper 3.9.5, tested on real processes.

In our servers, no read returns a phantom (an uncommitted write) or old data after a sync.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KeeperState

from tests.ensemble.server.peer_processes import PATIENCE_S, Ensemble, pause, wait_until
from zabka.ensemble.server.net.election_wire import (
    FrameReader,
    decode_notification,
    decode_opening,
    encode_notification,
)
from zabka.ensemble.zab.messages import PeerState
from zabka.journal.reader import node_files

TICK_MS = 100
ROUNDS = 6


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Ensemble]:
    """Yield three servers whose leader is server 3. They write a snapshot after every second transaction."""
    ensemble = Ensemble(tmp_path, 3, tick_time=TICK_MS)
    for i in ensemble.client_ports:
        config = ensemble.config(i)
        config.write_text(config.read_text() + "snapCount=2\nmaxSessionTimeout=40000\n")
    try:
        ensemble.start(1, 3)
        ensemble.wait_for_quorum()
        ensemble.start(2)
        assert ensemble.wait_for_quorum() == 3
        yield ensemble
    finally:
        ensemble.close()


@contextmanager
def client_of(ensemble: Ensemble, *ids: int) -> Iterator[KazooClient]:
    """Yield a kazoo client that connects only to these servers."""
    client = KazooClient(",".join(f"127.0.0.1:{ensemble.client_ports[i]}" for i in ids), timeout=30)
    client.start(PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def voter_that_only_votes(ensemble: Ensemble, i: int) -> Iterator[None]:
    """Replace server `i` with a fake server that votes for the server that contacts it, but never follows that
    server.
    """
    line = next(line for line in ensemble.server_lines if line.startswith(f"server.{i}="))
    with socket.create_server(("127.0.0.1", int(line.rpartition(":")[2]))) as server:
        server.settimeout(PATIENCE_S)
        voter = threading.Thread(target=_agree, args=(server,))
        voter.start()
        try:
            yield
        finally:
            voter.join(PATIENCE_S)


def _agree(server: socket.socket) -> None:
    """Send back the votes of the first server that connects, until it disconnects."""
    with server.accept()[0] as connection:
        data, frames, opened = b"", FrameReader(), False
        while True:
            try:
                part = connection.recv(65536)
            except ConnectionError:
                return
            if not part:
                return
            data += part
            if not opened:
                opening = decode_opening(data)
                if opening is None:
                    continue
                data, opened = data[opening.size :], True
            for frame in frames.feed(data):
                notification = decode_notification(frame)
                if notification.state is PeerState.LOOKING:
                    connection.sendall(encode_notification(notification))
            data = b""


def times_leading(ensemble: Ensemble, i: int) -> int:
    """Return how often a server has become leader."""
    files = node_files(ensemble.data(i).parent / "journal", f"peer-{i}")
    events = [json.loads(line) for path in files for line in path.read_text().splitlines() if line.endswith("}")]
    return sum(event.get("state") == "LEADING" and event["phase"] == "DISCOVERY" for event in events)


def holds(ensemble: Ensemble, i: int, what: bytes) -> list[str]:
    """Return the paths of the server's log and snapshot files that contain these bytes."""
    return sorted(path.name for path in ensemble.data(i).glob("[ls]*.*") if what in path.read_bytes())


def test_write_logged_only_by_a_dead_leader_is_truncated(trio: Ensemble) -> None:
    """A write that only the dead leader has logged is removed when that leader returns (ZOOKEEPER-1549, 4837).

    In ZooKeeper, if the dead leader is elected again, its snapshot permanently contains a transaction that no other
    server has.
    """
    with client_of(trio, 1) as client:
        client.create("/before")
    with client_of(trio, 3) as client:
        for i in (1, 2):
            pause(trio.processes[i], True)
        client.create_async("/phantom", b"first")
        wait_until(lambda: bool(holds(trio, 3, b"/phantom")))
        for i in (1, 2, 3):
            trio.kill(i)

    with voter_that_only_votes(trio, 1):
        before = times_leading(trio, 3)
        trio.start(3)
        wait_until(lambda: times_leading(trio, 3) > before)
        trio.kill(3)
    assert all(name.startswith("log.") for name in holds(trio, 3, b"/phantom")), "a snapshot contains the write"

    trio.start(1, 2)
    trio.wait_for_quorum()
    with client_of(trio, 1, 2) as client:
        client.create("/after")
    trio.start(3)
    trio.wait_for_quorum()
    for i in (1, 2, 3):
        with client_of(trio, i) as client:
            client.sync("/")
            assert client.exists("/phantom") is None, f"server {i} shows what was never acknowledged"
    with client_of(trio, 3) as client:
        client.create("/phantom", b"second")
    trio.kill(3)
    trio.start(3)
    trio.wait_for_quorum()
    for i in (1, 2, 3):
        with client_of(trio, i) as client:
            client.sync("/")
            assert client.get("/phantom")[0] == b"second"


def test_resumed_leader_never_replies_to_sync_with_old_data(trio: Ensemble) -> None:
    """A leader that was frozen does not reply to a sync with old data (ZOOKEEPER-1675, 2136, 3600).

    While it was frozen, its successor was elected. When it continues, it still acts as leader for a moment.
    """
    with client_of(trio, 1) as client:
        client.create("/value", b"0")
    for number in range(1, ROUNDS + 1):
        old = trio.wait_for_quorum()
        others = [i for i in trio.client_ports if i != old]
        with client_of(trio, old) as reader:
            assert reader.client_state is KeeperState.CONNECTED
            pause(trio.processes[old], True)
            try:
                # The requests wait in the sockets of the paused former leader. When it continues, it reads them before
                # it notices that it is no longer the leader.
                answers = [reader.sync_async("/value"), reader.get_async("/value")]
                with client_of(trio, *others) as writer:
                    writer.set("/value", b"%d" % number)
            finally:
                pause(trio.processes[old], False)
            assert read_result(answers) in (None, b"%d" % number), "a read after a sync returned old data"
            reader.retry(reader.sync, "/value")
            assert reader.retry(reader.get, "/value")[0] == b"%d" % number


def read_result(answers: list[object]) -> bytes | None:
    """Return the result of the read after the sync, or None if the connection was closed, which is also correct."""
    sync, get = answers
    try:
        sync.get(timeout=PATIENCE_S)  # type: ignore[attr-defined]
        data: bytes = get.get(timeout=PATIENCE_S)[0]  # type: ignore[attr-defined]
    except KazooException:
        return None
    return data
