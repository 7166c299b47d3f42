"""Histories of many clients of real peers, with kills, freezes and partitioned links, are linearizable and in
order.
"""

from __future__ import annotations

from bench.histories import check_zookeeper
from zabka.ensemble.client.history_clients import History, check_history
from zabka.journal.checkers.linearizability import Operation
from zabka.journal.checkers.session_order import Seen
from zabka.journal.checkers.znode_register import Answered, Asked
from zabka.testing.live.cluster import LiveCluster


def test_client_histories_under_faults_are_linearizable(zabka_cluster: LiveCluster) -> None:
    checked = check_zookeeper(zabka_cluster, seconds=5.0, clients=5, seed=3)

    assert checked.wrong == []
    assert checked.counts["writes and quorum reads"] > 100
    assert checked.counts["ordered replies"] > 100


def test_checker_detects_stale_reads_and_reads_that_go_back() -> None:
    history = History()
    history.operations += [
        Operation("a", "/x", 0, 1, Asked("create", b"1"), Answered("ok")),
        Operation("a", "/x", 2, 3, Asked("set", b"2"), Answered("ok", b"", 1)),
        Operation("b", "/x", 4, 5, Asked("read"), Answered("ok", b"1", 0)),
    ]
    history.seen += [Seen("b", "read", "/x", 7), Seen("b", "read", "/x", 6)]

    wrong = check_history(history, ["/alive/c.1 is gone, and its session lives"]).wrong

    assert [line.split(":")[0] for line in wrong] == [
        "/alive/c.1 is gone, and its session lives",
        "/x is not linearizable",
        "b read /x at 0x6 after it knew 0x7",
    ]
