"""Replica assignment of a new topic to brokers (kafka.admin.AdminUtils.assignReplicasToBrokers)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice, zip_longest

from zabka.ensemble.ports import Random

Racks = Mapping[int, str | None]
"""The rack of each broker; None for a broker without a rack."""


class RacksIncomplete(Exception):
    """Some brokers have a rack, and others have none."""


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
    """Assign replicas to brokers. Leaders are round robin, beginning with a random broker.

    The followers of a partition are the brokers after the leader, shifted by one more in every round. `brokers` are ids
    in order, at least `replication_factor` of them. With `racks`, a partition's replicas are spread over as many racks
    as possible. For a topic that gets more partitions, `start_index` is the leader of its first partition, so that the
    pattern continues. Raises RacksIncomplete.
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
    """Yield the brokers other than the leader in circular order, beginning `shift` places after the leader's
    successor.
    """
    size = len(order)
    return (order[(first + 1 + (shift + step) % (size - 1)) % size] for step in count())


def _elsewhere(order: Sequence[int], racks: Mapping[int, str], first: int, shift: int) -> Iterator[int]:
    """Yield the brokers other than the leader. Brokers in racks that have no replica yet come first."""
    every = dict.fromkeys(racks.values())
    taken, used = {order[first]}, {racks[order[first]]}
    for broker in _after(order, first, shift * len(every)):
        if broker not in taken and (racks[broker] not in used or len(used) == len(every)):
            taken.add(broker)
            used.add(racks[broker])
            yield broker


def _alternating(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """Return the brokers in turns: one from each rack, then the next one from each rack, until no broker is left."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(racks[broker], []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for each in rounds for broker in each if broker is not None]
