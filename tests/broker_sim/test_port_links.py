"""Link faults between clients and the Kafka port: to which connections a rule applies, and which data it delays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.broker_sim.test_port_connection import Served, run, serving
from tests.event_loops import each_event_loop  # noqa: F401
from zabka.broker_sim.kafka_port import KafkaPort, first_client
from zabka.ensemble.runtime.client_links import ClientLinks, KnownClient
from zabka.ensemble.runtime.link_fault import HeldFault
from zabka.ensemble.runtime.links import FaultTable
from zabka.journal.events import Event, LinkFaultApplied
from zabka.kafka.wire.frames import encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request

SHORT_S = 0.1


class Links:
    """Link faults on the client connections of a broker's port, and the events that they cause."""

    def __init__(self, served: Served, port: KafkaPort) -> None:
        self.served = served
        self.port = port
        self.events: list[Event] = []
        self.clients: list[Client] = []
        self._links = ClientLinks("client", first_client, self.events.append)

    def hold(self, *faults: HeldFault) -> None:
        self._links.apply(FaultTable(list(faults), "broker-1"))
        self.port.hold_links(self._links)

    async def client(self, client_id: str = "shop") -> Client:
        client = Client(client_id, *await asyncio.open_connection("127.0.0.1", self.served.number))
        self.clients.append(client)
        return client


class Client:
    """Test client that sends requests on a plain socket."""

    def __init__(self, client_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._id = client_id
        self._reader = reader
        self.writer = writer
        self._number = 0

    def send(self) -> None:
        self._number += 1
        self.writer.write(encode_request(self._number, self._id, request(ApiKey.API_VERSIONS, 0)))

    async def answer(self) -> int:
        size = int.from_bytes(await self._reader.readexactly(4))
        return int.from_bytes((await self._reader.readexactly(size))[:4])

    async def ask(self) -> int:
        self.send()
        return await asyncio.wait_for(self.answer(), 5)


@asynccontextmanager
async def linked() -> AsyncIterator[Links]:
    async with serving() as (served, port):
        links = Links(served, port)
        yield links
        links.hold()
        for client in links.clients:
            client.writer.close()


def check(test: Callable[[Links], Awaitable[None]]) -> None:
    async def main() -> None:
        async with linked() as links:
            await test(links)

    run(main)


def fault(source: str, target: str = "*", kind: Any = "cut", **fields: Any) -> HeldFault:
    return HeldFault(source, target, kind, **{"id": "f1", **fields})


def test_link_fault_applies_immediately_to_an_open_connection() -> None:
    async def test(links: Links) -> None:
        client = await links.client()
        assert await client.ask() == 1
        links.hold(fault("client:sh*"))
        client.send()
        await asyncio.sleep(SHORT_S)
        assert len(links.served.requests) == 1
        links.hold()
        assert await asyncio.wait_for(client.answer(), 5) == 2

    check(test)


def test_new_client_without_a_matching_fault_is_served() -> None:
    async def test(links: Links) -> None:
        links.hold(fault("client:other"), fault("10.0.0.9", id="f2"))
        client = await links.client()
        assert [await client.ask() for _ in range(3)] == [1, 2, 3]

    check(test)


def test_link_fault_applies_to_the_first_request_of_a_connection() -> None:
    async def test(links: Links) -> None:
        links.hold(fault("client:shop"))
        client, other = await links.client(), await links.client("other")
        client.send()
        assert await other.ask() == 1
        assert await other.ask() == 2
        assert [client_id for _, client_id, _ in links.served.requests] == ["other", "other"]
        links.hold()
        assert await asyncio.wait_for(client.answer(), 5) == 1

    check(test)


def test_link_cut_towards_the_client_holds_back_only_responses() -> None:
    async def test(links: Links) -> None:
        links.hold(fault("broker-1", "client:shop", both_ways=False))
        client = await links.client()
        client.send()
        while not links.served.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(SHORT_S)
        links.hold()
        assert await asyncio.wait_for(client.answer(), 5) == 1

    check(test)


def test_link_fault_on_an_address_affects_clients_not_brokers() -> None:
    async def test(links: Links) -> None:
        links.hold(fault("127.0.0.0/8"))
        client, broker, page = await links.client(), await links.client("broker-2"), await links.client("api-admin")
        client.send()
        assert (await broker.ask(), await page.ask()) == (1, 1)
        assert len(links.served.requests) == 2

    check(test)


def test_delay_fault_applies_in_both_directions() -> None:
    async def test(links: Links) -> None:
        links.hold(fault("client:shop", kind="delay", delay_ms=60))
        client = await links.client()
        began = asyncio.get_running_loop().time()
        assert await client.ask() == 1
        assert asyncio.get_running_loop().time() - began >= 0.12

    check(test)


def test_bandwidth_fault_limits_the_bytes_per_second() -> None:
    async def test(links: Links) -> None:
        links.hold(fault("client:shop", kind="bandwidth", bytes_per_s=500, both_ways=False))
        client = await links.client()
        began = asyncio.get_running_loop().time()
        for _ in range(5):
            client.send()
        assert [await asyncio.wait_for(client.answer(), 5) for _ in range(5)] == [1, 2, 3, 4, 5]
        size = 5 * len(encode_request(1, "shop", request(ApiKey.API_VERSIONS, 0)))
        assert asyncio.get_running_loop().time() - began >= 0.9 * size / 500

    check(test)


def test_link_fault_is_journaled_once_for_each_client() -> None:
    async def test(links: Links) -> None:
        links.hold(fault("client:shop-*", kind="delay", delay_ms=1))
        for client_id in ("shop-1", "shop-1", "shop-2", "other"):
            await (await links.client(client_id)).ask()
        assert [event.client for event in links.events if isinstance(event, LinkFaultApplied)] == ["shop-1", "shop-2"]
        (first, _) = links.events
        assert isinstance(first, LinkFaultApplied)
        assert (first.fault_id, first.kind, first.caused_by) == ("f1", "delay", "fault f1")

    check(test)


def test_connection_without_link_faults_uses_the_plain_transport() -> None:
    async def test(links: Links) -> None:
        client = await links.client()
        await client.ask()
        (served,) = links.port.connections.values()
        plain = served._transport
        links.hold(fault("client:shop", kind="delay", delay_ms=1))
        assert served._transport is not plain
        await client.ask()
        links.hold()
        assert served._transport is plain and links.port.links is None
        assert await client.ask() == 3

    check(test)


def test_client_is_recognised_once_its_whole_client_id_arrived() -> None:
    frame = encode_request(1, "shop", request(ApiKey.API_VERSIONS, 0))
    head = 4 + 2 + 2 + 4 + 2 + len("shop")
    assert [first_client(frame[:size]) for size in (0, head - 5, head - 1)] == [None] * 3
    assert first_client(frame[:head]) == KnownClient("shop")
    assert first_client(encode_request(1, "broker-3", request(ApiKey.API_VERSIONS, 0))) == KnownClient("broker-3", True)
