"""What ListOffsets answers for one partition: the log's ends, or the first record from a time on."""

from __future__ import annotations

from collections.abc import Generator

from kio.schema.errors import ErrorCode

from zabka.broker_sim.logs.newest_record import newest_record
from zabka.broker_sim.logs.time_search import offset_for_timestamp
from zabka.broker_sim.replication.partition import Partition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4


def list_offset(
    partition: Partition, timestamp: int, from_follower: bool
) -> Generator[None, None, tuple[int, int, int, int]]:
    """(error, timestamp, offset, leader epoch), as `ReplicaManager.list_offset` says; in slices."""
    error, last = partition.last_readable(from_follower)
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return 0, -1, log.start_offset, log.epochs.epoch_for_offset(log.start_offset)
    if timestamp == LATEST:
        return (int(error), -1, -1, -1) if error else (0, -1, last, partition.leader_epoch)
    found = None
    if timestamp == MAX_TIMESTAMP:
        found = yield from newest_record(log)
    elif timestamp >= 0:
        found = yield from offset_for_timestamp(log, timestamp)
    if found is None and log.is_closed:
        # It went while there was a pause: it has moved to another log directory, or nothing is served of it any more.
        if partition.log is log:
            return int(ErrorCode.not_leader_or_follower), -1, -1, -1
        return (yield from list_offset(partition, timestamp, from_follower))
    if found is None or found[1] >= last:
        return int(error), -1, -1, -1
    return 0, found[0], found[1], log.epochs.epoch_for_offset(found[1])
