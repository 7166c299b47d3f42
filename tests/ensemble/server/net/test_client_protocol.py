"""Rarely used operations on a running peer, sent as bytes and through the asyncio client."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ensemble.server.peer_processes import Ensemble
from zabka.ensemble.auth.policy import OPEN_POLICY
from zabka.ensemble.client import connect
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import SessionState, WatchEvent
from zabka.ensemble.errors import NoNode, QuotaExceeded
from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.records import EventType
from zabka.ensemble.server.config.limits import Limits
from zabka.ensemble.server.net.admission import Admission
from zabka.ensemble.server.net.client_port import WRITES_AT_ONCE, ClientPort

SETTINGS = "extendedTypesEnabled=true\nenforceQuota=true\nznode.container.checkIntervalMs=300\n"
QUOTA = "/zookeeper/quota/q"


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Ensemble]:
    ensemble = Ensemble(tmp_path, 1, tick_time=300)
    with ensemble.config(1).open("a") as config:
        config.write(SETTINGS)
    try:
        ensemble.start()
        ensemble.wait_for_quorum()
        yield ensemble
    finally:
        ensemble.close()


def sent(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(struct.pack(">i", len(frame)) + frame)


def received(connection: socket.socket) -> bytes:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            assert part, "closed by the server"
            data += part
        return data

    return exactly(int.from_bytes(exactly(4), "big"))


def test_recursive_watch_messages_equal_those_of_the_java_client(peer: Ensemble) -> None:
    """A recursive watch on the wire has the same bytes as with ZooKeeper's Java client.

    The client receives the event before the reply to the write that caused it, and the event's header has the
    transaction's zxid.
    """
    with socket.create_connection(("127.0.0.1", peer.client_ports[1]), 10) as connection:
        sent(connection, bytes(12) + struct.pack(">iq", 10_000, 0) + struct.pack(">i", 16) + bytes(16))
        received(connection)
        sent(connection, struct.pack(">ii", 1, 106) + b"\0\0\0\2/w" + struct.pack(">i", 1))
        answer = received(connection)
        assert struct.unpack_from(">iqi", answer) == (1, struct.unpack_from(">q", answer, 4)[0], 0)
        assert answer[16:] == struct.pack(">i", 0)
        open_acl = struct.pack(">ii", 1, 31) + b"\0\0\0\5world\0\0\0\6anyone"
        sent(connection, struct.pack(">ii", 2, 1) + b"\0\0\0\2/w" + struct.pack(">i", 0) + open_acl + bytes(4))
        event, answer = received(connection), received(connection)
        zxid = struct.unpack_from(">q", answer, 4)[0]
        assert event == struct.pack(">iqi", -1, zxid, 0) + struct.pack(">ii", 1, 3) + b"\0\0\0\2/w"
        assert answer == struct.pack(">iqi", 2, zxid, 0) + b"\0\0\0\2/w"
        sent(connection, struct.pack(">ii", 3, 1) + b"\0\0\0\5ab")
        assert struct.unpack_from(">i", received(connection), 12) == (-5,), "a write that cannot be read"
        sent(connection, struct.pack(">ii", 4, 13) + b"\0\0\0\2/w" + struct.pack(">i", -1))
        assert received(connection) == struct.pack(">iqi", 4, -1, -6)
        assert connection.recv(1) == b"", "check is for multis"


class Sink:
    """Fake connection: instead of sending its output, `flush` adds the connection's number to `written`."""

    def __init__(self, number: int, written: list[int]) -> None:
        self.number, self.written = number, written
        self.out: list[bytes] = []

    def flush(self) -> None:
        if self.out:
            self.written.append(self.number)
            self.out.clear()


def test_many_watch_notifications_do_not_delay_the_writer() -> None:
    """Clients that sent a request get their replies before many other clients get watch events.

    The writes within one turn are made in this order.
    """

    async def scene() -> None:
        port = ClientPort(None, Admission(Limits(), lambda: 0.0, 0), OPEN_POLICY)  # type: ignore[arg-type]
        written: list[int] = []
        everybody = range(3 * WRITES_AT_ONCE)
        port._connections = {ConnectionId(i): Sink(i, written) for i in everybody}  # type: ignore[misc]
        for i in everybody:
            port.answer(ConnectionId(i), b"event")
        port.flush()
        assert written == list(everybody)[-WRITES_AT_ONCE:]
        port.answer(ConnectionId(7), b"reply")
        port.flush()
        assert written[-1] == 7, "with the event before its reply"
        for _ in range(3):
            await asyncio.sleep(0)
        assert sorted(written) == list(everybody), "every connection is notified"

    asyncio.run(scene())


def test_containers_ttl_nodes_and_quotas_survive_a_kill(peer: Ensemble) -> None:
    """Containers, TTL znodes and quotas survive a SIGKILL of the peer and a restart with the same data."""

    async def before(client: Client) -> None:
        for path in ("/q", "/zookeeper/quota/q"):
            await client.create(path, b"12345")
        await client.create(f"{QUOTA}/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=3")
        await client.create(f"{QUOTA}/zookeeper_stats", b"")
        await client.create("/q/a", b"abc")
        await client.create_container("/c")
        await client.create("/c/x")
        await client.create_with_ttl("/t", ttl_ms=600_000)
        await client.create_with_ttl("/short", ttl_ms=1)

    async def after(client: Client) -> None:
        assert (await client.get(f"{QUOTA}/zookeeper_stats"))[0] == b"count=2,bytes=8"
        await client.create("/q/b")
        with pytest.raises(QuotaExceeded):
            await client.create("/q/c")
        gone = asyncio.Event()
        await client.add_watch("/c", lambda event: gone.set() if event.type is EventType.DELETED else None)
        await client.delete("/c/x")
        await gone.wait()
        with pytest.raises(NoNode):
            await client.get("/c")
        assert await client.exists("/short") is None
        assert await client.exists("/t") is not None

    asyncio.run(with_client(peer, before))
    peer.kill(1)
    peer.start()
    peer.wait_for_quorum()
    asyncio.run(with_client(peer, after))


async def with_client(peer: Ensemble, work) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(30), connect(peer.hosts) as client:
        await work(client)


def test_persistent_watches_are_rearmed_after_a_server_restart(peer: Ensemble) -> None:
    async def scene() -> None:
        async with asyncio.timeout(30), connect(peer.hosts, session_timeout_ms=2_000) as client:
            notified: list[WatchEvent] = []
            await client.create("/a")
            await client.add_watch("/", notified.append, recursive=True)
            await client.add_watch("/a", notified.append)
            lost = asyncio.Event()
            client.add_listener(lambda state: lost.set() if state is SessionState.SUSPENDED else None)
            peer.kill(1)
            await lost.wait()
            peer.start()
            await client.set("/a", b"after")
            await client.create("/a/b")
            await client.sync("/")
            assert [event[:2] for event in notified] == [
                (EventType.DATA_CHANGED, "/a"),
                (EventType.CREATED, "/a/b"),
                (EventType.CHILDREN_CHANGED, "/a"),
            ]
            assert await client.get_all_children_number("/a") == 1
            assert await client.get_ephemerals() == []
            assert await client.who_am_i() == [("ip", "127.0.0.1")]

    asyncio.run(scene())
