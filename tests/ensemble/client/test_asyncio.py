"""The client's TCP layer: framing, one write per event loop iteration, invalid bytes and broken connections."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trustme

from zabka.ensemble.client import connect
from zabka.ensemble.client.asyncio_connector import FRAME_BYTES_MAX, AsyncioConnector, ClientConnection
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import SessionState, WatchEvent
from zabka.ensemble.errors import ConnectionLoss
from zabka.ensemble.jute import pack_int
from zabka.ensemble.records import (
    NOTIFICATION_XID,
    ConnectRequest,
    ConnectResponse,
    EventType,
    GetDataResponse,
    OpCode,
    Reply,
    Request,
    Stat,
    SyncResponse,
    WatcherEvent,
)
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.runtime.link_fault import HeldFault
from zabka.ensemble.runtime.links import FaultTable, LinkFaults

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 0, 8, 9, 10)
WAIT_S = 10.0
Write = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]


def framed(message: Any) -> bytes:
    body: bytes = message.encode()
    return pack_int(len(body)) + body


async def write_whole(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)


async def write_bytewise(writer: asyncio.StreamWriter, data: bytes) -> None:
    for i in range(len(data)):
        writer.write(data[i : i + 1])
        await writer.drain()
        await asyncio.sleep(0)


class Server:
    """Server for connect and getData requests. `spoil` changes the reply to the next getData."""

    def __init__(self, write: Write = write_whole) -> None:
        self.write = write
        self.spoil: bytes | None = None
        self.connects = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Server:
        self.listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.hosts = f"127.0.0.1:{self.listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.listener.close()
        for writer in self.writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            first = ConnectRequest.decode(await self._frame(reader))
            self.connects += 1
            await self.write(writer, framed(ConnectResponse(0, first.timeout_ms, first.session_id or 7, bytes(16))))
            while True:
                await self._answer(Request.decode(await self._frame(reader)), writer)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    async def _frame(self, reader: asyncio.StreamReader) -> bytes:
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        spoil, self.spoil = self.spoil, None
        if spoil is not None and request.op == OpCode.GET_DATA:
            await self.write(writer, spoil)
            return
        reply = Reply(request.xid, 1, 0)
        if request.op == OpCode.GET_DATA:
            reply.body = GetDataResponse(b"data", STAT)
        elif request.op == OpCode.SYNC:
            reply.body = SyncResponse("/")
        event = Reply(NOTIFICATION_XID, 9, 0, WatcherEvent(EventType.DATA_CHANGED, 3, "/a"))
        await self.write(writer, framed(reply) + (framed(event) if request.op == OpCode.GET_DATA else b""))


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S):
            await scenario()

    asyncio.run(main())


@pytest.mark.parametrize("write", [write_whole, write_bytewise])
def test_frames_are_assembled_from_chunks_of_any_size(write: Write) -> None:
    async def scenario() -> None:
        events: list[WatchEvent] = []
        async with Server(write) as server, connect(server.hosts) as client:
            assert client.session_id == 7
            futures = [client.get("/a", events.append) for _ in range(3)]
            assert [await future for future in futures] == [(b"data", STAT)] * 3
            await client.sync("/")  # the reply follows the event
            assert events[0][:2] == (EventType.DATA_CHANGED, "/a")
            assert events[0].zxid == 9, "the zxid of the transaction that fired it, as in ZooKeeper 3.9"

    run(scenario)


@pytest.mark.parametrize(
    "spoil",
    [
        pack_int(-5),
        pack_int(FRAME_BYTES_MAX + 1),
        pack_int(3) + b"abc",
        pack_int(16) + pack_int(1) + bytes(12),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        framed(Reply(2, 1, 0)),
        framed(Reply(NOTIFICATION_XID, -1, 0, WatcherEvent(99, 3, "/a"))),
    ],
    ids=["negative length", "huge length", "half header", "no body", "http", "wrong xid", "unknown event"],
)
def test_invalid_reply_closes_only_its_connection(spoil: bytes) -> None:
    async def scenario() -> None:
        async with Server() as server, connect(server.hosts) as client:
            server.spoil = spoil
            with pytest.raises(ConnectionLoss):
                await client.get("/a")
            assert (await client.get("/a"))[0] == b"data"
            assert (server.connects, client.session_id) == (2, 7)

    run(scenario)


def test_large_reply_is_received_completely() -> None:
    async def scenario() -> None:
        data = bytes(3_000_000)
        async with Server() as server, connect(server.hosts) as client:
            server.spoil = framed(Reply(1, 1, 0, GetDataResponse(data, STAT)))
            assert (await client.get("/a"))[0] == data

    run(scenario)


class Recorder(asyncio.Transport):
    """Transport that records the written data."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        return


class Silent:
    """Receiver of messages that ignores all of them."""

    def on_connected(self) -> None: ...
    def on_message(self, message: object) -> None: ...
    def on_watch(self, event: WatchEvent, zxid: int) -> None: ...
    def on_disconnected(self, reason: str) -> None: ...


def test_all_requests_of_an_event_loop_turn_share_one_write() -> None:
    async def scenario() -> None:
        transport = Recorder()
        connection = ClientConnection(Silent())
        connection.connection_made(transport)
        requests = [Request(xid, OpCode.PING, None) for xid in range(1, 4)]
        for request in requests:
            connection.send(request)
        assert transport.writes == []
        await asyncio.sleep(0)
        assert transport.writes == [b"".join(framed(request) for request in requests)]

    run(scenario)


def test_client_tries_the_next_server_after_a_rejection() -> None:
    async def scenario() -> None:
        async with Server() as server, connect(f"127.0.0.1:1,{server.hosts},no-such-host.invalid:1") as client:
            assert (await client.get("/a"))[0] == b"data"

    run(scenario)


def test_cut_link_suspends_the_session_until_it_heals() -> None:
    async def scenario() -> None:
        async with Server() as server:
            faults = LinkFaults({server.hosts: "peer-1"})
            runtime = AsyncioRuntime(asyncio.get_running_loop(), owns_loop=False)
            client = Client(server.hosts, AsyncioConnector(faults), runtime, session_timeout_ms=300)
            states: list[SessionState] = []
            client.add_listener(states.append)
            await client.start()
            faults.apply(FaultTable([HeldFault("peer-1", "client", "cut", both_ways=False, id="1")], "client"))
            with pytest.raises(ConnectionLoss):
                await client.get("/a")
            assert client.state is SessionState.SUSPENDED
            faults.apply(FaultTable())
            assert (await client.get("/a"))[0] == b"data"
            assert states == [SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.CONNECTED]
            await client.close()

    run(scenario)


def test_context_manager_exits_even_if_no_server_replies() -> None:
    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), connect("127.0.0.1:1"):
                raise AssertionError("unreachable")

    run(scenario)


def serve_tls_until_eof(listener: socket.socket, context: ssl.SSLContext) -> int:
    """Accept a TLS connection, and read its encrypted bytes to their end without a reply. Return their number."""
    accepted, _ = listener.accept()
    with context.wrap_socket(accepted, server_side=True) as connection:
        size = 0
        while select.select([connection], [], [], WAIT_S / 2)[0]:
            read = os.read(connection.fileno(), 4096)
            if not read:
                return size
            size += len(read)
    raise TimeoutError("the client did not close its connection")


def test_tls_connection_closes_without_a_reply_of_the_server() -> None:
    authority = trustme.CA()
    serving, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(trusting)

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            hosts = f"127.0.0.1:{listener.getsockname()[1]}"
            served = asyncio.create_task(asyncio.to_thread(serve_tls_until_eof, listener, serving))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5), connect(hosts, ssl_context=trusting):
                    raise AssertionError("unreachable")
            assert await served > 0

    run(scenario)
