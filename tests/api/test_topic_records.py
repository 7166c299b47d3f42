"""GET /topic-sizes and /topics/{topic}/{partition}/records: rates, bounds, and the token for records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from zabka.api.views import topic_sizes
from zabka.api.views.topic_sizes import TopicSizesView
from zabka.journal.events import TopicPartition
from zabka.kafka.client.reassignment_client import Ongoing
from zabka.kafka.client.record_reading import RecordSeen
from zabka.kafka.client.topic_reading import PartitionSize, TopicReading
from zabka.kafka.record_batch import Record
from zabka.testing.live.cluster import LiveCluster

FIRST = TopicPartition("orders", 0)


def reading(end: int | None, size: int, new: int = 0, leader: int = 1) -> TopicReading:
    ongoing = {FIRST: Ongoing((1, 4, 2), (4,), (2,))}
    return TopicReading({FIRST: PartitionSize(leader, 20, end, {1: size, 2: size, 4: new})}, ongoing)


def seen(offset: int, value: bytes | None, *headers: tuple[str, bytes | None]) -> RecordSeen:
    return RecordSeen(Record(None, value, 1_700_000_000_000, offset, headers), 4, False, None, None, None)


def ask(server: Server, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}/api/v1{path}", headers=headers, trust_env=False)


def test_rates_compare_two_readings_of_ten_seconds() -> None:
    asyncio.run(_rates())


async def _rates() -> None:
    readings = iter([reading(120, 1_000), reading(320, 5_000, 2_500), reading(330, 4_000), reading(None, 0)])
    now_s = 0.0

    async def read() -> TopicReading:
        return next(readings)

    view = TopicSizesView(read, lambda: now_s)
    (topic,) = (await view.all()).topics
    assert (topic.records, topic.records_per_s, topic.bytes, topic.stored_bytes) == (100, None, 1_000, 2_000)
    now_s = 4.0
    second = await view.all()
    (topic,) = second.topics
    assert (topic.records, topic.records_per_s, topic.bytes_per_s) == (300, 50.0, 1_000.0)
    assert second.reassignments is not None
    assert second.reassignments[0].copied == {"4": 0.5}
    # The log has become shorter than it was four seconds ago: there is no growth.
    now_s = 5.0
    (topic,) = (await view.all()).topics
    assert (topic.records_per_s, topic.bytes_per_s) == (42.0, 600.0)
    now_s = 14.5
    (topic,) = (await view.all()).topics
    assert (topic.records, topic.records_per_s, topic.bytes_per_s) == (None, None, None)


def test_requests_within_a_second_share_one_reading() -> None:
    count = 0

    async def read() -> TopicReading:
        nonlocal count
        count += 1
        return TopicReading()

    view = TopicSizesView(read, lambda: 7.0)

    async def twice() -> None:
        await view.all()
        await view.all()

    asyncio.run(twice())
    assert count == 1
    assert topic_sizes.CACHE_S == 1.0


def test_sizes_route_returns_topics_and_silent_brokers(server: Server) -> None:
    server.admin.topics_read = reading(120, 1_000)._replace(silent={3: "broker 3: no answer"}, ongoing=None)
    body = ask(server, "/topic-sizes").json()
    assert body["topics"][0]["partitions"][0]["replica_bytes"] == {"1": 1_000, "2": 1_000, "4": 0}
    assert body["silent_brokers"] == [{"broker_id": 3, "reason": "broker 3: no answer"}]
    assert body["reassignments"] is None


def records(server: Server, query: str = "") -> Any:
    return ask(server, f"/topics/orders/0/records{query}").json()


def test_record_has_text_hex_and_headers(server: Server) -> None:
    server.admin.log = [seen(0, "żabka".encode(), ("trace", b"\xff\x00"), ("none", None))]
    (record,) = records(server)["records"]
    assert record["value"] == {"size": 6, "text": "żabka", "hex": "c5bc61626b61", "truncated": False}
    assert record["key"] is None
    trace, none = record["headers"]
    assert trace == {"key": "trace", "value": {"size": 2, "text": None, "hex": "ff00", "truncated": False}}
    assert none == {"key": "none", "value": None}


def test_long_value_is_cut_between_characters(server: Server) -> None:
    server.admin.log = [seen(0, b"a" + "ż".encode() * 6_000)]
    (record,) = records(server)["records"]
    assert record["value"]["size"] == 12_001
    assert record["value"]["truncated"] is True
    assert len(record["value"]["hex"]) == 2 * 10_240
    assert record["value"]["text"] == "a" + "ż" * 5_119


def test_response_ends_before_one_mebibyte_of_data(server: Server) -> None:
    headers = [(str(number), b"v" * 10_240) for number in range(30)]
    server.admin.log = [seen(offset, b"v" * 50_000, *headers) for offset in range(10)]
    page = records(server, "?from=0&limit=10")
    assert len(page["records"]) == page["next_offset"] == 3


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("orders/0/records?from=11", 416, "orders-0 has the offsets 0 to 10"),
        ("orders/7/records", 404, "there is no partition orders-7; partitions are 0 to 0"),
        ("nothing/0/records", 404, "there is no topic nothing"),
        ("orders/0/records?limit=101", 422, "limit"),
        ("orders/0/records?from=-1", 422, "from"),
    ],
)
def test_impossible_range_is_a_problem(server: Server, path: str, status: int, detail: str) -> None:
    server.admin.log = [seen(offset, b"v") for offset in range(10)]
    answer = ask(server, f"/topics/{path}")
    assert answer.status_code == status
    assert detail in answer.json()["detail"]


def test_records_need_the_token_and_sizes_do_not(tmp_path: Path) -> None:
    with Server(tmp_path, token="secret") as server:
        assert ask(server, "/topics/orders/0/records").status_code == 401
        assert ask(server, "/topics/orders/0/records%0A").status_code == 400
        assert ask(server, "/topics/orders/0/records", authorization="Bearer secret").status_code == 200
        assert ask(server, "/topic-sizes").status_code == 200


def test_live_cluster_returns_sizes_and_records(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders", partitions=1)
    zabka_cluster.produce("orders", ["first", "second"])
    sizes = zabka_cluster.get("/api/v1/topic-sizes")
    (topic,) = sizes["topics"]
    assert (topic["name"], topic["records"], topic["partitions"][0]["end_offset"]) == ("orders", 2, 2)
    page = zabka_cluster.get("/api/v1/topics/orders/0/records?from=1")
    assert [(each["offset"], each["value"]["text"]) for each in page["records"]] == [(1, "second")]
    problem = httpx.get(f"{zabka_cluster.url}/api/v1/topics/orders/0/records?from=3", trust_env=False)
    assert problem.status_code == 416
    assert (problem.json()["first_offset"], problem.json()["end_offset"]) == (0, 2)
