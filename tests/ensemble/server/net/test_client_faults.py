"""Request faults on a peer's client port: all types of faults, and the order in which they apply.

Faults apply to a connection's requests in the order of the requests.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any

import pytest

from tests.ensemble.server.net.test_client_port import Client, Port, run, until
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.records import OpCode
from zabka.ensemble.request_fault import HeldRequestFault
from zabka.journal.events import RequestFaultApplied

FIRST = ConnectionId(1)


def fault(**fields: Any) -> HeldRequestFault:
    return HeldRequestFault(**{"id": "f1", "kind": "request", "opcode": "getData", "times": 1, **fields})


async def connected(port: Port, *faults: HeldRequestFault) -> Client:
    (client,) = await port.clients(1)
    port.port.hold_faults(faults)
    return client


async def reply(client: Client) -> tuple[int, int]:
    """Receive the next reply, and return its (xid, error)."""
    size = struct.unpack(">i", await client.reader.readexactly(4))[0]
    xid, _, error = struct.unpack_from(">iqi", await client.reader.readexactly(size))
    return xid, error


async def arrived(port: Port, count: int) -> None:
    await until(lambda: len(port.listener.got) == count)


def test_error_fault_replaces_the_reply_and_skips_the_request() -> None:
    async def test(port: Port) -> None:
        client = await connected(port, fault(effect="error", error="NO_NODE"))
        await client.ask(1, 2)
        await arrived(port, 2)
        assert [request.op for _, request in port.listener.got] == [OpCode.EXISTS, OpCode.GET_DATA]
        port.answer(FIRST, 1, 2)
        assert [await reply(client), await reply(client)] == [(1, ErrorCode.NO_NODE), (2, 0)]

    port = run(test)
    (event,) = port.events
    assert isinstance(event, RequestFaultApplied)
    assert (event.request, event.subject, event.effect, event.use, event.caused_by) == (
        "getData", "/", "error", 1, "fault f1",
    )  # fmt: skip
    assert port.port.fault_counts() == {"f1": [1, 1]}


def test_drop_response_fault_executes_request_then_disconnects() -> None:
    async def test(port: Port) -> None:
        client = await connected(port, fault(effect="drop_response", nth=2, times=0))
        await client.ask(1, 2)
        await arrived(port, 2)
        port.answer(FIRST, 1, 2)
        assert await reply(client) == (1, 0)
        assert await client.reader.read() == b""

    assert run(test).listener.xids(FIRST) == [1, 2]


def test_truncated_reply_closes_the_connection() -> None:
    async def test(port: Port) -> None:
        client = await connected(port, fault(effect="truncate"))
        await client.ask(1)
        await arrived(port, 1)
        port.answer(FIRST, 1)
        assert len(await client.reader.read()) == 10

    run(test)


def test_close_fault_disconnects_without_executing_the_request() -> None:
    async def test(port: Port) -> None:
        client = await connected(port, fault(effect="close"))
        await client.ask(1)
        assert await client.reader.read() == b""

    assert run(test).listener.got == []


def test_connection_with_a_hang_fault_reads_no_later_request() -> None:
    async def test(port: Port) -> None:
        client = await connected(port, fault(effect="hang", nth=2, times=0))
        await client.ask(1, 2, 3)
        await until(lambda: bool(port.events))
        # Give the server time to read the third request. There is no event for a request that it must not read.
        await asyncio.sleep(0.02)

    assert run(test).listener.xids(FIRST) == [1]


def test_delayed_request_delays_later_requests() -> None:
    async def test(port: Port) -> None:
        client = await connected(port, fault(effect="delay_before", delay_ms=100))
        began = time.monotonic()
        await client.ask(1, 2)
        await arrived(port, 2)
        assert time.monotonic() - began >= 0.1

    assert run(test).listener.xids(FIRST) == [1, 2]


def test_delayed_reply_delays_later_replies() -> None:
    async def test(port: Port) -> None:
        client = await connected(port, fault(effect="delay_after", delay_ms=100))
        await client.ask(1, 2)
        await arrived(port, 2)
        began = time.monotonic()
        port.answer(FIRST, 1, 2)
        assert [await reply(client), await reply(client)] == [(1, 0), (2, 0)]
        assert time.monotonic() - began >= 0.1

    run(test)


def test_request_fault_affects_no_other_connection_or_path() -> None:
    async def test(port: Port) -> None:
        client = await connected(port, fault(effect="close", path="/app/*"))
        await client.ask(1)
        await arrived(port, 1)
        port.answer(FIRST, 1)
        assert await reply(client) == (1, 0)

    port = run(test)
    assert (port.events, port.port.fault_counts()) == ([], {"f1": [0, 0]})


@pytest.mark.parametrize("effect", ["drop_response", "error"])
def test_removing_a_request_fault_completes_pending_requests(effect: str) -> None:
    async def test(port: Port) -> None:
        error = {"error": "NO_NODE"} if effect == "error" else {}
        client = await connected(port, fault(effect=effect, **error))
        await client.ask(1)
        await arrived(port, 1)
        port.port.hold_faults([])
        port.answer(FIRST, 1)
        if effect == "error":
            assert await reply(client) == (1, ErrorCode.NO_NODE)
        else:
            assert await client.reader.read() == b""

    run(test)


def test_port_without_request_faults_has_no_fault_engine() -> None:
    async def test(port: Port) -> None:
        client = await connected(port)
        await client.ask(1)
        await arrived(port, 1)
        assert port.port.faults is None

    run(test)
