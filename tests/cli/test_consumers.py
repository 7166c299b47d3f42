"""Consumers that store offsets in ZooKeeper and consumers that store them in Kafka.

The same tests run on a live and on a simulated cluster.
"""

from __future__ import annotations

from zabka.testing.cluster import Cluster
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.worlds.cluster import SimulatedCluster


def consumers_of_both_kinds_read_everything_once_and_in_order(cluster: Cluster) -> None:
    cluster.topics.create("orders", partitions=2)
    members = [cluster.consumer("orders", "readers") for _ in range(2)]
    old = cluster.consumer("orders", "old-readers", offsets="zookeeper")
    producer = cluster.workload("orders", records_per_s=100)
    cluster.until(lambda: sorted(p for each in members for p in each.counts.partitions) == [0, 1], 30, "a share each")
    cluster.until(lambda: old.counts.partitions == [0, 1], 30, "the old one owns both")
    cluster.until(lambda: all(each.counts.consumed > 50 for each in (*members, old)), 30, "records")
    # A member that leaves cleanly commits its offsets before the other member continues from them.
    left = members[0].stop()
    cluster.until(lambda: members[1].counts.partitions == [0, 1], 30, "the other takes over")
    done = producer.stop()
    assert done.verified and done.lost == 0

    def all_read() -> bool:
        return left.consumed + members[1].counts.consumed == old.counts.consumed == done.acknowledged

    cluster.until(all_read, 30, "everything read")
    counts = [left, members[1].stop(), old.stop()]
    assert [(each.duplicates, each.out_of_order) for each in counts] == [(0, 0)] * 3
    assert counts[1].lag == counts[2].lag == 0


def test_live_group_and_zk_consumers_read_each_record(zabka_cluster: LiveCluster) -> None:
    cluster = zabka_cluster
    consumers_of_both_kinds_read_everything_once_and_in_order(cluster)
    offset = int(cluster.get("/api/v1/znodes/consumers/old-readers/offsets/orders/0")["data"])
    cluster.until(lambda: cluster.topics["orders"].partitions[0].high_watermark == offset, 30, "the offset of the last")


def test_simulated_group_and_zk_consumers_read_each_record(zabka_world: SimulatedCluster) -> None:
    consumers_of_both_kinds_read_everything_once_and_in_order(zabka_world)


def test_group_and_zookeeper_consumers_survive_broker_kills(
    zabka_world: SimulatedCluster,
) -> None:
    cluster = zabka_world
    cluster.topics.create("orders", partitions=2)
    consumers = [cluster.consumer("orders", "readers"), cluster.consumer("orders", "old", offsets="zookeeper")]
    producer = cluster.workload("orders", records_per_s=20)
    for broker in cluster.brokers.values():
        before = [each.counts.consumed for each in consumers]
        broker.kill()
        cluster.until(
            lambda before=before: all(  # type: ignore[misc]
                each.counts.consumed > count + 20 for each, count in zip(consumers, before, strict=True)
            ),
            60,
            "both read on",
        )
        broker.start()
        cluster.until(lambda: all(p.in_sync for p in cluster.topics["orders"].partitions), 60, "full ISRs")
    done = producer.stop()
    cluster.until(lambda: all(each.counts.consumed >= done.acknowledged for each in consumers), 60, "all read")
    assert [each.stop().out_of_order for each in consumers] == [0, 0]
    assert done.lost == 0
