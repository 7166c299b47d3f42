"""Limits on request bodies, slow requests and connections. They apply before the server stores any received data."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from tests.api.api_server import Server
from zabka.agent import bounded_http
from zabka.agent.bounded_http import BODY_BYTES_MAX, LARGE_AT_ONCE, BodyLimit, BoundedConnection
from zabka.agent.protocol import JOURNAL_CHUNK_BYTES_MAX
from zabka.compose.agent import create_app
from zabka.compose.host import Host
from zabka.compose.plan import Requested, plan

HEAD = b"POST /api/v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


HASTY_S = 0.3
PATIENCE_S = 30.0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(bounded_http, "CONNECTIONS_MAX", 3)
    with Server(tmp_path) as running:
        yield running


@pytest.fixture
def hasty(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Set a request timeout so short that a request on a busy machine may exceed it."""
    monkeypatch.setattr(bounded_http, "REQUEST_S", HASTY_S)
    return server


def dial(server: Server) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 10)
    link.settimeout(10)
    return link


def read_all(link: socket.socket) -> bytes:
    """Return all bytes received until the connection is closed."""
    received = b""
    try:
        while data := link.recv(65_536):
            received += data
    except ConnectionResetError:
        pass
    return received


def test_too_large_content_length_is_rejected_without_reading(server: Server) -> None:
    with dial(server) as link:
        link.sendall(HEAD + b"content-length: %d\r\n\r\n" % (512 * 1024 * 1024))
        answer = read_all(link)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in answer and b"a body can have at most 1048576 bytes" in answer
    assert b"content-security-policy" in answer


def test_chunked_body_that_grows_too_large_is_rejected(server: Server) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with dial(server) as link:
        link.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        try:
            for _ in range(BODY_BYTES_MAX // 0x10000 + 1):
                link.sendall(chunk)
        except OSError:
            pass
        assert read_all(link).startswith(b"HTTP/1.1 413 ")


def test_body_sent_byte_by_byte_within_the_limit_is_accepted(server: Server) -> None:
    body = b'{"name":"a","partitions":1,"replication_factor":1}'
    with dial(server) as link:
        link.sendall(HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body))
        for byte in body:
            link.sendall(bytes([byte]))
        assert read_all(link).startswith(b"HTTP/1.1 201 ")


def answered(server: Server, request: bytes) -> tuple[socket.socket, bytes]:
    """Return a connection and the first bytes of the response to its request.

    On a busy machine, the server may time out the request, which is then retried on a new connection.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        link = dial(server)
        with suppress(ConnectionError):
            link.sendall(request)
            if answer := link.recv(65_536):
                return link, answer
        link.close()
        assert time.monotonic() < deadline


@pytest.mark.parametrize("beginning", [b"", b"GET / HT", HEAD, HEAD + b"content-length: 5\r\n\r\n{"])
def test_slow_request_is_disconnected(hasty: Server, beginning: bytes) -> None:
    with dial(hasty) as link:
        link.sendall(beginning)
        began = time.monotonic()
        assert read_all(link) == b""
        assert time.monotonic() - began < 5


def test_slow_second_request_is_disconnected(hasty: Server) -> None:
    link, begun = answered(hasty, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /he")
    with link:
        answer = begun + read_all(link)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.count(b"HTTP/1.1") == 1


def test_stream_can_last_longer_than_the_request_timeout(hasty: Server) -> None:
    link, begun = answered(hasty, b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert begun.startswith(b"HTTP/1.1 200 ")
    with link:
        link.settimeout(1)
        with pytest.raises(TimeoutError):
            while link.recv(65_536):
                continue


def test_connection_over_the_limit_gets_503(server: Server) -> None:
    links = [dial(server) for _ in range(3)]
    for link in links:
        link.sendall(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert link.recv(65_536).startswith(b"HTTP/1.1 200 ")
    with dial(server) as late:
        answer = read_all(late)
        assert answer.startswith(b"HTTP/1.1 503 ")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"content-length: %d" % len(body) in head
        assert b"application/problem+json" in head and json.loads(body)["status"] == 503
    links.pop().close()
    deadline = time.monotonic() + 10
    while True:
        with dial(server) as again:
            again.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            if read_all(again).startswith(b"HTTP/1.1 200 "):
                break
        assert time.monotonic() < deadline
    for link in links:
        link.close()


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: elsewhere\r\n\r\n",
        HEAD + b"content-length: abc\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\nno length\r\n",
    ],
)
def test_malformed_http_is_rejected_with_a_problem_document(server: Server, request_: bytes) -> None:
    with dial(server) as link:
        link.sendall(request_)
        head, _, body = read_all(link).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head and b"content-length: %d" % len(body) in head
    assert json.loads(body)["detail"] == "Invalid HTTP request received."


LONG = b"x" * (1 << 20)
LONG_COUNT = 8
KERNEL_KEEPS = 1 << 16
"""Socket buffer size in bytes. It is small, so that most of a response stays in the server until the client reads."""


@pytest.fixture
def long_answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, uvicorn.Server]]:
    """Return a client socket that has received nothing yet, and the server that sends it an 8 MiB response."""
    monkeypatch.setattr(bounded_http, "STALLED_S", 1.0)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        for left in reversed(range(LONG_COUNT)):
            await send({"type": "http.response.body", "body": LONG, "more_body": left > 0})

    running = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", http=BoundedConnection))
    with socket.socket() as listening, socket.socket() as link:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_KEEPS)
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        while not running.started:
            time.sleep(0.01)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_KEEPS)
        link.connect(listening.getsockname())
        link.settimeout(PATIENCE_S)
        link.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        yield link, running
        running.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_client_that_reads_nothing_is_disconnected(
    long_answer: tuple[socket.socket, uvicorn.Server],
) -> None:
    link, server = long_answer
    deadline = time.monotonic() + PATIENCE_S
    for is_there in (True, False):
        while bool(server.server_state.connections) is not is_there:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert len(read_all(link)) < len(LONG) * LONG_COUNT


def test_client_that_reads_slowly_gets_the_whole_response(long_answer: tuple[socket.socket, uvicorn.Server]) -> None:
    link, _ = long_answer
    received, began = 0, time.monotonic()
    while data := link.recv(1 << 20):
        received += len(data)
        # Read slowly for 3 s in total. This is longer than the server waits for a read before it disconnects a client.
        if time.monotonic() - began < 3:
            time.sleep(0.1)
    assert received > len(LONG) * LONG_COUNT


def ask_agent(tmp_path: Path, token: str, body_bytes: int) -> tuple[int, int]:
    """Send a large request to the agent. Return its status code, and how many body chunks it read before it
    responded.
    """
    topology = plan(Requested(peers=1, brokers=0, zk_port=0, kafka_port=0, api_port=0), None)
    host = Host(topology, topology.hosts[0], tmp_path)
    app = create_app(host, "secret")
    asked, status = 0, 0

    async def receive() -> Message:
        nonlocal asked
        asked += 1
        sent = asked * JOURNAL_CHUNK_BYTES_MAX
        return {"type": "http.request", "body": b" " * JOURNAL_CHUNK_BYTES_MAX, "more_body": sent < body_bytes}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {
        "type": "http", "method": "PUT", "path": "/v1/faults", "raw_path": b"/v1/faults", "query_string": b"",
        "root_path": "", "scheme": "http", "http_version": "1.1", "server": ("127.0.0.1", 1), "client": None,
        "headers": [(b"authorization", f"Bearer {token}".encode()), (b"transfer-encoding", b"chunked")],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    host._journal.close()
    return status, asked


def test_agent_checks_the_token_before_reading_a_body(tmp_path: Path) -> None:
    assert ask_agent(tmp_path, "wrong", 512 * 1024 * 1024) == (401, 0)


def test_agent_stops_reading_a_body_that_is_too_large(tmp_path: Path) -> None:
    status, asked = ask_agent(tmp_path, "secret", 512 * 1024 * 1024)
    assert status == 413 and asked <= 5


def test_large_bodies_share_a_size_limit_but_small_bodies_do_not() -> None:
    async def scene() -> list[int]:
        released = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await released.wait()
            await send({"type": "http.response.start", "status": 201, "headers": []})

        limit = BodyLimit(app, 10, larger={"/runs": 1_000})
        statuses: list[int] = []

        async def ask(headers: list[tuple[bytes, bytes]]) -> None:
            async def receive() -> Message:
                return {"type": "http.request", "body": b"x", "more_body": False}

            async def send(message: Message) -> None:
                if "status" in message:
                    statuses.append(message["status"])

            await limit({"type": "http", "path": "/runs", "headers": headers}, receive, send)

        large = [(b"content-length", b"11")]
        taken = [asyncio.create_task(ask(large)) for _ in range(LARGE_AT_ONCE - 2)]
        # A body with chunked encoding counts as large, because its size is not known in advance.
        taken.append(asyncio.create_task(ask([(b"transfer-encoding", b"chunked")])))
        taken.append(asyncio.create_task(ask([(b"transfer-encoding", b"chunked"), (b"content-length", b"1")])))
        taken += [asyncio.create_task(ask([(b"content-length", b"10")])) for _ in range(20)]
        await asyncio.sleep(0)
        await ask(large)
        released.set()
        await asyncio.gather(*taken)
        await ask(large)
        return statuses

    assert asyncio.run(scene()) == [503, *[201] * (LARGE_AT_ONCE + 20), 201]


def test_client_disconnect_during_a_body_reaches_the_application() -> None:
    received: list[str] = []

    async def app(scope: object, receive: object, send: object) -> None:
        received.append((await receive())["type"])  # type: ignore[operator]

    messages: list[Message] = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"x", "more_body": True}]

    async def receive() -> Message:
        return messages.pop()

    async def send(message: Message) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "path": "/", "headers": [(b"content-length", b"5")]}
    asyncio.run(BodyLimit(app)(scope, receive, send))
    assert received == ["http.disconnect"]
