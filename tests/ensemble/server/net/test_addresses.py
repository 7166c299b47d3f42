"""Servers with several addresses (multiAddress.enabled): if one address does not respond, the next one is tried."""

from __future__ import annotations

import asyncio

import pytest

from bench.free_ports import free_ports
from zabka.ensemble.runtime.link_fault import HeldFault
from zabka.ensemble.runtime.links import FaultTable, LinkFaults
from zabka.ensemble.server.net.peer_addresses import HEAD_START_S, first_to_answer, listen_each
from zabka.ensemble.server.net.sockets import PortError, listen
from zabka.ensemble.zab.server_line import Address, parse_server_line

SILENT = "127.0.3.1"


def silence(address: str) -> FaultTable:
    return FaultTable([HeldFault("peer-1", "silent", "cut", id="f1")], "peer-1", {address: "silent"})


class SilentServer(asyncio.Protocol):
    """Server that never sends anything."""


async def port_of(host: str) -> tuple[asyncio.AbstractServer, int]:
    server = await listen(SilentServer, host, 0, "the port")
    return server, server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]


def test_first_address_that_replies_is_used() -> None:
    async def scenario() -> None:
        (one, first), (other, second) = await port_of("127.0.1.1"), await port_of("127.0.2.1")
        answered = await first_to_answer(LinkFaults(), [("127.0.1.1", first), ("127.0.2.1", second)])
        assert (answered.host, answered.sock.getpeername()) == ("127.0.1.1", ("127.0.1.1", first))
        answered.sock.close()
        one.close()
        other.close()

    asyncio.run(scenario())


def test_silent_address_does_not_delay_connecting() -> None:
    async def scenario() -> None:
        faults = LinkFaults()
        faults.apply(silence(f"{SILENT}:9"))
        server, port = await port_of("127.0.2.1")
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        answered = await first_to_answer(faults, [(SILENT, 9), ("127.0.2.1", port)])
        assert answered.host == "127.0.2.1" and loop.time() - began_s >= HEAD_START_S
        answered.sock.close()
        server.close()

    asyncio.run(scenario())


def test_closed_address_is_skipped_and_the_last_error_is_raised() -> None:
    async def scenario() -> None:
        closed = free_ports(2)
        server, port = await port_of("127.0.2.1")
        answered = await first_to_answer(LinkFaults(), [("127.0.0.1", closed[0]), ("127.0.2.1", port)])
        answered.sock.close()
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await first_to_answer(LinkFaults(), [("127.0.0.1", number) for number in closed])

    asyncio.run(scenario())


def test_server_listens_on_each_of_its_addresses_or_on_all() -> None:
    line = parse_server_line("10.0.0.1:2888:3888|10.1.0.1:2889:3889|10.2.0.1:2888:3888")
    assert [each.host for each in line.listens_at(on_all=False)] == ["10.0.0.1", "10.1.0.1", "10.2.0.1"]
    assert line.listens_at(on_all=True) == (Address("", 2888, 3888), Address("", 2889, 3889))


def test_server_starts_if_at_least_one_of_its_addresses_exists() -> None:
    async def opened(host: str, port: int) -> asyncio.AbstractServer:
        return await listen(SilentServer, host, port, "the quorum port")

    async def scenario() -> None:
        logged: list[str] = []
        ports = await listen_each([("127.0.1.1", 0), ("198.51.100.7", 0)], opened, logged.append)
        assert len(logged) == 1 and "the quorum port" in logged[0]
        ports.close()
        with pytest.raises(PortError):
            await listen_each([("198.51.100.7", 0)], opened, logged.append)

    asyncio.run(scenario())


def test_addresses_of_one_server_must_have_the_same_role() -> None:
    assert parse_server_line("a:1:2:observer|b:1:2;3").observer
    with pytest.raises(ValueError, match="different roles"):
        parse_server_line("a:1:2:participant|b:1:2:observer;3")
