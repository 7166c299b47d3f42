"""The reply to a four-letter word arrives completely, however slowly the client reads it, or the connection is
reset.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from tests.ensemble.server.net.test_client_port import Listener, until
from zabka.ensemble.auth.policy import OPEN_POLICY
from zabka.ensemble.runtime.node_process import new_event_loop
from zabka.ensemble.server.config.limits import Limits
from zabka.ensemble.server.net import client_port, lingering
from zabka.ensemble.server.net.admission import Admission
from zabka.ensemble.server.net.client_port import ClientPort

REPLY = "x" * 20_000_000
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "as in production"])
Loop = Callable[[], asyncio.AbstractEventLoop]


class Asked(Listener):
    """Peer that sends the same long reply to every four-letter word."""

    def answer_word(self, word: str, argument: bytes) -> str | None:
        return REPLY


def ask(loop: Loop, read: Callable[[ClientPort, Admission, socket.socket], Awaitable[int]]) -> int:
    """Send the command `wchp` to a client port, and return the result of `read`."""

    async def main() -> int:
        admission = Admission(Limits(), lambda: 0.5, 0)
        port = ClientPort(Asked(), admission, OPEN_POLICY)
        await port.listen("127.0.0.1", 0)
        try:
            with socket.create_connection(("127.0.0.1", port.port)) as client:
                client.setblocking(False)
                await asyncio.get_running_loop().sock_sendall(client, b"wchp")
                return await read(port, admission, client)
        finally:
            await port.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(asyncio.wait_for(main(), 20))


async def read_all(client: socket.socket) -> int:
    got, loop = 0, asyncio.get_running_loop()
    while part := await loop.sock_recv(client, 1 << 20):
        got += len(part)
    return got


@LOOPS
def test_long_reply_is_sent_completely_to_a_reader_that_pauses(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_port, "LINGER_S", 0.1)

    async def read(port: ClientPort, admission: Admission, client: socket.socket) -> int:
        await asyncio.sleep(0.5)
        return await read_all(client)

    assert ask(loop, read) == len(REPLY)


@LOOPS
def test_long_reply_is_sent_completely_to_a_slow_reader(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads slowly receives the whole reply.

    The client needs 0.1 s for each of ten parts. The timeout of 0.3 s applies only to the time in which the client
    reads nothing.
    """
    monkeypatch.setattr(lingering, "IDLE_S", 0.3)

    async def read(port: ClientPort, admission: Admission, client: socket.socket) -> int:
        got, loop = 0, asyncio.get_running_loop()
        for _ in range(10):
            await asyncio.sleep(0.1)
            end = got + len(REPLY) // 12
            while got < end:
                got += len(await loop.sock_recv(client, end - got))
        return got + await read_all(client)

    assert ask(loop, read) == len(REPLY)


@LOOPS
def test_connection_of_a_client_that_stopped_reading_is_reset(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "IDLE_S", 0.1)

    async def read(port: ClientPort, admission: Admission, client: socket.socket) -> int:
        await until(lambda: admission.connections == 1)
        await until(lambda: admission.connections == 0)
        return await read_all(client)

    with pytest.raises(ConnectionResetError):
        ask(loop, read)


@LOOPS
def test_connection_with_a_pending_reply_is_reset_at_server_stop(loop: Loop) -> None:
    async def read(port: ClientPort, admission: Admission, client: socket.socket) -> int:
        await asyncio.get_running_loop().sock_recv(client, 1)
        await port.close()
        return await read_all(client)

    with pytest.raises(ConnectionResetError):
        ask(loop, read)
