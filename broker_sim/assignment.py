"""Which brokers hold which replicas of a new topic (kafka.admin.AdminUtils.assignReplicasToBrokers, without racks)."""

from __future__ import annotations

from collections.abc import Sequence

from ensemble.ports import Random


def assign_replicas(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    random: Random,
    *,
    first_partition: int = 0,
    start_index: int = -1,
) -> dict[int, tuple[int, ...]]:
    """Spread replicas: leaders round robin from a random broker, followers shifted by one more every round.

    `brokers` are ids in order, at least `replication_factor` of them.  A topic that grows keeps its rhythm with the
    `start_index` of its first partition's leader.
    """
    count = len(brokers)
    assert 0 < replication_factor <= count, "the caller checks the replication factor"
    start = start_index if start_index >= 0 else random.randrange(0, count)
    shift = start_index if start_index >= 0 else random.randrange(0, count)
    assignment: dict[int, tuple[int, ...]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        replicas = [brokers[first]]
        for j in range(replication_factor - 1):
            replicas.append(brokers[(first + 1 + (shift + j) % (count - 1)) % count])
        assignment[partition] = tuple(replicas)
    return assignment
