"""A server that nobody asks sleeps, tells the date all the same, and ends at once when it is told to."""

from __future__ import annotations

import asyncio
import signal

import pytest
import uvicorn
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette

from api import quiet_server
from api.quiet_server import QuietServer

LONG_S = 30.0


@pytest.fixture(autouse=True)
def no_stream_of_others_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams' library notes an end for the whole process; other servers of these tests go on."""
    monkeypatch.setattr(AppStatus, "should_exit", False)


def server() -> QuietServer:
    config = uvicorn.Config(Starlette(), log_level="error")
    config.load()
    return QuietServer(config)


def test_a_signal_ends_it_without_waiting_for_its_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet_server, "TICK_S", 10 * LONG_S)

    async def scene() -> None:
        quiet = server()
        serving = asyncio.create_task(quiet.main_loop())
        await asyncio.sleep(0)
        assert not serving.done()
        quiet.handle_exit(signal.SIGTERM, None)
        await asyncio.wait_for(serving, LONG_S)

    asyncio.run(scene())


def test_a_signal_before_it_serves_ends_it_too() -> None:
    quiet = server()
    quiet.handle_exit(signal.SIGTERM, None)
    asyncio.run(asyncio.wait_for(quiet.main_loop(), LONG_S))


def test_every_turn_writes_the_date_anew(monkeypatch: pytest.MonkeyPatch) -> None:
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
