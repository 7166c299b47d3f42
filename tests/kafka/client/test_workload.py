from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_sim.broker_world import Cluster
from zabka.journal.events import Event, TopicPartition, WorkloadProgressed
from zabka.kafka.client.ledger import PartitionLedger
from zabka.kafka.client.workload import Workload
from zabka.kafka.record_batch import Record

# ---- the ledger -----------------------------------------------------------------------------------------------


def test_acknowledged_record_that_is_read_back_is_not_lost() -> None:
    ledger = PartitionLedger()
    ledger.acknowledge(0, [10, 11, 12])
    assert ledger.unverified
    ledger.read_back([(0, 10), (1, 11), (2, 12)], 3)
    assert (ledger.lost, ledger.unverified, ledger.position) == (0, False, 3)


def test_different_record_at_an_acknowledged_offset_means_a_loss() -> None:
    ledger = PartitionLedger()
    ledger.acknowledge(0, [10, 11])
    ledger.read_back([(0, 10), (1, -1)], 2)
    assert ledger.lost == 1


def test_gap_at_an_acknowledged_offset_counts_as_lost() -> None:
    ledger = PartitionLedger()
    ledger.acknowledge(0, [10, 11, 12])
    ledger.read_back([(0, 10), (2, 12)], 3)
    assert ledger.lost == 1


def test_offset_acknowledged_twice_is_a_loss_of_the_first_record() -> None:
    ledger = PartitionLedger()
    ledger.acknowledge(5, [10])
    ledger.acknowledge(5, [20])
    assert ledger.lost == 1
    ledger.read_back([(5, 20)], 6)
    assert ledger.lost == 1


def test_offsets_that_can_differ_are_reread_after_leader_change() -> None:
    ledger = PartitionLedger()
    ledger.acknowledge(0, [10, 11, 12])
    ledger.read_back([(0, 10), (1, 11), (2, 12)], 3)
    ledger.leader_changed(2, 1)
    assert ledger.unverified and ledger.position == 1
    ledger.read_back([(1, 30)], 2)
    ledger.log_ends(2)
    assert (ledger.lost, ledger.unverified) == (2, False)


def test_lost_record_that_reappears_is_no_longer_lost() -> None:
    ledger = PartitionLedger()
    ledger.acknowledge(0, [10, 11])
    ledger.read_back([(0, 10), (1, 11)], 2)
    ledger.leader_changed(2, 1)
    ledger.log_ends(1)
    assert ledger.lost == 1
    ledger.leader_changed(3, 0)
    ledger.read_back([(0, 10), (1, 11)], 2)
    ledger.log_ends(2)
    assert ledger.lost == 0


def test_missing_offset_ranges_count_each_lost_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranges of missing offsets contain each lost record.

    Offsets 1 and 2 are lost, and offset 1 had two records. Offsets 5, 7 and 9 are also lost. At most three ranges are
    reported, so the last one combines 7 and 9.
    """
    monkeypatch.setattr("zabka.kafka.client.ledger.SPANS_MAX", 3)
    ledger = PartitionLedger()
    ledger.acknowledge(0, range(10, 20))
    ledger.acknowledge(1, [30])
    found = [(0, 10), (3, 13), (4, 14), (6, 16), (8, 18)]
    ledger.read_back(found, 10)
    assert ledger.missing == [(1, 2, 3), (5, 5, 1), (7, 9, 2)]
    assert ledger.lost == 6


def test_records_removed_by_retention_are_not_lost() -> None:
    ledger = PartitionLedger()
    ledger.acknowledge(0, [10, 11, 12])
    ledger.log_starts(2)
    ledger.read_back([(2, 12)], 3)
    assert (ledger.lost, ledger.unverified) == (0, False)


def test_record_acknowledged_during_a_read_is_not_reported_lost() -> None:
    ledger = PartitionLedger()
    ledger.acknowledge(0, [10, 11])
    ledger.read_back([(0, 10), (1, 11), (2, 12), (3, 13)], 4)
    begun = ledger.position
    ledger.acknowledge(2, [12, 13])
    ledger.read_back([(4, 14)], 5, begun)
    assert (ledger.lost, ledger.unverified, ledger.position) == (0, True, 2)
    ledger.read_back([(2, 12), (3, 13), (4, 14)], 5, 2)
    assert (ledger.lost, ledger.unverified, ledger.position) == (0, False, 5)


def test_record_acknowledged_during_a_log_end_query_is_not_lost() -> None:
    ledger = PartitionLedger()
    ledger.acknowledge(0, [10])
    ledger.read_back([(0, 10)], 1)
    highest = ledger.highest
    ledger.acknowledge(1, [11])
    ledger.log_ends(1, highest)
    assert (ledger.lost, ledger.unverified) == (0, True)


def test_record_acknowledged_below_the_read_position_is_reread() -> None:
    ledger = PartitionLedger()
    ledger.read_back([], 5)
    ledger.acknowledge(3, [9])
    assert ledger.unverified and ledger.position == 3


def test_ledger_of_acknowledged_records_has_a_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zabka.kafka.client.ledger.ENTRIES_MAX", 100)
    ledger = PartitionLedger()
    for offset in range(1_000):
        ledger.acknowledge(offset, [offset])
        ledger.read_back([(offset, offset)], offset + 1)
    assert len(ledger._acknowledged) <= 101 and ledger.lost == 0


# ---- the workload ---------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster().start()
    yield made
    made.stop_all()


def workload(cluster: Cluster, acks: int = -1, records_per_s: float = 100) -> tuple[Workload, list[Event]]:
    events: list[Event] = []
    made = Workload(
        cluster.client, cluster.runtime, events.append, "w", "orders", acks=acks, records_per_s=records_per_s
    )
    return made, events


@pytest.mark.parametrize("acks", [-1, 1])
def test_workload_keeps_its_rate_and_verifies_acknowledgements(cluster: Cluster, acks: int) -> None:
    cluster.run(cluster.client.create_topic("orders", 3, 3))
    made, events = workload(cluster, acks)
    made.start()
    cluster.wait(10_000)
    cluster.run(made.stop())
    status = cluster.run(made.verify())
    assert 950 <= status.sent <= 1_000
    assert status.acknowledged == status.sent and status.failed == status.lost == 0 and status.verified
    made.close()
    progress = [event for event in events if isinstance(event, WorkloadProgressed)]
    assert (progress[-1].sent, progress[-1].acknowledged, progress[-1].lost) == (status.sent, status.sent, 0)


def test_acks_0_workload_has_no_acknowledgements(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 1, 3))
    made, _ = workload(cluster, 0)
    made.start()
    cluster.wait(2_000)
    cluster.run(made.stop())
    status = made.status()
    assert status.sent > 100 and status.acknowledged == status.failed == 0
    cluster.wait(1_000)
    assert cluster.run(cluster.client.list_offset(TopicPartition("orders", 0))) == status.sent
    made.close()


def test_workload_waits_until_its_topic_exists(cluster: Cluster) -> None:
    made, _ = workload(cluster)
    made.start()
    cluster.wait(1_000)
    assert made.status().sent == 0
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    cluster.wait(2_000)
    assert made.status().acknowledged > 50
    made.close()


def test_workload_reports_its_waiting_time(cluster: Cluster) -> None:
    """A workload reports for how long it could not write.

    The topic does not exist for the first three seconds. Then its only replica is down for four more seconds.
    """
    made, events = workload(cluster, acks=1)
    made.start()
    cluster.wait(3_000)
    leader = next(node for node in cluster.nodes.values() if node is not cluster.controller)
    cluster.run(cluster.client.create_topic("orders", assignment={0: (leader.broker_id,)}))
    cluster.wait(3_000)
    session = leader.session.session_id
    leader.kill()
    cluster.wait(2_500)
    during = [event for event in events if isinstance(event, WorkloadProgressed)][-1]
    assert 2_900 + 1_001 <= during.waited_ms <= 3_500 + 2_500
    cluster.wait(1_500)
    cluster.ensemble.end_session(session)
    cluster.on(leader, leader.boot().start())
    cluster.wait(3_000)
    cluster.run(made.stop())
    made.close()
    last = [event for event in events if isinstance(event, WorkloadProgressed)][-1]
    assert (last.acks, last.failed, last.acknowledged) == ("1", 0, last.sent)
    assert 12_900 <= last.running_ms <= 14_000
    assert 2_900 + 3_900 <= last.waited_ms <= 3_500 + 6_000


def test_leader_kill_loses_no_acknowledged_record(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 3, 3, configs={"min.insync.replicas": "2"}))
    made, _ = workload(cluster)
    made.start()
    cluster.wait(3_000)
    dead = cluster.controller
    session = dead.session.session_id
    dead.kill()
    cluster.wait(2_000)
    cluster.ensemble.end_session(session)
    cluster.wait(5_000)
    cluster.on(dead, dead.boot().start())
    cluster.wait(5_000)
    cluster.run(made.stop())
    status = cluster.run(made.verify())
    assert status.lost == 0 and status.verified
    assert status.acknowledged > 1_000
    made.close()


def test_records_lost_by_an_unclean_election_are_counted(cluster: Cluster) -> None:
    survivor = cluster.controller
    leader, follower = (n for n in cluster.nodes.values() if n is not survivor)
    ids = (leader.broker_id, follower.broker_id)
    cluster.run(cluster.client.create_topic("orders", assignment={0: ids}))
    made, _ = workload(cluster)
    made.start()
    cluster.wait(2_000)
    session = follower.session.session_id
    follower.kill()
    cluster.ensemble.end_session(session)
    cluster.wait(3_000)
    lost_from = cluster.run(cluster.client.list_offset(TopicPartition("orders", 0)))
    session = leader.session.session_id
    leader.kill()
    cluster.ensemble.end_session(session)
    cluster.on(follower, follower.boot().start())
    cluster.wait(1_000)
    assert made.status().lost == 0
    cluster.run(cluster.client.alter_configs(2, "orders", {"unclean.leader.election.enable": "true"}))
    cluster.wait(5_000)
    cluster.run(made.stop())
    status = cluster.run(made.verify())
    assert 200 <= status.lost <= lost_from
    assert status.verified
    made.close()


def test_client_finds_the_leader_after_a_move(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 1, 3))
    partition = TopicPartition("orders", 0)
    assert cluster.run(cluster.client.produce(partition, [Record(b"k", b"v")])) == 0
    leader = cluster.nodes[cluster.run(cluster.client.metadata(["orders"])).topics["orders"].partitions[0].leader]
    cluster.on(leader, leader.broker.stop())
    leader.runtime.stop()
    assert cluster.run(cluster.client.produce(partition, [Record(b"k", b"w"), Record(None, None)])) == 1
    fetched = cluster.run(cluster.client.fetch(partition, 0))
    assert [(r.offset, r.key, r.value) for r in fetched.records] == [(0, b"k", b"v"), (1, b"k", b"w"), (2, None, None)]


def test_producer_ids_of_clients_are_unique(cluster: Cluster) -> None:
    async def collect() -> list[int]:
        return [(await cluster.client.init_producer_id())[0] for _ in range(1_200)]

    given = cluster.run(collect())
    assert len(set(given)) == 1_200


def test_repeated_idempotent_batch_is_stored_once(cluster: Cluster) -> None:
    cluster.run(cluster.client.create_topic("orders", 1, 3))
    partition = TopicPartition("orders", 0)
    producer_id, epoch = cluster.run(cluster.client.init_producer_id())
    for _ in range(3):
        batch = [Record(None, b"once"), Record(None, b"only")]
        assert cluster.run(cluster.client.produce(partition, batch, producer=(producer_id, epoch, 0))) == 0
    assert cluster.run(cluster.client.list_offset(partition)) == 2
