"""Libraries that run unchanged in a simulated world: FastAPI on uvicorn, httpx, anyio, and zabka's own client."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from tests.testing.test_program_loop import passes
from zabka.ensemble.client.aio import connect
from zabka.testing import SimulatedWorld


async def shop(_: str) -> None:
    app = FastAPI()

    @app.get("/orders/{number}")
    async def order(number: int) -> dict[str, int]:
        await asyncio.sleep(0.5)
        return {"order": number}

    config = uvicorn.Config(app, host="0.0.0.0", port=8000, log_config=None, lifespan="on")
    await uvicorn.Server(config).serve()


def test_httpx_reaches_fastapi_on_uvicorn() -> None:
    async def call(world: SimulatedWorld) -> None:
        service = world.start("shop", shop)
        await asyncio.sleep(1)
        began = world.now
        async with httpx.AsyncClient(base_url="http://shop:8000", timeout=5) as client:
            answers = await asyncio.gather(*(client.get(f"/orders/{number}") for number in range(10)))
            assert [answer.json() for answer in answers] == [{"order": number} for number in range(10)]
            assert 0.5 < world.now - began < 1
            cut = world.faults.cut("shop", "test-function")
            with pytest.raises(httpx.TimeoutException):
                await client.get("/orders/1")
            cut.heal()
        service.terminate()
        await world.until(lambda: service.process == "down", within=30)
        assert service.failures == []

    passes(call)


def test_anyio_task_groups_streams_and_timeouts_work() -> None:
    async def work(world: SimulatedWorld) -> None:
        async def echo(_: str) -> None:
            async def answer(stream: Any) -> None:
                async with stream:
                    await stream.send(await stream.receive())

            listener = await anyio.create_tcp_listener(local_port=80)
            await listener.serve(answer)

        with anyio.move_on_after(5) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 100)
        assert scope.cancelled_caught
        send, receive = anyio.create_memory_object_stream[int](1)
        await send.send(1)
        assert await receive.receive() == 1
        send.close()
        receive.close()
        world.start("echo", echo)
        await asyncio.sleep(1)
        async with await anyio.connect_tcp("echo", 80) as stream:
            await stream.send(b"paid")
            assert await stream.receive() == b"paid"

    passes(work)


def test_zookeeper_client_of_zabka_works_in_a_simulated_program() -> None:
    async def write(world: SimulatedWorld) -> None:
        async with connect(world.zookeeper_connect) as client:
            await client.create("/orders", b"1")
            assert (await client.get("/orders"))[0] == b"1"

    passes(write)


class Echo(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def test_server_with_an_asyncio_protocol_replies() -> None:
    async def call(world: SimulatedWorld) -> None:
        async def echo(_: str) -> None:
            server = await asyncio.get_running_loop().create_server(Echo, "0.0.0.0", 7)
            async with server:
                await server.serve_forever()

        world.start("echo", echo)
        await asyncio.sleep(1)
        reader, writer = await asyncio.open_connection("echo", 7)
        writer.write(b"paid\n")
        assert await reader.readline() == b"paid\n"
        writer.close()
        await writer.wait_closed()

    passes(call)


def test_kazoo_client_is_rejected_because_it_starts_threads() -> None:
    kazoo = pytest.importorskip("kazoo.client")

    async def write(world: SimulatedWorld) -> None:
        client = kazoo.KazooClient(world.zookeeper_connect)
        with pytest.raises(RuntimeError, match=r"threading.Thread.start at .* does not work"):
            client.start(timeout=1)

    passes(write)
