"""An auction that accepts bids until ten seconds after its first bid."""

from __future__ import annotations

import time
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer, ConsumerRecord

OPEN_S = 10


async def accept_by_clock(bootstrap: str, accept: Callable[[int], None]) -> None:
    """The mistake: accept bids by a clock that can be changed.

    The auction may therefore close early or late.
    """
    ends: list[float] = []

    def is_open(_: ConsumerRecord) -> bool:
        if not ends:
            ends.append(time.time() + OPEN_S)
        return time.time() <= ends[0]

    await _accept(bootstrap, accept, is_open)


async def accept_by_timestamp(bootstrap: str, accept: Callable[[int], None]) -> None:
    """Corrected variant: compare the timestamps of the records, which a single broker has set (LogAppendTime)."""
    ends: list[int] = []

    def is_open(bid: ConsumerRecord) -> bool:
        if not ends:
            ends.append(bid.timestamp + OPEN_S * 1000)
        return bid.timestamp <= ends[0]

    await _accept(bootstrap, accept, is_open)


async def _accept(bootstrap: str, accept: Callable[[int], None], is_open: Callable[[ConsumerRecord], bool]) -> None:
    async with AIOKafkaConsumer("bids", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as bids:
        async for bid in bids:
            if is_open(bid):
                accept(int(bid.value))
