"""A server's counters of replies are the same whether replies are sent one by one or together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.ensemble.tree.tree_driver import Ensemble, children, create, delete, exists, get, set_data
from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import EventType, OpCode
from zabka.ensemble.tree.connections import Connection, Waiting
from zabka.ensemble.tree.counters import DIGESTS_EVERY, Counters

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
def test_replies_sent_together_are_counted_one_by_one(latencies_ms: tuple[int, ...]) -> None:
    """Replies that are sent together are counted like single replies.

    Java calls ServerCnxn.updateStatsForResponse and ServerStats.updateLatency for each reply.
    """
    seen_counts = []
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
        seen_counts.append(seen(counters, client))
    low, high, total = min(latencies_ms), max(latencies_ms), sum(latencies_ms)
    expected = dict(zip((*FIELDS,), (len(latencies_ms), len(latencies_ms), low, high, total), strict=True))
    of_client = dict(zip(LATENCIES, (low, high, total), strict=True))
    assert expected.items() <= seen_counts[0].items()
    assert {f"client {name}": value for name, value in of_client.items()}.items() <= seen_counts[0].items()
    assert (seen_counts[0]["count"], seen_counts[0]["total"], seen_counts[0]["largest"]) == (
        len(latencies_ms),
        total,
        high,
    )
    assert seen_counts[1] == seen_counts[2] == seen_counts[0]


def test_minimum_latency_can_be_zero_and_never_increases() -> None:
    counters, client = Counters(), Connection(ConnectionId(1), 0)
    for latency_ms in (0, 5):
        counters.count_answers(Instant(NOW_MS, NOW_MS), client, writes(client, [latency_ms]), 9)
    assert counters.latency_min_ms == client.latency_min_ms == 0


# -- counters of a whole server ---------------------------------------------------------------------------------------

COUNTS = (
    "digest_mismatches", "txns_applied", "stale_requests", "stale_replies", "closed_without_service", "revalidations",
    "watch_bytes", "packets_received", "packets_sent", "answers", "latency_max_ms", "latency_total_ms",
)  # fmt: skip
SUMMARIES = (
    "read_latency_ms", "update_latency_ms", "propagation_latency_ms", "commit_propagation_latency_ms",
    "quorum_ack_latency_ms",
)  # fmt: skip


def test_new_server_has_zero_counters() -> None:
    counters = Counters()
    assert [getattr(counters, name) for name in COUNTS] == [0] * len(COUNTS)
    assert counters.latency_min_ms == -1, "none is known"
    assert [getattr(counters, name).count for name in SUMMARIES] == [0] * len(SUMMARIES)
    assert (list(counters.digests), counters.quota_refusals) == ([], {})


def test_srst_resets_only_packets_and_latencies() -> None:
    """The command srst resets only the counts of packets and latencies, as ServerStats.reset does in ZooKeeper."""
    ensemble = Ensemble(servers=2)
    client = ensemble.connect(server=1)
    ensemble.ask(client, create("/a"))
    ensemble.ask(client, get("/a", True))
    ensemble.ask(client, set_data("/a", b"1"))
    ensemble.ask(client, exists("/a"))
    counters = ensemble.services[1].counters
    applied, watch_bytes = counters.txns_applied, counters.watch_bytes
    counters.quota_refusals["/a"] = 3
    assert min(counters.packets_received, counters.packets_sent, counters.answers, applied, watch_bytes) > 0
    counters.reset()
    assert (counters.packets_received, counters.packets_sent, counters.answers) == (0, 0, 0)
    assert (counters.latency_min_ms, counters.latency_max_ms, counters.latency_total_ms) == (-1, 0, 0)
    assert [getattr(counters, name).count for name in SUMMARIES] == [0] * len(SUMMARIES)
    assert counters.watches_fired[EventType.DATA_CHANGED].count == 0 and counters.quota_refusals == {"/a": 0}
    assert (counters.txns_applied, counters.watch_bytes) == (applied, watch_bytes)


def test_packets_are_counted_when_received_and_when_sent() -> None:
    ensemble = Ensemble()
    client = ensemble.connect()
    counters = ensemble.services[0].counters
    received, sent, answers = counters.packets_received, counters.packets_sent, counters.answers
    for request in (create("/a"), get("/a"), children("/"), delete("/nowhere")):
        ensemble.ask(client, request)
    assert counters.packets_received - received == counters.packets_sent - sent == counters.answers - answers == 4


def test_watch_bytes_metric_counts_each_connection_once() -> None:
    """WATCH_BYTES counts the bytes of an event once for each connection that receives it.

    Like ServerMetrics, it counts 16 bytes of each notification (header, type and state), plus the path and its length
    field.
    """
    ensemble = Ensemble()
    writer, *watchers = (ensemble.connect() for _ in range(4))
    ensemble.ask(writer, create("/ü"))
    for watcher in watchers:
        ensemble.ask(watcher, get("/ü", True))
    counters = ensemble.services[0].counters
    ensemble.ask(writer, set_data("/ü", b"1"))
    assert counters.watch_bytes == 3 * (16 + 4 + 4 + 4 + 3)
    fired = counters.watches_fired[EventType.DATA_CHANGED]
    assert (fired.count, fired.total) == (1, 3)
    assert counters.watches_fired[EventType.DELETED].count == 0


def test_leader_counts_each_revalidated_session() -> None:
    ensemble = Ensemble(servers=2)
    client = ensemble.connect(server=0)
    session = ensemble.session(client)
    for count in (1, 2):
        ensemble.hang_up(client)
        client = ensemble.connect(server=1, session=session)
        assert [service.counters.revalidations for service in ensemble.services] == [count, 0]


def test_leader_and_learner_measure_different_txn_latencies() -> None:
    """The leader and the learner measure different latencies of a transaction.

    These are Java's ServerMetrics: PROPAGATION_LATENCY on every server, QUORUM_ACK_LATENCY on a leader, and
    COMMIT_PROPAGATION_LATENCY on a learner.
    """
    ensemble = Ensemble(servers=2)
    client = ensemble.connect()
    leader, learner = (service.counters for service in ensemble.services)
    before = leader.txns_applied
    leader.reset(), learner.reset()
    ensemble.auto = False
    for n in range(3):
        ensemble.send(client, create(f"/{n}"))
    ensemble.now_ms += 7
    ensemble.commit_together()
    for counters in (leader, learner):
        assert counters.txns_applied - before == 3
        assert (counters.propagation_latency_ms.count, counters.propagation_latency_ms.total) == (3, 21)
    assert (leader.quorum_ack_latency_ms.total, learner.quorum_ack_latency_ms.count) == (21, 0)
    assert (learner.commit_propagation_latency_ms.total, leader.commit_propagation_latency_ms.count) == (21, 0)


def test_fast_leader_clock_gives_no_negative_propagation_time() -> None:
    ensemble = Ensemble(servers=2)
    client = ensemble.connect()
    ensemble.auto = False
    ensemble.send(client, create("/a"))
    ensemble.now_ms -= 9
    counters = ensemble.services[1].counters
    counters.reset()
    ensemble.commit()
    assert (counters.propagation_latency_ms.count, counters.propagation_latency_ms.maximum) == (1, 0)


@pytest.mark.parametrize("together", [False, True])
def test_tree_digest_is_stored_for_every_128th_transaction(together: bool) -> None:
    """The tree's digest is stored for every 128th transaction, as in ZooKeeper (DataTree.DIGEST_LOG_INTERVAL)."""
    ensemble = Ensemble()
    client = ensemble.connect()
    ensemble.ask(client, create("/a"))
    ensemble.auto = False
    for _ in range(2 * DIGESTS_EVERY):
        ensemble.send(client, set_data("/a", b"x"))
    (ensemble.commit_together if together else ensemble.commit)()
    service = ensemble.services[0]
    kept = list(service.counters.digests)
    assert [zxid % 128 for zxid, _ in kept] == [0, 0] and kept[1][0] - kept[0][0] == 128
    digests = {txn.zxid: txn.digest for txn in ensemble.history}
    assert kept == [(zxid, digests[zxid]) for zxid, _ in kept]
