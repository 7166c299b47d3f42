"""Which brokers hold which replicas of a new topic (kafka.admin.AdminUtils.assignReplicasToBrokers)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice, zip_longest

from zabka.ensemble.ports import Random

Racks = Mapping[int, str | None]
"""The racks of brokers; None for a broker without one."""


class RacksIncomplete(Exception):
    """Some brokers have a rack, and some have none."""


def assign_replicas(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    random: Random,
    *,
    racks: Racks | None = None,
    first_partition: int = 0,
    start_index: int = -1,
) -> dict[int, tuple[int, ...]]:
    """Spread replicas: leaders round robin from a random broker, followers shifted by one more every round.

    `brokers` are ids in order, at least `replication_factor` of them.  With `racks` a partition's replicas go to as
    many racks as there are.  A topic that grows continues the pattern with the `start_index` of its first partition's
    leader.  Raises RacksIncomplete.
    """
    assert 0 < replication_factor <= len(brokers), "the caller checks the replication factor"
    known = {broker: rack for broker, rack in (racks or {}).items() if broker in brokers and rack is not None}
    if known and len(known) < len(brokers):
        raise RacksIncomplete
    order = _alternating(brokers, known) if known else brokers
    size = len(order)
    start = start_index if start_index >= 0 else random.randrange(0, size)
    shift = start_index if start_index >= 0 else random.randrange(0, size)
    assignment: dict[int, tuple[int, ...]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % size == 0:
            shift += 1
        first = (partition + start) % size
        followers = _elsewhere(order, known, first, shift) if known else _after(order, first, shift)
        assignment[partition] = (order[first], *islice(followers, replication_factor - 1))
    return assignment


def _after(order: Sequence[int], first: int, shift: int) -> Iterator[int]:
    """Yield the other brokers in a circle, beginning `shift` after the next one."""
    size = len(order)
    return (order[(first + 1 + (shift + step) % (size - 1)) % size] for step in count())


def _elsewhere(order: Sequence[int], racks: Mapping[int, str], first: int, shift: int) -> Iterator[int]:
    """Yield the other brokers, first those in racks that have no replica yet."""
    every = dict.fromkeys(racks.values())
    taken, used = {order[first]}, {racks[order[first]]}
    for broker in _after(order, first, shift * len(every)):
        if broker not in taken and (racks[broker] not in used or len(used) == len(every)):
            taken.add(broker)
            used.add(racks[broker])
            yield broker


def _alternating(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """Return the brokers with one of each rack in turn, as long as a rack has any."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(racks[broker], []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for each in rounds for broker in each if broker is not None]
