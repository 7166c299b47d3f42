"""What a server counts of its answers: the same however they are taken together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ensemble.ids import ConnectionId
from ensemble.ports import Instant
from ensemble.records import OpCode
from ensemble.tree.connections import Connection, Waiting
from ensemble.tree.counters import Counters

NOW_MS = 100
FIELDS = ("packets_sent", "answers", "latency_min_ms", "latency_max_ms", "latency_total_ms")
OF_CLIENT = ("sent", "last_cxid", "last_zxid", "last_op", "last_latency_ms", "last_response_ms")
LATENCIES = ("latency_min_ms", "latency_max_ms", "latency_total_ms")


def writes(client: Connection, latencies_ms: Sequence[int]) -> list[Waiting]:
    return [Waiting(client, n, OpCode.SET_DATA, None, NOW_MS - ms) for n, ms in enumerate(latencies_ms)]


def seen(counters: Counters, client: Connection) -> dict[str, object]:
    summary = counters.update_latency_ms
    counted = {name: getattr(counters, name) for name in FIELDS}
    of_client = {f"client {name}": getattr(client, name) for name in (*OF_CLIENT, *LATENCIES)}
    return {**counted, **of_client, "count": summary.count, "total": summary.total, "largest": summary.maximum}


@pytest.mark.parametrize("latencies_ms", [(0,), (3, 3), (0, 5), (5, 0), (7, 2, 4)])
def test_writes_that_are_answered_together_count_as_one_by_one(latencies_ms: tuple[int, ...]) -> None:
    """ServerCnxn.updateStatsForResponse and ServerStats.updateLatency, for each of them."""
    told = []
    for way in ("one by one", "together", "as any answers"):
        counters, client = Counters(), Connection(ConnectionId(1), 0)
        waiting = writes(client, latencies_ms)
        if way == "one by one":
            for each in waiting:
                counters.count_write(NOW_MS, client, each, 9)
        elif way == "together":
            counters.count_writes(Instant(NOW_MS, NOW_MS), client, waiting, 9)
        else:
            counters.count_answers(Instant(NOW_MS, NOW_MS), client, waiting, 9)
        told.append(seen(counters, client))
    low, high, total = min(latencies_ms), max(latencies_ms), sum(latencies_ms)
    expected = dict(zip((*FIELDS,), (len(latencies_ms), len(latencies_ms), low, high, total), strict=True))
    of_client = dict(zip(LATENCIES, (low, high, total), strict=True))
    assert expected.items() <= told[0].items()
    assert {f"client {name}": value for name, value in of_client.items()}.items() <= told[0].items()
    assert (told[0]["count"], told[0]["total"], told[0]["largest"]) == (len(latencies_ms), total, high)
    assert told[1] == told[2] == told[0]


def test_the_shortest_latency_stays_the_shortest_also_where_it_is_none_at_all() -> None:
    counters, client = Counters(), Connection(ConnectionId(1), 0)
    for latency_ms in (0, 5):
        counters.count_answers(Instant(NOW_MS, NOW_MS), client, writes(client, [latency_ms]), 9)
    assert counters.latency_min_ms == client.latency_min_ms == 0
