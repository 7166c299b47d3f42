"""Sockets of simulated programs: `socket.socket` with the methods of the event loop, transports and servers."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from typing import Any

import pytest

from tests.testing.test_program_loop import passes, run
from zabka.simulation.engine.refusal import NotSimulated
from zabka.testing import SimulatedWorld

STREAM = bytes(range(256)) * 2_000
"""More bytes than the buffers of both sockets hold."""


def opened(family: int = socket.AF_INET) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


def listening(port: int = 80) -> socket.socket:
    made = opened()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("0.0.0.0", port))
    made.listen(16)
    return made


async def received(sock: socket.socket) -> bytes:
    loop, data = asyncio.get_running_loop(), bytearray()
    while piece := await loop.sock_recv(sock, 65_536):
        data += piece
    return bytes(data)


async def connected() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a connection of this machine to itself."""
    loop = asyncio.get_running_loop()
    with listening(0) as listener:
        calling = opened()
        await loop.sock_connect(calling, ("localhost", listener.getsockname()[1]))
        accepted, address = await loop.sock_accept(listener)
        assert address == calling.getsockname() == accepted.getpeername()
        assert calling.getpeername() == accepted.getsockname()
        return calling, accepted


async def echo(_: str) -> None:
    """Return the bytes of each connection to it after the end of its stream."""
    loop = asyncio.get_running_loop()

    async def answer(client: socket.socket) -> None:
        with client:
            await loop.sock_sendall(client, await received(client))

    with listening() as listener:
        async with asyncio.TaskGroup() as group:
            while True:
                client, _ = await loop.sock_accept(listener)
                group.create_task(answer(client))


# ---- the methods of the loop ---------------------------------------------------------------------------------------


def test_stream_larger_than_the_buffers_arrives_complete() -> None:
    async def call(world: SimulatedWorld) -> None:
        world.start("echo", echo)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        with opened() as sock:
            await loop.sock_connect(sock, ("echo", 80))
            await loop.sock_sendall(sock, STREAM)
            sock.shutdown(socket.SHUT_WR)
            assert await received(sock) == STREAM
            assert await loop.sock_recv(sock, 1) == b""
            with pytest.raises(BrokenPipeError):
                await loop.sock_sendall(sock, b"x")

    passes(call)


def test_sock_sendall_waits_until_the_other_end_reads() -> None:
    async def send(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        calling, accepted = await connected()
        first = asyncio.create_task(loop.sock_sendall(calling, STREAM))
        second = asyncio.create_task(loop.sock_sendall(calling, memoryview(b"end")))
        await asyncio.sleep(60)
        assert not first.done() and not second.done()
        data, buffer = bytearray(), bytearray(10_000)
        while len(data) < len(STREAM) + 3:
            data += buffer[: await loop.sock_recv_into(accepted, buffer)]
        assert data == STREAM + b"end"
        await asyncio.gather(first, second)

    passes(send)


def test_cancelled_sock_recv_loses_no_bytes() -> None:
    async def read(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        calling, accepted = await connected()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.sock_recv(accepted, 10), 1)
        await loop.sock_sendall(calling, b"paid")
        calling.close()
        assert await received(accepted) == b"paid"

    passes(read)


def test_sock_connect_to_a_closed_port_is_refused() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        sock = opened()
        with pytest.raises(ConnectionRefusedError):
            await loop.sock_connect(sock, ("localhost", 80))
        with pytest.raises(OSError, match="not connected"):
            sock.getpeername()
        with pytest.raises(socket.gaierror):
            await loop.sock_connect(sock, ("nowhere", 80))
        with listening():
            await loop.sock_connect(sock, ("127.0.0.1", 80))
            with pytest.raises(OSError, match="already connected"):
                await loop.sock_connect(sock, ("127.0.0.1", 80))

    passes(call)


def test_closed_or_blocking_socket_is_rejected() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        assert sock.getblocking() and sock.fileno() >= 0
        with pytest.raises(ValueError, match="must be non-blocking"):
            await loop.sock_connect(sock, ("localhost", 80))
        sock.setblocking(False)
        with pytest.raises(OSError, match="not connected"):
            await loop.sock_recv(sock, 1)
        with pytest.raises(OSError, match="Invalid argument"):
            await loop.sock_accept(sock)
        sock.close()
        assert sock.fileno() == -1 and "[closed]" in repr(sock)
        with pytest.raises(OSError, match="Bad file descriptor"):
            await loop.sock_connect(sock, ("localhost", 80))

    passes(call)


def test_bound_port_is_the_port_of_the_connection() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        with listening() as listener, opened() as sock, opened() as other:
            with pytest.raises(OSError, match="in use"):
                other.bind(("", 80))
            with pytest.raises(OSError, match="assign"):
                other.bind(("10.200.0.1", 0))
            sock.bind(("127.0.0.1", 0))
            bound = sock.getsockname()
            assert bound[0] == "127.0.0.1" and bound[1] > 0
            await loop.sock_connect(sock, ("localhost", 80))
            accepted = await loop.sock_accept(listener)
            assert accepted[1][1] == bound[1] == sock.getsockname()[1]
            sock.close()
            with opened() as again:
                again.bind(bound)
                with pytest.raises(OSError, match="assign"):
                    await loop.sock_connect(again, ("localhost", 80))

    passes(call)


def test_ipv6_socket_uses_mapped_addresses() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        listener, sock = opened(socket.AF_INET6), opened(socket.AF_INET6)
        listener.bind(("::", 80))
        listener.listen()
        assert listener.getsockname() == ("::", 80, 0, 0)
        await loop.sock_connect(sock, ("::1", 80, 0, 0))
        accepted, address = await loop.sock_accept(listener)
        assert address[0].startswith("::ffff:") and address == sock.getsockname()
        again = opened(socket.AF_INET6)
        await loop.sock_connect(again, (address[0], 80))
        assert accepted.family == sock.family == socket.AF_INET6

    passes(call)


def test_socket_options_are_stored() -> None:
    async def use(_: SimulatedWorld) -> None:
        sock = socket.socket()
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert (sock.family, sock.type, sock.proto, sock.timeout) == (socket.AF_INET, socket.SOCK_STREAM, 0, None)
        number = sock.fileno()
        assert sock.detach() == number and sock.fileno() == -1

    passes(use)


def test_socket_of_the_host_is_rejected() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop: Any = asyncio.get_running_loop()
        for use in (loop.sock_recv(host, 1), loop.create_connection(asyncio.Protocol, sock=host)):
            with pytest.raises(NotSimulated, match=rf"at {__file__}:\d+ does not work .* opened with socket.socket"):
                await use

    with socket.socket() as host:
        passes(call)
    with socket.socket() as another:
        assert type(another) is type(host) is socket.socket


# ---- faults --------------------------------------------------------------------------------------------------------


def test_kill_of_a_program_ends_the_streams_of_its_sockets() -> None:
    async def lose(world: SimulatedWorld) -> None:
        async def holder(_: str) -> None:
            loop = asyncio.get_running_loop()
            with listening() as listener:
                client, _ = await loop.sock_accept(listener)
                await loop.sock_sendall(client, b"paid")
                await asyncio.sleep(3_600)

        service = world.start("holder", holder)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        sock = opened()
        await loop.sock_connect(sock, ("holder", 80))
        assert await loop.sock_recv(sock, 4) in (b"paid", b"pai", b"pa", b"p")
        reading = asyncio.create_task(received(sock))
        await asyncio.sleep(1)
        assert not reading.done()
        service.kill()
        assert (await asyncio.wait_for(reading, 1))[-1:] in (b"", b"d")
        with pytest.raises(ConnectionRefusedError):
            await loop.sock_connect(opened(), ("holder", 80))

    passes(lose)


def test_power_loss_is_noticed_only_by_a_sender() -> None:
    async def lose(world: SimulatedWorld) -> None:
        service = world.start("echo", echo)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        quiet, sending, watching = opened(), opened(), opened()
        for sock in (quiet, sending, watching):
            await loop.sock_connect(sock, ("echo", 80))
        watching.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        service.power_loss()
        readings = [asyncio.create_task(received(sock)) for sock in (quiet, sending, watching)]
        await asyncio.sleep(60)
        assert [reading.done() for reading in readings] == [False, False, True]
        with pytest.raises(TimeoutError):
            await readings[2]
        service.start()
        await asyncio.sleep(1)
        await loop.sock_sendall(sending, b"x")
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(readings[1], 5)
        assert await loop.sock_recv(sending, 1) == b""
        assert not readings[0].done()

    passes(lose)


def test_cut_delays_bytes_until_it_heals() -> None:
    async def cut(world: SimulatedWorld) -> None:
        world.start("echo", echo)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        sock = opened()
        await loop.sock_connect(sock, ("echo", 80))
        fault = world.faults.cut("echo", "test-function")
        await loop.sock_sendall(sock, b"paid")
        sock.shutdown(socket.SHUT_WR)
        reading = asyncio.create_task(received(sock))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.sock_connect(opened(), ("echo", 80)), 3)
        assert not reading.done()
        fault.heal()
        assert await asyncio.wait_for(reading, 20) == b"paid"

    passes(cut)


def test_close_with_linger_zero_resets_the_connection() -> None:
    async def reset(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        calling, accepted = await connected()
        sending = asyncio.create_task(loop.sock_sendall(accepted, STREAM))
        calling.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        calling.close()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(sending, 1)
        assert await loop.sock_recv(accepted, 1) == b""
        with pytest.raises(BrokenPipeError):
            await loop.sock_sendall(accepted, b"x")
        calling, accepted = await connected()
        calling.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        calling.close()
        await asyncio.sleep(1)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0

    passes(reset)


# ---- transports and servers ----------------------------------------------------------------------------------------


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read())
    await writer.drain()
    writer.close()


def test_streams_can_use_sockets() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        listener = opened()
        listener.bind(("0.0.0.0", 0))
        server = await asyncio.start_server(answer, sock=listener)
        port = listener.getsockname()[1]
        assert server.sockets[0].getsockname()[1] == port
        sock = socket.socket()
        sock.setblocking(False)
        await loop.sock_connect(sock, ("localhost", port))
        reader, writer = await asyncio.open_connection(sock=sock)
        with pytest.raises(RuntimeError, match="is used by transport"):
            await loop.sock_recv(sock, 1)
        writer.write(STREAM)
        writer.write_eof()
        assert await reader.read() == STREAM
        writer.close()
        await writer.wait_closed()
        assert sock.fileno() == -1
        server.close()
        assert listener.fileno() == -1
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("localhost", port)

    passes(call)


def test_server_accepts_connections_made_before_it_starts() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        sock = opened()
        listener = listening()
        await loop.sock_connect(sock, ("localhost", 80))
        await loop.sock_sendall(sock, b"paid")
        sock.shutdown(socket.SHUT_WR)
        server = await asyncio.start_server(answer, sock=listener, start_serving=False)
        await asyncio.sleep(1)
        assert not server.is_serving()
        await server.start_serving()
        assert await received(sock) == b"paid"

    passes(call)


def test_accepted_socket_can_become_a_transport() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        calling, accepted = await connected()
        await loop.sock_sendall(calling, b"paid")
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport = (await loop.connect_accepted_socket(lambda: protocol, accepted))[0]
        assert await reader.readexactly(4) == b"paid"
        accepted.close()
        transport.write(b"x")
        await asyncio.sleep(1)
        assert transport.is_closing()
        assert await received(calling) == b""

    passes(call)


def test_wrong_arguments_with_sock_are_rejected() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop: Any = asyncio.get_running_loop()
        calling = (await connected())[0]
        with pytest.raises(ValueError, match="can not be specified at the same time"):
            await loop.create_connection(asyncio.Protocol, "localhost", 80, sock=calling)
        with pytest.raises(ValueError, match="server_hostname"):
            await loop.create_connection(asyncio.Protocol, sock=calling, ssl=True)
        with pytest.raises(OSError, match="not connected"):
            await loop.create_connection(asyncio.Protocol, sock=socket.socket())

    passes(call)


def test_history_with_sockets_is_the_same_in_a_second_run() -> None:
    async def call(world: SimulatedWorld) -> None:
        world.start("echo", echo)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        pieces = []
        with opened() as sock:
            await loop.sock_connect(sock, ("echo", 80))
            await loop.sock_sendall(sock, STREAM)
            sock.shutdown(socket.SHUT_WR)
            while piece := await loop.sock_recv(sock, 4_096):
                pieces.append((len(piece), world.now))
        world.note("received", pieces=repr(pieces))

    def history(seed: int) -> list[str]:
        return [repr(entry.event) for entry in run(call, seed).entries]

    assert history(3) == history(3) != history(4)
