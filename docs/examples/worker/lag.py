"""Reports which offset the group `billing` has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

GROUP = "billing"
PARTITION = TopicPartition("orders", 0)

Report = Callable[[int], None]
"""Called with the committed offset."""


async def report(bootstrap: str, tell: Report) -> None:
    """The mistake: it treats a response without offsets as if the group had committed none.

    aiokafka 0.14 does not raise an error that applies to the whole response, such as NOT_COORDINATOR.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id="lag")
    await admin.start()
    while True:
        offsets = await admin.list_consumer_group_offsets(GROUP)
        tell(offsets[PARTITION].offset if PARTITION in offsets else 0)
        await asyncio.sleep(0.5)


async def report_what_is_known(bootstrap: str, tell: Report) -> None:
    """The corrected function: it requests the partition's offset, and retries until a response contains it."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id="lag")
    await admin.start()
    while True:
        with suppress(KafkaError):
            offsets = await admin.list_consumer_group_offsets(GROUP, partitions=[PARTITION])
            if PARTITION in offsets:
                tell(max(offsets[PARTITION].offset, 0))
        await asyncio.sleep(0.5)
