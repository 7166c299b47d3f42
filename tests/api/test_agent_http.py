"""HTTP calls to a host agent: persistent connections, and the outcome of calls without a response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from zabka.agent import client as agent_http
from zabka.agent.client import AgentHttp, AgentSilent, AgentUnreachable, Answer

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def request_head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


@asynccontextmanager
async def agent(serve: Serve) -> AsyncIterator[AgentHttp]:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1")
    http = AgentHttp(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "secret")
    async with server:
        yield http
        http.close()


def test_calls_share_a_connection_and_send_the_token() -> None:
    heads: list[bytes] = []
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            heads.append(await request_head(reader))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")

    async def play() -> list[Answer]:
        async with agent(serve) as http:
            return [await http.call("GET", "/v1/snapshot", timeout_s=5) for _ in range(3)]

    assert asyncio.run(play()) == [Answer(200, b"hi")] * 3
    assert connections == 1
    assert all(b"authorization: Bearer secret\r\n" in head for head in heads)


def test_connection_over_the_idle_limit_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_http, "IDLE_S_MAX", 0.0)
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await request_head(reader)
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async def play() -> None:
        async with agent(serve) as http:
            for _ in range(3):
                await http.call("GET", "/", timeout_s=5)

    asyncio.run(play())
    assert connections == 3


def test_connection_closed_by_agent_is_not_reused() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    async def play() -> list[int]:
        async with agent(serve) as http:
            return [(await http.call("GET", "/", timeout_s=5)).status for _ in range(3)]

    assert asyncio.run(play()) == [200, 200, 200]


def test_chunked_response_is_joined() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")

    async def play() -> bytes:
        async with agent(serve) as http:
            return (await http.call("GET", "/", timeout_s=5)).body

    assert asyncio.run(play()) == b"abc"


def test_call_to_closed_port_raises_agent_unreachable() -> None:
    async def play() -> None:
        async with agent(lambda *_: asyncio.sleep(0)) as http:
            pass
        await http.call("POST", "/v1/processes/broker-1/kill", timeout_s=5)

    with pytest.raises(AgentUnreachable):
        asyncio.run(play())


async def _silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _goodbye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_head(reader)


async def _half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_head(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")


async def _garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_head(reader)
    writer.write(b"\x00\x00\x00\x04what\r\n\r\n")


@pytest.mark.parametrize("serve", [_silence, _goodbye, _half, _garbage])
def test_incomplete_response_means_unknown_outcome(serve: Serve) -> None:
    async def play() -> None:
        async with agent(serve) as http:
            await http.call("POST", "/v1/processes/broker-1/kill", timeout_s=1.5)

    with pytest.raises(AgentSilent) as raised:
        asyncio.run(play())
    assert not isinstance(raised.value, AgentUnreachable)


def test_cancelled_call_closes_its_connection() -> None:
    async def play() -> bytes:
        asked = asyncio.Event()
        rest: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_head(reader)
            asked.set()
            rest.set_result(await reader.read())

        async with agent(serve) as http:
            call = asyncio.ensure_future(http.call("GET", "/", timeout_s=60))
            await asyncio.wait_for(asked.wait(), 5)
            call.cancel()
            return await asyncio.wait_for(rest, 5)

    assert asyncio.run(play()) == b""
