"""Mistakes of a broker that only its own log tells of, or its exit code."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from broker_sim.broker import Broker
from broker_sim.configs.broker_config import Listener
from broker_sim.handlers.offsets import OffsetHandlers
from broker_sim.request_context import RequestContext
from kafka_protocol.ports import KafkaMessage
from tests.simulation.planting import broken

COMMITS, STARTS = 20, 5


@contextmanager
def a_commit_of_offsets_fails_by_a_mistake() -> Iterator[None]:
    """One of so many; the client is disconnected, and tries again."""
    offset_commit, numbers = OffsetHandlers.offset_commit, count(1)

    async def mistaken(self: OffsetHandlers, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        if next(numbers) % COMMITS == 0:
            raise KeyError("orders")
        return await offset_commit(self, request, context)

    with broken(OffsetHandlers, offset_commit=mistaken):
        yield


@contextmanager
def a_broker_uses_a_descriptor_that_it_has_closed() -> Iterator[None]:
    """One of so many starts; its supervisor starts it again."""
    start, numbers = Broker.start, count(1)

    async def mistaken(self: Broker, advertised: Sequence[Listener] | None = None) -> None:
        if next(numbers) % STARTS == 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        await start(self, advertised)

    with broken(Broker, start=mistaken):
        yield
