"""Request faults at the broker's port: the delays, lost messages and closed connections that a client observes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.broker_sim.test_port_connection import run, serving
from zabka.broker_sim.request_context import RequestContext, Unanswered
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire import api_versions
from zabka.kafka.wire.frames import encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request

REQUESTS = b"".join(encode_request(number, "shop", request(ApiKey.API_VERSIONS, 0)) for number in (1, 2))


async def replies(
    handle: Callable[[KafkaMessage, RequestContext], Awaitable[KafkaMessage | None]], wait_s: float = 0.2
) -> tuple[list[int], bool]:
    """Send two requests. Return the correlation ids of the replies, and whether the connection was closed."""
    async with serving() as (served, port):
        port.handle = handle  # type: ignore[assignment]
        reader, writer = await asyncio.open_connection("127.0.0.1", served.number)
        writer.write(REQUESTS)
        found, closed = [], False
        try:
            while True:
                size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), wait_s))
                found.append(int.from_bytes((await asyncio.wait_for(reader.readexactly(size), wait_s))[:4]))
        except TimeoutError:
            pass
        except asyncio.IncompleteReadError:
            closed = True
        writer.close()
        return found, closed


class Once:
    """Handler that calls `first` for the first request, and replies normally to all requests."""

    def __init__(self, first: Callable[[RequestContext], None]) -> None:
        self._first = first
        self.seen = 0

    async def handle(self, message: KafkaMessage, context: RequestContext) -> KafkaMessage:
        self.seen += 1
        if self.seen == 1:
            self._first(context)
        return api_versions.answer(message)


def unanswered(for_good: bool) -> Callable[[RequestContext], None]:
    def first(context: RequestContext) -> None:
        raise Unanswered(for_good)

    return first


def truncated(context: RequestContext) -> None:
    context.truncated = True


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        pytest.param(unanswered(False), ([2], False), id="a lost response leaves the connection open"),
        pytest.param(unanswered(True), ([], False), id="a hanging request holds back the later ones"),
        pytest.param(truncated, ([], True), id="a truncated response closes the connection"),
    ],
)
def test_request_fault_takes_effect_on_its_client_connection(
    first: Callable[[RequestContext], None], expected: tuple[list[int], bool]
) -> None:
    async def test() -> None:
        assert await replies(Once(first).handle) == expected

    run(test)


def test_hung_connection_is_closed_when_its_client_disconnects() -> None:
    async def test() -> None:
        async with serving() as (served, port):
            once = Once(unanswered(True))
            port.handle = once.handle
            _, writer = await asyncio.open_connection("127.0.0.1", served.number)
            writer.write(REQUESTS)
            while not once.seen:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            writer.close()
            while port.connections:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    run(test)
