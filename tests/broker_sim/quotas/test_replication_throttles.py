"""Replication throttles limit only the replicas listed as throttled (KIP-73, ReplicationQuotaManager)."""

from __future__ import annotations

import pytest

from tests.broker_sim.replication.replication_cluster import TP, Cluster, batch
from tests.broker_sim.replication.test_log_dir_moves import ORDERS, RIGHT, Brokers
from zabka.broker_sim.configs.replica_config import ALL_LISTED, listed, lists
from zabka.broker_sim.quotas.replication_throttles import FOLLOWER_RATE, LEADER_RATE, MOVES_RATE
from zabka.broker_sim.quotas.sampled_rate import SampledAmount, rate, rate_window_ms, simple_rate
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import BROKER_RESOURCE

MEGABYTE = 1_000_000
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"


def fill(cluster: Cluster, megabytes: int, topic_partition: TopicPartition = TP) -> None:
    for _ in range(megabytes * 10):
        cluster.produce_later(1, batch("x" * (MEGABYTE // 10)), 1, topic_partition=topic_partition)


def seconds_until_level(cluster: Cluster, broker_id: int = 2, topic_partition: TopicPartition = TP) -> float:
    """Restart the broker, and return how many seconds it takes to fetch all of the leader's records."""
    cluster.restart(broker_id)
    started = cluster.now_ms
    leader = cluster[1].manager.partitions[topic_partition].log
    log = cluster[broker_id].manager.partitions[topic_partition].log
    cluster.until(lambda: log.end_offset == leader.end_offset)
    return (cluster.now_ms - started) / 1000


def lagging_follower(**topic_configs: str) -> Cluster:
    """Return a cluster whose leader has ten megabytes of records. The follower is down, empty and outside the ISR."""
    cluster = Cluster(2)
    cluster.topic_configs["orders"] = {key.replace("_", "."): value for key, value in topic_configs.items()}
    cluster.create([1, 2])
    cluster.settle(1, 2)
    cluster.kill(2)
    fill(cluster, 10)
    cluster.run(2_000)
    assert cluster[1].partition.isr_state.isr == (1,)
    return cluster


@pytest.mark.parametrize("listing", ["*", "0:1,3:2"])
def test_leader_limits_the_data_sent_to_throttled_replicas(listing: str) -> None:
    cluster = lagging_follower(leader_replication_throttled_replicas=listing)
    cluster[1].manager.throttles.set_rates({LEADER_RATE: str(MEGABYTE)})
    assert seconds_until_level(cluster) == pytest.approx(10, abs=1.5)
    cluster.until(lambda: cluster[1].partition.isr_state.isr == (1, 2))


def test_follower_fetches_throttled_replicas_at_its_quota_rate() -> None:
    cluster = lagging_follower(follower_replication_throttled_replicas="0:2")
    cluster.brokers[2].boot = _throttled(cluster, {FOLLOWER_RATE: str(MEGABYTE)})  # type: ignore[method-assign]
    assert seconds_until_level(cluster) == pytest.approx(10, abs=1.5)


def _throttled(cluster: Cluster, rates: dict[str, str]):  # type: ignore[no-untyped-def]
    boot = cluster.brokers[2].boot

    def throttled() -> None:
        boot()
        cluster[2].manager.throttles.set_rates(rates)

    return throttled


@pytest.mark.parametrize("listing", ["", "1:1", "0:2", "nonsense"])
def test_unlisted_replicas_are_not_throttled(listing: str) -> None:
    cluster = lagging_follower(leader_replication_throttled_replicas=listing)
    cluster[1].manager.throttles.set_rates({LEADER_RATE: "1000"})
    assert seconds_until_level(cluster) < 1


def test_throttled_replica_lists_without_a_rate_have_no_effect() -> None:
    cluster = lagging_follower(leader_replication_throttled_replicas="*", follower_replication_throttled_replicas="*")
    assert seconds_until_level(cluster) < 1


def test_removing_the_rate_removes_the_throttle() -> None:
    cluster = lagging_follower(leader_replication_throttled_replicas="*")
    cluster[1].manager.throttles.set_rates({LEADER_RATE: "1000"})
    cluster.restart(2)
    cluster.run(5_000)
    assert cluster[2].partition.log.end_offset < 50
    cluster[1].manager.throttles.set_rates({})
    cluster.run(1_000)
    assert cluster[2].partition.log.end_offset == 100


def test_in_sync_replicas_are_never_throttled() -> None:
    cluster = Cluster(2)
    cluster.topic_configs["orders"] = {LEADERS: "*", FOLLOWERS: "*"}
    cluster.create([1, 2])
    cluster.settle(1, 2)
    for broker_id in (1, 2):
        cluster[broker_id].manager.throttles.set_rates({LEADER_RATE: "1000", FOLLOWER_RATE: "1000"})
    for number in range(20):
        assert cluster.produce(1, f"{number}" + "x" * 1_000).error == 0
    assert cluster[1].partition.isr_state.isr == (1, 2)


@pytest.mark.parametrize(("listing", "counted"), [("*", True), ("", False)])
@pytest.mark.parametrize("parked", [False, True], ids=["at once", "after it was parked"])
def test_leader_throttle_counts_only_listed_replicas(listing: str, counted: bool, parked: bool) -> None:
    """A leader's throttle counts each listed replica, even one that is in sync, and even if its fetch did not wait.

    ReplicaManager.readFromLocalLog and DelayedFetch do the same.
    """
    cluster = Cluster(2)
    cluster.topic_configs["orders"] = {LEADERS: listing}
    cluster.create([1, 2])
    cluster[2].runtime.stop()
    quota = cluster[1].manager.throttles.leader
    cluster[1].manager.throttles.set_rates({LEADER_RATE: "1"})
    if parked:
        cluster.fetch_later(1, 0, replica_id=2, max_wait_ms=400)
        cluster.run(100)
    cluster.produce_later(1, batch("x" * 1_000), 1)
    cluster.run(50)
    if not parked:
        assert not quota.is_exceeded
        cluster.fetch_later(1, 0, replica_id=2, max_wait_ms=0)
        cluster.run(50)
    assert quota.is_exceeded == counted


def test_throttled_replica_does_not_delay_unthrottled_replicas() -> None:
    cluster = Cluster(2)
    other = TopicPartition("free", 0)
    cluster.topic_configs["orders"] = {LEADERS: "*", FOLLOWERS: "*"}
    cluster.topic_id = None
    cluster.create([1, 2])
    cluster.create([1, 2], other)
    cluster.run(500)
    cluster.kill(2)
    fill(cluster, 3)
    fill(cluster, 3, other)
    cluster.run(2_000)
    for broker_id in (1, 2):
        rates = {LEADER_RATE: "100000", FOLLOWER_RATE: "100000"}
        cluster.brokers[broker_id].manager.throttles.set_rates(rates)
    cluster.brokers[2].boot = _throttled(cluster, {FOLLOWER_RATE: "100000"})  # type: ignore[method-assign]
    assert seconds_until_level(cluster, topic_partition=other) < 1.5
    assert cluster[2].partition.log.end_offset < 30


def test_move_between_log_directories_respects_its_throttle_rate() -> None:
    brokers = Brokers()
    brokers.start()
    brokers.run(brokers.client.create_topic("orders", assignment={0: [1]}))
    brokers.fill(100)
    size = brokers.partition().log.size_bytes
    brokers.run(brokers.client.alter_configs(BROKER_RESOURCE, "1", {MOVES_RATE: str(size // 10)}))
    brokers.wait(500)
    brokers.move(RIGHT)
    brokers.wait(7_000)
    assert brokers.replica_names()[0] == ["orders-0"]
    ((is_future, lag),) = brokers.described()[RIGHT]
    assert is_future and 10 < lag < 60
    brokers.wait(5_000)
    assert brokers.replica_names() == ([], [str(ORDERS)])
    brokers.stop_all()


def test_throttled_replica_lists_are_parsed_as_kafka_does() -> None:
    assert listed("*") == ALL_LISTED and lists(listed("*"), 7, 3)
    assert listed("0:1, 2:3") == ((0, 1), (2, 3)) and lists(listed("0:1,2:3"), 2, 3)
    assert not lists(listed("0:1"), 0, 2) and listed("") == listed("0") == listed("a:b") == ()


def test_throttle_rate_is_computed_over_the_current_windows() -> None:
    amount = SampledAmount(11, 1_000)
    amount.add(1_000, 0)
    assert (simple_rate(amount, 0), rate(amount, 0), rate_window_ms(amount, 0)) == (1_000, 100, 10_000)
    amount.add(1_000, 5_000)
    assert (simple_rate(amount, 5_000), rate(amount, 5_000)) == (400, 200)
    assert simple_rate(amount, 10_999) == pytest.approx(2_000 / 10.999)
    # From 11 s on, the first window no longer counts.
    assert simple_rate(amount, 11_000) == pytest.approx(1_000 / 6)
    assert simple_rate(amount, 16_000) == 0


def test_sampled_amount_replaces_its_expired_windows() -> None:
    amount = SampledAmount(2, 1_000)
    for second in range(20):
        amount.add(10, second * 1_000)
    assert (amount.total(19_000), amount.elapsed_ms(19_000), len(amount._samples)) == (20, 1_000, 3)
