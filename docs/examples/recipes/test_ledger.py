"""Test the ledger with an unclean election in a cluster of real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ledger import Ledger

from zabka.testing.cluster import Partition
from zabka.testing.live.cluster import LiveCluster


@pytest.fixture
def ledger(zabka_cluster: LiveCluster) -> Iterator[Ledger]:
    zabka_cluster.topics.create("payments", assignment={0: [1, 2]}, config={"unclean.leader.election.enable": "true"})
    made = Ledger(zabka_cluster.bootstrap, "payments")
    yield made
    made.close()


def test_ledger_drops_payments_lost_by_an_unclean_election(zabka_cluster: LiveCluster, ledger: Ledger) -> None:
    def reads(*expected: str) -> None:
        def has_read() -> bool:
            ledger.read()
            return list(ledger.payments.values()) == list(expected)

        zabka_cluster.until(has_read, what=f"{expected} and nothing else in the ledger")

    def partition() -> Partition:
        return zabka_cluster.topics["payments"].partitions[0]

    zabka_cluster.produce("payments", ["1 euro"])
    reads("1 euro")

    # Stop broker 2 first, so that broker 1 is the whole ISR and the only broker with the records written now.
    zabka_cluster.brokers[2].kill()
    zabka_cluster.until(lambda: partition().isr == [1])
    zabka_cluster.produce("payments", ["2 euros", "3 euros"])
    reads("1 euro", "2 euros", "3 euros")

    # Then stop broker 1 as well. Only broker 2, which lacks those records, can become leader.
    zabka_cluster.brokers[1].kill()
    zabka_cluster.brokers[2].start()
    zabka_cluster.until(lambda: partition().leader == 2)

    reads("1 euro")
    assert ledger.taken_back == ["2 euros", "3 euros"]
    zabka_cluster.produce("payments", ["4 euros"])
    reads("1 euro", "4 euros")
