"""`KafkaAdmin.records` decodes in a thread, for one request at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from zabka.api.kafka import cluster_admin
from zabka.api.kafka.cluster_admin import KafkaAdmin
from zabka.journal.events import TopicPartition
from zabka.kafka.client.record_reading import RecordsSeen

FIRST = TopicPartition("orders", 0)
WAIT_S = 10


class Decoding:
    """Batches whose decoding lasts until the test releases it."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.released = threading.Semaphore(0)
        self.threads: list[int] = []

    def decode(self) -> RecordsSeen:
        self.threads.append(threading.get_ident())
        self.begun.release()
        assert self.released.acquire(timeout=WAIT_S)
        return RecordsSeen((), len(self.threads), 0, 0, 0)


def test_records_are_decoded_in_a_thread_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    decoding = Decoding()
    fetched: list[TopicPartition] = []

    async def fetch(_: object, partition: TopicPartition, *__: object) -> Decoding:
        fetched.append(partition)
        return decoding

    monkeypatch.setattr(cluster_admin, "fetch_records", fetch)

    async def read_two() -> None:
        admin = KafkaAdmin("127.0.0.1:1")
        requests = [asyncio.create_task(admin.records(FIRST, 0, 10)) for _ in range(2)]
        assert await asyncio.to_thread(decoding.begun.acquire, timeout=WAIT_S)
        # Both requests have been fetched, and only the first is being decoded.
        assert (len(fetched), len(decoding.threads)) == (2, 1)
        assert threading.get_ident() not in decoding.threads
        decoding.released.release(2)
        assert [seen.next_offset for seen in await asyncio.gather(*requests)] == [1, 2]
        await admin.close()

    asyncio.run(read_two())
