"""GET /transactions: the last reported open transactions, and whether these reports may be out of date."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from zabka.agent.protocol import JournalChunk, Position, ProcessInfo
from zabka.journal import events as e
from zabka.journal.events import Event
from zabka.journal.writer import encode_line

STARTED_MS_AGO = 40_000


def chunk(node: str, *events: Event) -> JournalChunk:
    now_us = time.time_ns() // 1000
    lines = b"".join(encode_line(node, number, now_us, 0, event) for number, event in enumerate(events, 1))
    return JournalChunk(node, lines, Position("told", len(events), len(events)))


def payments(state: str = "Ongoing", *, started_ms: int = -1) -> e.TransactionChanged:
    return e.TransactionChanged(
        2, "payments", state, 7, 3, ["orders-0"], "", client_id="shop-1", started_ms=started_ms, timeout_ms=60_000
    )


def held(partition: int, producer_id: int) -> e.LastStableOffsetHeld:
    return e.LastStableOffsetHeld(1, "orders", partition, 0, 12, 20, producer_id, 3, 10_500)


def answered(server: Server) -> Any:
    response = httpx.get(server.url + "/api/v1/transactions", trust_env=False)
    assert response.status_code == 200
    return response.json()


def test_cluster_without_transactions_returns_an_empty_list(server: Server) -> None:
    assert answered(server) == {"open": [], "held": []}


def test_open_transaction_has_its_coordinator_and_age(server: Server) -> None:
    began_ms = time.time_ns() // 1_000_000 - STARTED_MS_AGO
    server.collect(chunk("broker-2", payments(started_ms=began_ms)))
    (found,) = answered(server)["open"]
    assert STARTED_MS_AGO <= found.pop("age_ms") < STARTED_MS_AGO + 30_000
    assert 0 <= found.pop("reported_ms_ago") < 30_000
    assert found == {
        "transactional_id": "payments", "state": "Ongoing", "coordinator": 2, "coordinator_process": "running",
        "producer_id": 7, "producer_epoch": 3, "client_id": "shop-1", "partitions": ["orders-0"],
        "started_ms": began_ms, "timeout_ms": 60_000, "stale": False,
    }  # fmt: skip


def test_unknown_start_time_is_null(server: Server) -> None:
    unknown = e.TransactionChanged(2, "payments", "Ongoing", 7, 3, ["orders-0"], "partitions added")
    server.collect(chunk("broker-2", unknown))
    (found,) = answered(server)["open"]
    assert (found["started_ms"], found["age_ms"], found["client_id"], found["timeout_ms"]) == (None, None, None, None)


def test_completed_transaction_is_not_listed_as_open(server: Server) -> None:
    server.collect(chunk("broker-2", payments(), payments("CompleteAbort")))
    assert answered(server)["open"] == []


@pytest.mark.parametrize("process", ["down", "paused"])
def test_transaction_report_of_a_stopped_coordinator_is_stale(server: Server, process: str) -> None:
    server.collect(chunk("broker-2", payments()))
    info = server.agent.processes["broker-2"]
    server.agent.processes["broker-2"] = ProcessInfo(info.name, process, info.pid, None, 1)
    server.agent._show()
    (found,) = answered(server)["open"]
    assert (found["coordinator_process"], found["stale"]) == (process, True)


def test_transaction_report_of_a_silent_coordinator_is_stale(server: Server) -> None:
    server.collect(chunk("broker-2", payments()))
    server.agent.freeze(for_s=10)
    (found,) = answered(server)["open"]
    assert (found["coordinator_process"], found["stale"]) == ("unknown", True)


def test_blocked_lso_lists_its_transaction_unless_it_is_hanging(server: Server) -> None:
    server.collect(chunk("broker-2", payments()))
    server.collect(chunk("broker-1", held(0, 7), held(1, 7)))
    named, hanging = answered(server)["held"]
    assert (named["topic"], named["partition"], named["last_stable_offset"], named["high_watermark"]) == (
        "orders", 0, 12, 20,
    )  # fmt: skip
    assert (named["transactional_id"], hanging["transactional_id"]) == ("payments", None)
    assert named["held_ms"] >= 10_500 and not named["stale"]
