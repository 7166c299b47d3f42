from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from time import perf_counter
from typing import Any, cast
from unittest import mock

import pytest
from kio.schema.errors import ErrorCode

from zabka.broker_sim import kafka_port
from zabka.broker_sim.failed_authentications import FailedAuthentication
from zabka.broker_sim.kafka_port import KafkaPort
from zabka.broker_sim.quotas.client_throttling import RequestTime
from zabka.broker_sim.quotas.connection_quotas import ConnectionLimits, ConnectionQuotas
from zabka.broker_sim.request_context import RequestContext, RequestRefused
from zabka.broker_sim.request_times import RequestTimes, ThreadClock
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.wire import api_versions
from zabka.kafka.wire.frame_reader import FRAME_SIZE
from zabka.kafka.wire.frames import decode_response, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, request, respond

FRAME_BYTES_MAX = 100_000


class Served:
    """Kafka port whose handler can be paused. It records the requests and the closed connections."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.unauthenticated: list[FailedAuthentication] = []
        self.failures: list[str] = []
        self.requests: list[tuple[KafkaMessage, str, str]] = []
        self.principals: list[str] = []
        self.held: asyncio.Event | None = None
        self.number = 0

    async def handle(self, message: KafkaMessage, context: RequestContext) -> KafkaMessage | None:
        self.requests.append((message, context.client_id, context.listener))
        self.principals.append(str(context.principal))
        if api_key_of(message) == ApiKey.API_VERSIONS:
            return api_versions.answer(message)
        if api_key_of(message) == ApiKey.PRODUCE and message.acks == 0:
            if message.topic_data:
                raise RequestRefused("not stored")
            return None
        if self.held is not None:
            await self.held.wait()
        if api_key_of(message) == ApiKey.FIND_COORDINATOR:
            raise ValueError("ours")
        return respond(message, cluster_id="c")


@asynccontextmanager
async def serving(
    limits: ConnectionLimits | None = None, times: Any = None, **options: Any
) -> AsyncIterator[tuple[Served, KafkaPort]]:
    served = Served()
    loop = asyncio.get_running_loop()
    runtime = AsyncioRuntime(loop, on_failure=lambda name, failure: served.failures.append(f"{name}: {failure}"))
    quotas = ConnectionQuotas(runtime, 11, 1, "PLAINTEXT")
    quotas.configure(limits or ConnectionLimits())
    port = KafkaPort(
        "PLAINTEXT",
        served.handle,
        lambda remote, reason: served.broken.append(reason),
        lambda name, failure: served.failures.append(f"{name}: {failure}"),
        quotas,
        times,
        **{"frame_bytes_max": FRAME_BYTES_MAX, "idle_ms_max": 0, **options},
    )
    served.number = await port.start("127.0.0.1", 0)
    try:
        yield served, port
    finally:
        await port.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until the condition is true, without a time limit except that of the test."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def talk(port: int, data: bytes) -> bytes:
    """Send the data, and read until the broker closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def ask(port: int, message: KafkaMessage) -> KafkaMessage:
    channel = AsyncioChannel("test")
    try:
        return await channel.call(Endpoint(1, "127.0.0.1", port), message, 5_000)
    finally:
        channel.close()


def test_clients_cannot_use_descriptors_reserved_for_brokers() -> None:
    """Clients cannot use the last file descriptors; the inter-broker listener can.

    Likewise, that listener is exempt from max.connections. Otherwise replicas that cannot fetch would leave the ISR,
    and produce requests would fail.
    """

    async def test() -> None:
        async with serving() as (served, port):
            with mock.patch("zabka.broker_sim.kafka_port.may_stay", lambda transport, *, is_of_few: is_of_few):
                with pytest.raises(ChannelBroken):
                    await ask(served.number, request(ApiKey.METADATA, 5, topics=[]))
                port._quotas.add_listener("CLIENTS", lambda: None)
                assert await ask(served.number, request(ApiKey.METADATA, 5, topics=[])) is not None

    run(test)


def test_connection_that_needs_a_reserved_descriptor_is_closed() -> None:
    """A connection that would need one of the last file descriptors is closed.

    These descriptors are reserved for logs and checkpoints: if a broker cannot open such a file, it takes the log
    directory offline.
    """

    async def test() -> None:
        async with serving() as (served, _):
            assert await ask(served.number, request(ApiKey.METADATA, 5, topics=[])) is not None
            with mock.patch("resource.getrlimit", return_value=(4, 4)), pytest.raises(ChannelBroken):
                await ask(served.number, request(ApiKey.METADATA, 5, topics=[]))
            assert await ask(served.number, request(ApiKey.METADATA, 5, topics=[])) is not None

    run(test)


GARBAGE = {
    "random bytes": Random(5).randbytes(4096),
    "a huge length": struct.pack(">i", 2**31 - 1),
    "a length beyond socket.request.max.bytes": struct.pack(">i", FRAME_BYTES_MAX + 1),
    "a negative length": struct.pack(">i", -7),
    "no length": struct.pack(">i", 0),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "an unknown API": struct.pack(">ihhih", 10, 5000, 0, 1, -1),
    "an unknown version": struct.pack(">ihhih", 10, ApiKey.PRODUCE, 99, 1, -1),
    "a list of billions": struct.pack(">ihhih", 36, ApiKey.DELETE_TOPICS, 6, 1, -1)
    + b"\x00\xff\xff\xff\xff\x7f"
    + bytes(20),
    "no list": struct.pack(">ihhih", 15, ApiKey.DESCRIBE_CONFIGS, 4, 1, -1) + bytes(5),
    "a request that is cut short": struct.pack(">ihhihb", 11, ApiKey.METADATA, 5, 1, -1, 7),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_invalid_bytes_close_only_the_connection_they_came_on(kind: str) -> None:
    async def test() -> None:
        async with serving() as (served, port):
            other = AsyncioChannel("other")
            endpoint = Endpoint(1, "127.0.0.1", served.number)
            await other.call(endpoint, request(ApiKey.METADATA, 12), 5_000)
            assert await talk(served.number, GARBAGE[kind]) == b""
            assert len(served.broken) == 1 and "\n" not in served.broken[0]
            await other.call(endpoint, request(ApiKey.METADATA, 12), 5_000)
            assert len(port.connections) == 1
            other.close()

    run(test)


def test_incomplete_frame_does_not_affect_other_connections() -> None:
    async def test() -> None:
        async with serving() as (served, _port):
            frame = encode_request(1, "c", request(ApiKey.METADATA, 12))
            reader, writer = await asyncio.open_connection("127.0.0.1", served.number)
            writer.write(frame[:9])
            await ask(served.number, request(ApiKey.METADATA, 12))
            writer.write(frame[9:])
            assert len(await reader.readexactly(8)) == 8
            writer.close()
            assert served.broken == []

    run(test)


def test_idle_time_is_counted_from_a_late_response() -> None:
    async def test() -> None:
        loop = cast(Any, asyncio.get_running_loop())
        async with serving(idle_ms_max=40_000) as (served, port):
            served.held = asyncio.Event()
            real_time, ahead_s = loop.time, 0.0
            loop.time = lambda: real_time() + ahead_s
            reader, writer = await asyncio.open_connection("127.0.0.1", served.number)
            writer.write(encode_request(1, "c", request(ApiKey.DESCRIBE_CLUSTER, 0)))
            await until(lambda: bool(served.requests))
            ahead_s = 100.0
            port._close_idle()
            served.held.set()
            assert await reader.read(4), "a client that waits for a response is not idle"
            await until(lambda: not any(each._busy for each in port.connections.values()))
            ahead_s = 139.0
            port._close_idle()
            await asyncio.sleep(0)
            assert port.connections
            ahead_s = 141.0
            port._close_idle()
            await asyncio.sleep(0)
            assert not port.connections
            writer.close()

    asyncio.run(asyncio.wait_for(test(), 600))


def test_idle_connection_is_closed_after_the_idle_time() -> None:
    async def test() -> None:
        async with serving(idle_ms_max=100) as (served, _port):
            assert await talk(served.number, b"\x00\x00") == b""

    run(test)


@pytest.mark.parametrize("requests", [1, 3])
def test_long_muted_client_is_closed_after_the_idle_time(requests: int) -> None:
    """A client that was muted for longer than the idle limit is disconnected.

    Kafka does the same: its IdleExpiryManager does not consider why a connection was idle.
    """

    async def test() -> None:
        async with serving(idle_ms_max=100) as (served, port):

            async def handle(message: KafkaMessage, context: RequestContext) -> KafkaMessage | None:
                context.muted_ms = 2**31 - 1
                return await served.handle(message, context)

            port.handle = handle
            _, writer = await asyncio.open_connection("127.0.0.1", served.number)
            writer.write(encode_request(1, "c", request(ApiKey.DESCRIBE_CLUSTER, 0)) * requests)
            await until(lambda: bool(served.requests))
            ((_, connection),) = port.connections.items()
            writer.close()
            await until(lambda: not port.connections)
            assert connection._task is not None
            await connection._task
            assert len(served.requests) == 1

    run(test)


def test_responses_are_sent_in_request_order() -> None:
    async def test() -> None:
        async with serving() as (served, _port):
            served.held = asyncio.Event()
            slow, quick = request(ApiKey.METADATA, 12), request(ApiKey.API_VERSIONS, 0)
            frames = b"".join(encode_request(number, "c", slow if number % 3 == 0 else quick) for number in range(300))
            reader, writer = await asyncio.open_connection("127.0.0.1", served.number)
            writer.write(frames)
            await asyncio.sleep(0.05)
            assert len(served.requests) == 1  # the next request waits for this response
            served.held.set()
            for number in range(300):
                (size,) = FRAME_SIZE.unpack(await reader.readexactly(4))
                frame = await reader.readexactly(size)
                assert struct.unpack_from(">i", frame)[0] == number
                decode_response(frame, slow if number % 3 == 0 else quick)
            writer.close()

    run(test)


def test_unsupported_api_versions_request_keeps_connection_open() -> None:
    async def test() -> None:
        async with serving() as (served, _port):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.number)
            writer.write(struct.pack(">ihhih", 12, ApiKey.API_VERSIONS, 77, 5, -1) + b"\x00\x00")
            (size,) = FRAME_SIZE.unpack(await reader.readexactly(4))
            refused = decode_response(await reader.readexactly(size), request(ApiKey.API_VERSIONS, 0))
            assert refused.error_code is ErrorCode.unsupported_version
            writer.write(encode_request(6, "c", request(ApiKey.API_VERSIONS, 3)))
            (size,) = FRAME_SIZE.unpack(await reader.readexactly(4))
            assert struct.unpack_from(">i", await reader.readexactly(size))[0] == 6
            writer.close()

    run(test)


def test_connections_accepted_at_the_same_time_keep_their_order() -> None:
    # uvloop reads the clock once per iteration. A resumed process accepts all pending connections in one iteration, so
    # they have the same timestamp.
    async def test() -> None:
        loop = asyncio.get_running_loop()
        precise = loop.time
        loop.time = lambda: float(int(precise()))  # type: ignore[method-assign]
        numbers: dict[str, int] = {}
        async with serving() as (served, port):

            async def handle(message: KafkaMessage, context: RequestContext) -> KafkaMessage:
                numbers[context.client_id] = context.connection
                return api_versions.answer(message)

            port.handle = handle
            for client in ("first", "second"):
                link = socket.create_connection(("127.0.0.1", served.number))
                link.sendall(encode_request(1, client, request(ApiKey.API_VERSIONS, 0)))
                links.append(link)
            await until(lambda: len(numbers) == 2)
            assert 0 < numbers["first"] < numbers["second"]

    links: list[socket.socket] = []
    run(test)
    for link in links:
        link.close()


def test_acks_0_gets_no_response_and_an_error_closes_connection() -> None:
    async def test() -> None:
        async with serving() as (served, _port):
            nothing = encode_request(1, "c", request(ApiKey.PRODUCE, 9, acks=0))
            asked = encode_request(2, "c", request(ApiKey.API_VERSIONS, 0))
            refused = encode_request(3, "c", request(ApiKey.PRODUCE, 9, acks=0, topic_data=[{"name": "t"}]))
            answered = await talk(served.number, nothing + asked + refused)
            assert struct.unpack_from(">ii", answered)[1] == 2
            assert len(answered) == 4 + struct.unpack_from(">i", answered)[0]
            assert served.broken == []

    run(test)


def test_internal_error_closes_its_connection_and_is_reported() -> None:
    async def test() -> None:
        async with serving() as (served, _port):
            frame = encode_request(1, "c", request(ApiKey.FIND_COORDINATOR, 4))
            assert await talk(served.number, frame) == b""
            assert served.failures[0].endswith("ours")
            await ask(served.number, request(ApiKey.METADATA, 12))

    run(test)


def test_connection_over_max_connections_waits_for_a_free_slot() -> None:
    async def test() -> None:
        async with serving(ConnectionLimits(max_connections=1)) as (served, port):
            _reader, writer = await asyncio.open_connection("127.0.0.1", served.number)
            await until(lambda: bool(port.connections))
            asking = asyncio.ensure_future(ask(served.number, request(ApiKey.METADATA, 12)))
            await asyncio.sleep(0.05)
            assert not served.requests
            writer.close()
            await asking
            assert len(served.requests) == 1

    run(test)


def test_connection_over_the_ip_address_limit_is_closed() -> None:
    async def test() -> None:
        async with serving(ConnectionLimits(per_address=5, overrides={"127.0.0.1": 1})) as (served, port):
            _reader, writer = await asyncio.open_connection("127.0.0.1", served.number)
            await until(lambda: bool(port.connections))
            assert await talk(served.number, b"") == b""
            writer.close()
            await until(lambda: not port.connections)
            await ask(served.number, request(ApiKey.METADATA, 12))

    run(test)


def test_measured_request_time_excludes_waiting() -> None:
    async def test() -> None:
        quota = RequestTime(AsyncioRuntime(asyncio.get_running_loop(), on_failure=print), 11, 1)
        async with serving(times=RequestTimes(quota)) as (served, port):
            spent: list[int] = []

            async def handle(message: KafkaMessage, context: RequestContext) -> KafkaMessage:
                worked_until = perf_counter() + 0.02
                while perf_counter() < worked_until:
                    pass
                await asyncio.sleep(0.2)
                spent.append(context.clock.spent_ns())
                return respond(message)

            port.handle = handle
            await ask(served.number, request(ApiKey.METADATA, 12))
            assert spent == [0], "without a quota, time is not measured"
            quota.quota.limit("", "<default>", 1000.0)
            await ask(served.number, request(ApiKey.METADATA, 12))
            assert 20_000_000 <= spent[1] < 150_000_000
            assert len(quota.quota._meters) == 1, "writing the response counts, too"

    run(test)


def test_error_in_a_measured_request_is_propagated() -> None:
    async def test() -> None:
        ended: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        async def measured() -> None:
            await ThreadClock().measure(work())

        task = asyncio.ensure_future(measured())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["cancelled"]

    run(test)


def test_request_is_completed_after_its_client_disconnects() -> None:
    async def test() -> None:
        async with serving() as (served, port):
            served.held = asyncio.Event()
            _, writer = await asyncio.open_connection("127.0.0.1", served.number)
            writer.write(encode_request(1, "c", request(ApiKey.METADATA, 12)))
            await until(lambda: bool(served.requests))
            writer.close()
            await until(lambda: not port.connections)
            served.held.set()
            await asyncio.sleep(0.01)
            assert served.failures == []

    run(test)


def test_call_to_a_closed_port_raises_channel_broken() -> None:
    async def test() -> None:
        async with serving() as (served, _port):
            number = served.number
        with pytest.raises(ChannelBroken):
            await ask(number, request(ApiKey.METADATA, 12))

    run(test)


def test_timed_out_call_fails_all_later_calls_in_flight() -> None:
    async def test() -> None:
        async with serving() as (served, _port):
            served.held = asyncio.Event()
            channel = AsyncioChannel("c")
            endpoint = Endpoint(1, "127.0.0.1", served.number)
            first = channel.call(endpoint, request(ApiKey.METADATA, 12), 50)
            second = channel.call(endpoint, request(ApiKey.METADATA, 12), 5_000)
            for call in (first, second):
                with pytest.raises(ChannelBroken):
                    await call
            served.held.set()
            await channel.call(endpoint, request(ApiKey.METADATA, 12), 5_000)
            channel.close()

    run(test)


def test_waiting_fetch_does_not_delay_other_requests() -> None:
    async def test() -> None:
        async with serving() as (served, _port):
            served.held = asyncio.Event()
            channel = AsyncioChannel("c")
            endpoint = Endpoint(1, "127.0.0.1", served.number)
            waiting = channel.call(endpoint, request(ApiKey.FETCH, 12), 5_000)
            await channel.call(endpoint, request(ApiKey.API_VERSIONS, 3), 5_000)
            served.held.set()
            await waiting
            channel.close()

    run(test)


def test_removal_of_a_broker_fails_its_calls_in_flight() -> None:
    async def test() -> None:
        async with serving() as (served, _port):
            served.held = asyncio.Event()
            channel = AsyncioChannel("c")
            call = channel.call(Endpoint(1, "127.0.0.1", served.number), request(ApiKey.METADATA, 12), 5_000)
            channel.forget(1)
            with pytest.raises(ChannelBroken):
                await call
            served.held.set()

    run(test)


def test_failure_of_a_listener_stops_the_broker() -> None:
    async def test() -> None:
        async with serving() as (served, port):

            async def refuse(listener: str, address: str) -> None:
                raise RecursionError("ours")

            port._quotas.admit = refuse  # type: ignore[method-assign]
            _reader, writer = await asyncio.open_connection("127.0.0.1", served.number)
            await until(lambda: bool(served.failures))
            assert served.failures == ["accept PLAINTEXT failed: RecursionError: ours"]
            writer.close()

    run(test)


def test_internal_error_while_decoding_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(frame: bytes) -> None:
        raise RecursionError("ours")

    monkeypatch.setattr(kafka_port, "decode_request", broken)

    async def test() -> None:
        async with serving() as (served, port):
            assert await talk(served.number, encode_request(1, "c", request(ApiKey.METADATA, 12))) == b""
            assert served.failures[0].endswith("ours") and not port.connections

    run(test)
