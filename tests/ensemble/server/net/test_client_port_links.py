"""Link faults between clients and a peer's client port, chosen by session or address, for old and new connections."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from tests.ensemble.server.net.test_client_port import Client, Port, run, until
from tests.event_loops import each_event_loop  # noqa: F401
from zabka.ensemble.ids import ConnectionId, SessionId
from zabka.ensemble.records import ConnectRequest, ConnectResponse
from zabka.ensemble.runtime.link_fault import HeldFault
from zabka.ensemble.runtime.links import FaultTable
from zabka.journal.events import LinkFaultApplied

FIRST, SECOND = ConnectionId(1), ConnectionId(2)
SHORT_S = 0.1


def hold(port: Port, *sources: str, **fields: Any) -> None:
    faults = [HeldFault(source, "*", "cut", id=f"f {source}", **fields) for source in sources]
    port.port.hold_links(FaultTable(faults, "peer-1"))


async def reply(client: Client) -> bytes:
    size = struct.unpack(">i", await client.reader.readexactly(4))[0]
    return await client.reader.readexactly(size)


async def no_reply(client: Client) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.reader.read(1), SHORT_S)


def connected(port: Port, connection: ConnectionId, session: int) -> None:
    """Send a connection the response to its ConnectRequest."""
    port.listener.sessions[connection] = SessionId(session)
    port.port.answer(connection, ConnectResponse(0, 5_000, session, bytes(16)))
    port.port.flush()


def test_session_fault_applies_to_an_already_open_connection() -> None:
    async def test(port: Port) -> None:
        client, other = await port.clients(2)
        port.listener.sessions = {FIRST: SessionId(0xAB), SECOND: SessionId(0xAC)}
        hold(port, "session:0xab")
        await client.ask(1)
        await other.ask(1)
        await until(lambda: len(port.listener.got) == 1)
        assert port.listener.got[0][0] == SECOND
        hold(port)
        await until(lambda: len(port.listener.got) == 2)
        port.answer(FIRST, 1)
        assert await reply(client)

    (event,) = run(test).events
    assert isinstance(event, LinkFaultApplied)
    assert (event.client, event.kind, event.caused_by) == ("0xab", "cut", "fault f session:0xab")


def test_session_fault_applies_to_the_next_connection() -> None:
    async def test(port: Port) -> None:
        hold(port, "session:0xab")
        client = Client(*await asyncio.open_connection("127.0.0.1", port.port.port))
        port.made.append(client)
        client.send(ConnectRequest(0, 0, 5_000, 0xAB, bytes(16)).encode())
        (other,) = await port.clients(1)
        await asyncio.sleep(SHORT_S)
        assert len(port.listener.identities) == 1
        await other.ask(1)
        hold(port)
        await until(lambda: len(port.listener.identities) == 2)

    run(test)


def test_later_fault_does_not_release_a_blocked_session_request() -> None:
    async def test(port: Port) -> None:
        hold(port, "session:0xab")
        client = Client(*await asyncio.open_connection("127.0.0.1", port.port.port))
        port.made.append(client)
        client.send(ConnectRequest(0, 0, 5_000, 0xAB, bytes(16)).encode())
        await until(lambda: bool(port.port.newcomers()))
        await asyncio.sleep(SHORT_S)
        hold(port, "session:0xab", "session:0xcd")
        await asyncio.sleep(SHORT_S)
        assert not port.listener.identities
        hold(port)
        await until(lambda: len(port.listener.identities) == 1)

    run(test)


def test_later_fault_keeps_the_bytes_of_an_unfinished_request() -> None:
    async def test(port: Port) -> None:
        hold(port, "session:0xab")
        client = Client(*await asyncio.open_connection("127.0.0.1", port.port.port))
        port.made.append(client)
        request = ConnectRequest(0, 0, 5_000, 0xAC, bytes(16)).encode()
        frame = struct.pack(">i", len(request)) + request
        client.writer.write(frame[:10])
        await until(lambda: bool(port.port.newcomers()))
        await asyncio.sleep(SHORT_S)
        hold(port, "session:0xab", "session:0xcd")
        client.writer.write(frame[10:])
        await until(lambda: len(port.listener.identities) == 1)

    run(test)


def test_new_session_without_a_matching_fault_is_served() -> None:
    async def test(port: Port) -> None:
        hold(port, "session:0xab", "client:shop-*", "10.0.0.9")
        (client,) = await port.clients(1)
        connected(port, FIRST, 0xAC)
        assert await reply(client)
        for number in (1, 2, 3):
            port.listener.got.clear()
            await client.ask(number)
            await until(lambda: bool(port.listener.got))
            port.answer(FIRST, number)
            assert await reply(client)

    run(test)


def test_fault_for_all_sessions_blocks_a_new_session() -> None:
    async def test(port: Port) -> None:
        hold(port, "session:*")
        await port.client()
        await asyncio.sleep(SHORT_S)
        assert not port.listener.identities
        hold(port)
        await until(lambda: len(port.listener.identities) == 1)

    run(test)


def test_fault_for_a_new_session_applies_from_its_first_reply() -> None:
    async def test(port: Port) -> None:
        hold(port, "session:0xab")
        (client,) = await port.clients(1)
        connected(port, FIRST, 0xAB)
        await no_reply(client)
        hold(port)
        assert await reply(client)

    run(test)


def test_session_faults_do_not_apply_to_broker_sessions() -> None:
    async def test(port: Port) -> None:
        (client,) = await port.clients(1)
        port.listener.sessions = {FIRST: SessionId(0xAB)}
        port.listener.of_brokers = {SessionId(0xAB)}
        hold(port, "session:*", "127.0.0.1")
        await client.ask(1)
        await until(lambda: len(port.listener.got) == 1)

    assert run(test).events == []


def test_four_letter_word_is_blocked_by_an_address_fault() -> None:
    async def test(port: Port) -> None:
        hold(port, "127.0.0.1")
        client = Client(*await asyncio.open_connection("127.0.0.1", port.port.port))
        port.made.append(client)
        client.writer.write(b"ruok")
        await no_reply(client)
        hold(port)

    run(test)
