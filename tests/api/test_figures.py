"""The API returns the same number of lost records, and the same time without a controller, on every route."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import httpx

from tests.api.api_server import Server
from tests.journal.golden_files import GOLDEN
from zabka.agent.protocol import JournalChunk, Position
from zabka.journal import events as e
from zabka.journal.writer import encode_line

V1 = "/api/v1"


def lost(broker: int, first: int, last: int, committed: int) -> bytes:
    event = e.RecordsLost(
        broker, "orders", 0, first, last, last - first + 1, committed, "diverging_epoch", committed_at_least=committed
    )
    return encode_line(f"broker-{broker}", 1, broker, broker, event)


def test_lost_record_count_is_equal_in_every_response(server: Server, http: httpx.Client) -> None:
    """Two brokers' losses of overlapping offsets are counted once in every response.

    Broker 1 lost offsets 100 to 325, 226 of them committed. Broker 2 lost 156 to 325, all 170 committed. The union has
    226 offsets.
    """
    for broker, first, committed in ((1, 100, 226), (2, 156, 170)):
        server.collect(JournalChunk(f"broker-{broker}", lost(broker, first, 325, committed), Position("f", 1)))

    partition = http.get(f"{V1}/topics/orders").json()["partitions"][0]
    assert (partition["records_lost"], partition["committed_at_least"]) == (226, 226)
    cluster = http.get(f"{V1}/cluster").json()
    assert cluster["topics"][0]["partitions"][0]["committed_at_least"] == 226
    assert [loss["committed_at_least"] for loss in cluster["losses"]] == [226, 170]
    assert [event["committed_at_least"] for event in http.get(f"{V1}/journal").json()] == [226, 170]
    assert "\nzabka_committed_records_lost 226.0\n" in http.get("/metrics").text


def test_controller_gap_is_equal_in_every_response(server: Server, http: httpx.Client) -> None:
    """Every response shows the same controller gap. `tests/journal/test_controller_gaps.py` tests its definition."""
    chunks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (GOLDEN / "histories" / "controller-gaps.jsonl").read_text().splitlines():
        entry = json.loads(line)
        chunks[entry["node"]].append(entry)
    for node, entries in chunks.items():
        lines = b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
        server.collector.accept_chunk(JournalChunk(node, lines, Position("f", 1)))
    server.collect(JournalChunk("peer-2", b"", Position("f", 0)))

    gap = {"gap_before_ms": 11_065.0, "detection_ms": 5_001.9, "election_ms": 6_003.1, "loading_ms": 60.0}
    controller_terms = http.get(f"{V1}/cluster").json()["controller_terms"]
    assert {name: controller_terms[2][name] for name in gap} == gap
    assert "gap_before_ms" not in controller_terms[1], "the second controller made no decision"
    elected = next(
        event["seq"]
        for event in http.get(f"{V1}/journal").json()
        if event["type"] == "controller_elected" and event["controller_epoch"] == 3
    )
    steps = http.get(f"{V1}/runs/live/why", params={"seq": elected}).json()
    assert steps[0]["controller_gap"] == gap
    metrics = http.get("/metrics").text
    assert 'zabka_controller_gap_seconds{part="gap_before"} 0.008' in metrics, "of the newest controller"
    assert 'zabka_controller_gap_seconds{part="election"} 0.008' in metrics
