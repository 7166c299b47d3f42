"""The client port with real sockets: its limits, and when it stops reading from clients.

The tests decide when requests get replies.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from zabka.ensemble.auth.policy import OPEN_POLICY
from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import ConnectionId, SessionId
from zabka.ensemble.records import (
    ClientMessage,
    ConnectRequest,
    Frames,
    OpCode,
    PathWatchRequest,
    Reply,
    Request,
    SyncResponse,
)
from zabka.ensemble.request_fault_uses import SharedCounts
from zabka.ensemble.server.config.limits import Limits, ThrottleSettings
from zabka.ensemble.server.net import client_port
from zabka.ensemble.server.net.admission import Admission
from zabka.ensemble.server.net.client_faults import ClientFaults
from zabka.ensemble.server.net.client_port import Arriving, ClientPort, now_ms
from zabka.ensemble.tree.backlog import ANSWERS_BYTES_MAX
from zabka.journal.events import Event

HELLO = ConnectRequest(0, 0, 5000, 0, bytes(16)).encode()


class Listener:
    """Peer that stores all input of the client port. Requests stay in flight until the test calls `answer`.

    The port calls `taken` when a turn has all its input.
    """

    def __init__(self) -> None:
        self.taken: Callable[[], None] = lambda: None
        self.got: list[tuple[ConnectionId, ClientMessage]] = []
        self.under_way: Counter[ConnectionId] = Counter()
        self.identities: dict[ConnectionId, tuple[AuthId, ...]] = {}
        self.closed: list[ConnectionId] = []
        self.refused: list[str] = []
        self.sessions: dict[ConnectionId, SessionId] = {}
        self.of_brokers: set[SessionId] = set()
        self.emptied: list[ConnectionId] = []
        """Connections whose clients have read all their replies, as reported by the port."""

    def on_client_connected(self, connection: ConnectionId, identities: tuple[AuthId, ...]) -> None:
        self.identities[connection] = identities

    def on_client_refused(self, remote: str, reason: str) -> None:
        self.refused.append(reason)

    def on_client_messages(self, connection: ConnectionId, messages: list[ClientMessage]) -> None:
        if messages == [Frames([])]:
            self.emptied.append(connection)
        for message in messages:
            for each in message.frames if isinstance(message, Frames) else [message]:
                if not isinstance(each, ConnectRequest):
                    self.under_way[connection] += 1
                    decoded = Request.decode(each) if isinstance(each, bytes) else each
                    self.got.append((connection, decoded))
        self.taken()

    def on_client_closed(self, connection: ConnectionId) -> None:
        self.closed.append(connection)
        del self.under_way[connection]

    def answer_word(self, word: str, argument: bytes) -> str | None:
        return None

    def proved(self, connection: ConnectionId) -> Sequence[AuthId]:
        return self.identities.get(connection, ())

    def session(self, connection: ConnectionId) -> SessionId:
        return self.sessions.get(connection, SessionId(0))

    def is_session_of_broker(self, session_id: SessionId) -> bool:
        return session_id in self.of_brokers

    def outstanding(self, connection: ConnectionId) -> int:
        return self.under_way[connection]

    def xids(self, connection: ConnectionId) -> list[int]:
        return [message.xid for to, message in self.got if to == connection and isinstance(message, Request)]


class Slow(Listener):
    """Peer that processes the input only when the test calls `turn`. A real peer does so once per event loop
    iteration.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[ConnectionId, list[ClientMessage]]] = []

    def on_client_messages(self, connection: ConnectionId, messages: list[ClientMessage]) -> None:
        self.waiting.append((connection, messages))

    def turn(self) -> None:
        waiting, self.waiting = self.waiting, []
        for connection, messages in waiting:
            super().on_client_messages(connection, messages)


class Client:
    """TCP client that sends bytes without a session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, frame: bytes) -> None:
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    async def ask(self, *xids: int, size: int = 1) -> None:
        for xid in xids:
            path = "/" + "a" * (size - 1)
            self.send(Request(xid, OpCode.GET_DATA, PathWatchRequest(path, False)).encode())
            await self.writer.drain()
            await asyncio.sleep(0.002)  # so that the server reads each request separately


class Port:
    """Client port for one test, with its `Listener`."""

    def __init__(self, limits: Limits, listener: Listener) -> None:
        self.listener = listener
        self.admission = Admission(limits, lambda: 0.5, 0)
        self.events: list[Event] = []
        faults = ClientFaults(self.events.append, lambda: 0.5, now_ms, SharedCounts().count)
        self.port = ClientPort(self.listener, self.admission, OPEN_POLICY, None, faults, self.events.append)
        self.listener.taken = self.admission.handed_over.clear
        self.made: list[Client] = []

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port.port))
        client.send(HELLO)
        self.made.append(client)
        return client

    async def clients(self, count: int) -> list[Client]:
        made = []
        for n in range(count):
            made.append(await self.client())
            await until(lambda n=n: len(self.listener.identities) > n)
        return made

    def answer(self, connection: int, *xids: int) -> None:
        for xid in xids:
            self.listener.under_way[ConnectionId(connection)] -= 1
            self.port.answer(ConnectionId(connection), Reply(xid, 0, 0))
        self.port.flush()


def run(test: Callable[[Port], Coroutine[Any, Any, None]], listener: Listener | None = None, **limits: Any) -> Port:
    port = Port(Limits(**limits), listener or Listener())

    async def main() -> None:
        await port.port.listen("127.0.0.1", 0)
        try:
            async with asyncio.timeout(20):
                await test(port)
        finally:
            for client in port.made:
                client.writer.close()
            await port.port.close()
            await asyncio.sleep(0.01)

    asyncio.run(main())
    return port


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (what it waits for has no event)
        await asyncio.sleep(0.002)


def test_connection_has_its_ip_address_as_an_identity() -> None:
    async def test(port: Port) -> None:
        await port.clients(1)

    assert run(test).listener.identities == {1: (("ip", "127.0.0.1"),)}


def test_connection_without_a_session_is_closed_after_timeout() -> None:
    async def test(port: Port) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port.port)
        await until(lambda: len(port.port.newcomers()) == 1)
        assert [newcomer.asks for newcomer in port.port.newcomers()] == [False]
        [client] = await port.clients(1)
        assert await reader.read() == b"" and port.port.newcomers() == []
        writer.close()
        client.send(b"x")
        await until(lambda: not port.listener.refused)
        assert port.admission.counts.sessionless_connections_expired == 1

    run(test, sessionless_timeout_ms=100)


def test_clients_with_requests_in_flight_are_paused_at_the_limit() -> None:
    async def test(port: Port) -> None:
        one, two = await port.clients(2)
        await one.ask(1, 2, 3, 4)
        await until(lambda: len(port.listener.xids(ConnectionId(1))) == 4)
        await two.ask(1)
        await until(lambda: port.listener.xids(ConnectionId(2)) == [1])
        assert port.admission.outstanding == 5
        await one.ask(5, 6)
        await two.ask(2)
        await asyncio.sleep(0.05)
        assert port.listener.xids(ConnectionId(1)) in ([1, 2, 3, 4], [1, 2, 3, 4, 5]), "its next read is the last"
        assert port.listener.xids(ConnectionId(2)) == [1]
        port.answer(1, 1, 2, 3, 4)
        await until(lambda: port.listener.xids(ConnectionId(1)) == [1, 2, 3, 4, 5, 6])
        port.answer(2, 1)
        await until(lambda: port.listener.xids(ConnectionId(2)) == [1, 2])

    run(test, outstanding=4)


def test_requests_of_a_closed_connection_do_not_use_the_limit() -> None:
    async def test(port: Port) -> None:
        (one,) = await port.clients(1)
        await one.ask(1, 2)
        await until(lambda: port.admission.outstanding == 2)
        one.writer.close()
        await until(lambda: port.admission.outstanding == 0)
        assert port.admission.connections == 0

    run(test)


def test_queued_requests_are_throttled_after_the_time_limit() -> None:
    async def test(port: Port) -> None:
        one, two = await port.clients(2)
        await one.ask(1)
        await until(lambda: len(port.listener.got) == 1)
        await two.ask(7, 8)
        await asyncio.sleep(0.06)
        assert port.listener.xids(ConnectionId(2)) == []
        port.answer(1, 1)
        await until(lambda: port.listener.xids(ConnectionId(2))[:1] == [7])
        first = port.listener.got[1][1]
        assert isinstance(first, Request)
        assert (first.problem, first.body) == (ErrorCode.THROTTLED, None)

    port = run(test, in_process=1, throttled_op_wait_ms=20)
    assert port.admission.counts.throttled_ops >= 1


def test_queued_requests_resume_after_a_connection_closes() -> None:
    async def test(port: Port) -> None:
        one, two = await port.clients(2)
        await one.ask(1)
        await until(lambda: len(port.listener.got) == 1)
        await two.ask(7)
        one.writer.close()
        await until(lambda: port.listener.xids(ConnectionId(2)) == [7])

    run(test, in_process=1)


def test_slow_client_is_reported_once_it_has_read_its_replies() -> None:
    async def test(port: Port) -> None:
        (one,) = await port.clients(1)
        size = 64 << 20
        port.port.answer(ConnectionId(1), bytes(ANSWERS_BYTES_MAX - 1))
        port.port.flush()
        await one.reader.readexactly(ANSWERS_BYTES_MAX - 1)
        assert port.listener.emptied == []
        port.port.answer(ConnectionId(1), bytes(size))
        port.port.flush()
        await asyncio.sleep(0.05)
        assert port.listener.emptied == [], "most of the reply is still unsent"
        await one.reader.readexactly(size)
        await until(lambda: port.listener.emptied == [1])

    run(test)


def test_closed_connection_is_not_reported_as_drained() -> None:
    """The port reports nothing for a connection that it has closed.

    Otherwise the report would count as a request that arrived after the close (stale_requests).
    """

    async def test(port: Port) -> None:
        (one,) = await port.clients(1)
        port.port.answer(ConnectionId(1), bytes(ANSWERS_BYTES_MAX))
        port.port.close_connection(ConnectionId(1))
        assert len(await one.reader.read()) == ANSWERS_BYTES_MAX
        assert port.listener.emptied == []

    run(test)


def test_client_that_does_not_read_blocks_no_other_client() -> None:
    async def test(port: Port) -> None:
        one, two = await port.clients(2)
        size = 64 << 20
        await one.ask(1)
        await until(lambda: port.listener.xids(ConnectionId(1)) == [1])
        port.port.answer(ConnectionId(1), bytes(size))
        port.port.flush()
        await two.ask(7)
        await until(lambda: port.listener.xids(ConnectionId(2)) == [7])
        port.answer(2, 7)
        assert port.admission.outstanding == 0
        await one.reader.readexactly(size)
        await until(lambda: port.admission.outstanding == 1)
        port.answer(1, 1)
        assert port.admission.outstanding == 0

    run(test, in_process=1)


def test_queued_requests_count_as_in_process() -> None:
    slow = Slow()

    async def test(port: Port) -> None:
        one, two = await port.clients(2)
        await until(lambda: len(slow.waiting) == 2)
        slow.turn()
        await one.ask(1)
        await until(lambda: len(slow.waiting) == 1)
        await two.ask(7)
        assert port.port.gate is not None
        await until(lambda: port.port.gate.is_holding(ConnectionId(2)))
        slow.turn()
        port.port.flush()
        assert slow.waiting == [] and port.admission.outstanding == 1
        port.answer(1, 1)
        slow.turn()
        assert slow.xids(ConnectionId(2)) == [7]

    port = run(test, slow, in_process=1)
    assert port.admission.counts.request_throttle_wait_count == 1


def test_queued_large_request_counts_towards_its_limit() -> None:
    async def test(port: Port) -> None:
        one, two = await port.clients(2)
        await one.ask(1, size=600)
        await until(lambda: port.admission.large_bytes > 600)
        await two.ask(1, size=600)
        assert await two.reader.read() == b""

    port = run(test, Slow(), large_request_threshold=500, large_request_bytes=1000)
    assert port.admission.counts.large_requests_rejected == 1


def test_answered_large_request_no_longer_counts_for_its_limit() -> None:
    async def test(port: Port) -> None:
        (one,) = await port.clients(1)
        await one.ask(1, 2, size=600)
        await until(lambda: port.listener.xids(ConnectionId(1)) == [1, 2])
        port.port.answer(ConnectionId(1), bytes(64 << 20))
        port.answer(1, 1)
        assert port.admission.large_bytes > 1200
        port.answer(1, 2)
        assert port.admission.large_bytes == 0

    run(test, large_request_threshold=500)


def test_large_requests_over_the_byte_limit_close_the_connection() -> None:
    async def test(port: Port) -> None:
        one, two = await port.clients(2)
        await one.ask(1, size=600)
        await until(lambda: port.admission.large_bytes > 600)
        await two.ask(1, size=600)
        assert await two.reader.read() == b""
        port.answer(1, 1)
        assert port.admission.large_bytes == 0
        await one.ask(2, size=600)
        await until(lambda: port.listener.xids(ConnectionId(1)) == [1, 2])

    port = run(test, large_request_threshold=500, large_request_bytes=1000)
    assert port.admission.counts.large_requests_rejected == 1


def test_connection_over_the_session_rate_gets_no_reply() -> None:
    async def test(port: Port) -> None:
        await port.clients(2)
        third = await port.client()
        assert await third.reader.read() == b""

    port = run(test, throttle=ThrottleSettings(tokens=2, fill_time_ms=10**8))
    assert port.admission.counts.connection_rejected == 1


def test_connection_over_the_host_limit_is_closed() -> None:
    async def test(port: Port) -> None:
        await port.clients(2)
        third = await port.client()
        try:
            assert await third.reader.read() == b""
        except ConnectionResetError:
            return

    assert run(test, per_host=2).admission.counts.connection_rejected == 1


def test_closed_client_that_does_not_read_is_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_port, "LINGER_S", 0.1)

    async def test(port: Port) -> None:
        left = socket.create_connection(("127.0.0.1", port.port.port))
        left.sendall(struct.pack(">i", len(HELLO)) + HELLO)
        await until(lambda: len(port.listener.identities) == 1)
        port.port.answer(ConnectionId(1), Reply(1, 0, 0, body=SyncResponse("x" * 50_000_000)))
        port.port.flush()
        port.port.close_connection(ConnectionId(1))
        assert port.admission.connections == 1
        await until(lambda: port.admission.connections == 0)
        left.close()

    run(test)


def test_closed_client_that_reads_gets_its_pending_replies() -> None:
    async def test(port: Port) -> None:
        [client] = await port.clients(1)
        port.port.answer(ConnectionId(1), Reply(1, 0, 0, body=SyncResponse("x" * 5_000_000)))
        port.port.close_connection(ConnectionId(1))
        assert len(await client.reader.read()) > 5_000_000

    run(test)


def test_frame_in_many_pieces_is_joined_once() -> None:
    arriving = Arriving()
    assert arriving.append(b"abc") == b"abc"
    arriving.keep(b"c", 0)
    assert arriving.append(b"de") == b"cde", "its length was not known: the parser tries again"
    arriving.keep(b"cde", 5)
    assert [arriving.append(piece) for piece in (b"12", b"34", b"567", b"8")] == [b"", b"", b"cde1234567", b"8"]


def test_large_request_read_time_is_linear_in_its_length() -> None:
    reads: list[int] = []

    class Counted(Arriving):
        def append(self, data: bytes) -> bytes:
            whole = super().append(data)
            reads.append(len(whole))
            return whole

    async def test(port: Port) -> None:
        [client] = await port.clients(1)
        await client.ask(1, size=3_000_000)
        await until(lambda: port.listener.xids(ConnectionId(1)) == [1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_port, "Arriving", Counted)
        run(test, frame_bytes=4_000_000)
    assert len(reads) > 5, "it came in many pieces"
    assert sum(reads) < 2 * 3_000_000
