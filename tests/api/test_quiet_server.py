"""An idle server sleeps, keeps its Date header current, and stops immediately on a signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import uvicorn
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.types import Message

from zabka.agent import quiet_server
from zabka.agent.quiet_server import QuietServer
from zabka.api.routes import stream as routes_stream
from zabka.api.routes.stream import WholeStream

LONG_S = 30.0


@pytest.fixture(autouse=True)
def no_stream_of_others_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset sse-starlette's exit flag, which is global. Otherwise it would end the streams of other tests' servers."""
    monkeypatch.setattr(AppStatus, "should_exit", False)


def server() -> QuietServer:
    config = uvicorn.Config(Starlette(), log_level="error")
    config.load()
    return QuietServer(config)


def test_signal_stops_the_server_before_the_next_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet_server, "TICK_S", 10 * LONG_S)

    async def scene() -> None:
        quiet = server()
        serving = asyncio.create_task(quiet.main_loop())
        await asyncio.sleep(0)
        assert not serving.done()
        quiet.handle_exit(signal.SIGTERM, None)
        await asyncio.wait_for(serving, LONG_S)

    asyncio.run(scene())


def test_signal_before_the_main_loop_stops_the_server() -> None:
    quiet = server()
    quiet.handle_exit(signal.SIGTERM, None)
    asyncio.run(asyncio.wait_for(quiet.main_loop(), LONG_S))


def test_server_stops_its_services_before_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    order = []

    async def stop() -> None:
        order.append("stop")

    async def shutdown(self: uvicorn.Server, sockets: object = None) -> None:
        order.append("close")

    monkeypatch.setattr(uvicorn.Server, "shutdown", shutdown)
    asyncio.run(QuietServer(uvicorn.Config(Starlette()), stop).shutdown())
    assert order == ["stop", "close"]


def test_every_tick_updates_the_date_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet_server, "TICK_S", 0.001)

    async def scene() -> None:
        quiet = server()
        turns = asyncio.Event()
        dates: list[bytes] = []
        on_tick = quiet.on_tick

        async def turn(counter: int) -> bool:
            quiet.server_state.default_headers = []
            over = await on_tick(counter)
            dates.extend(name for name, _ in quiet.server_state.default_headers if name == b"date")
            if len(dates) == 3:
                turns.set()
            return over

        monkeypatch.setattr(quiet, "on_tick", turn)
        serving = asyncio.create_task(quiet.main_loop())
        await turns.wait()
        quiet.handle_exit(signal.SIGTERM, None)
        await serving

    asyncio.run(asyncio.wait_for(scene(), LONG_S))


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_stream_sends_its_last_chunk_even_if_the_server_stops(
    monkeypatch: pytest.MonkeyPatch, ends_by_itself: bool
) -> None:
    async def scene() -> list[Message]:
        sent: list[Message] = []

        async def events() -> AsyncIterator[bytes]:
            yield b": one\n\n"
            if not ends_by_itself:
                monkeypatch.setattr(AppStatus, "should_exit", True)
                await asyncio.Event().wait()

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        await asyncio.wait_for(WholeStream(events())(scope, receive, send), LONG_S)
        return sent

    sent = asyncio.run(scene())
    assert [message["type"] for message in sent] == ["http.response.start", *["http.response.body"] * 2]
    assert [message["more_body"] for message in sent[1:]] == [True, False]


def test_client_that_reads_nothing_does_not_delay_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_stream, "ENDED_WITHIN_S", 0.01)

    async def scene() -> None:
        async def events() -> AsyncIterator[bytes]:
            yield b": one\n\n"

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                monkeypatch.setattr(AppStatus, "should_exit", True)
                await asyncio.Event().wait()

        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        await asyncio.wait_for(WholeStream(events())(scope, receive, send), LONG_S)

    asyncio.run(scene())
