"""Moves of replicas between a broker's log directories (KIP-113): start, verify, cancel. Used by `zabka reassign`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.cli.kafka_command import CommandFailed, TerseFailure, print_line
from zabka.cli.reassign_plan import TopicPartitionReplica
from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaUnavailable
from zabka.kafka.client.log_admin import alter_replica_log_dirs, describe_log_dirs
from zabka.kafka.ports import Endpoint

Directories = Mapping[TopicPartitionReplica, str]
ATTEMPT_EVERY_MS = 100
"""Interval between two attempts to move a replica that its broker has not created yet."""


class Place(NamedTuple):
    """Current log directory of a replica, and the target directory of its unfinished move; None if there is none."""

    current: str | None = None
    future: str | None = None


async def _broker(client: AdminClient, broker_id: int) -> Endpoint:
    known = (await client.metadata([])).brokers.get(broker_id)
    if known is None:
        raise KafkaUnavailable(f"broker {broker_id} is not alive")
    return known


def _by_broker(targets: Directories) -> dict[int, dict[TopicPartition, str]]:
    brokers: dict[int, dict[TopicPartition, str]] = {}
    for replica in sorted(targets):
        brokers.setdefault(replica.broker_id, {})[replica.topic_partition] = targets[replica]
    return brokers


async def find_places(client: AdminClient, targets: Directories) -> dict[TopicPartitionReplica, Place]:
    """Return the log directories of these replicas. Raises KafkaRequestFailed, KafkaUnavailable."""
    found: dict[TopicPartitionReplica, Place] = {}
    for broker_id, partitions in _by_broker(targets).items():
        places = dict.fromkeys(partitions, Place())
        for directory in await describe_log_dirs(client, await _broker(client, broker_id)):
            for partition in directory.logs.keys() & partitions.keys():
                field = "future" if directory.logs[partition].is_future else "current"
                places[partition] = places[partition]._replace(**{field: directory.path})
        found |= {TopicPartitionReplica(broker_id, partition): place for partition, place in places.items()}
    return found


def is_under_way(place: Place) -> bool:
    """Return whether a replica's move may be unfinished.

    As in Kafka's tool, the result is also true if the broker does not report the replica.
    """
    return place.current is None or place.future is not None


def status(replica: TopicPartitionReplica, target: str, place: Place) -> str:
    """Return a sentence about the progress of a replica's move to the directory `target`."""
    partition, broker = replica.topic_partition, replica.broker_id
    if place.current is None:
        return (
            f"Partition {partition} is not found in any live log dir on broker {broker}. "
            "There is likely an offline log directory on the broker."
        )
    if place.future == target:
        return f"Reassignment of replica {replica} is still in progress."
    if place.future is not None:
        return f"Partition {partition} on broker {broker} is being moved to log dir {place.future} instead of {target}."
    if place.current == target:
        return f"Reassignment of replica {replica} completed successfully."
    return f"Partition {partition} on broker {broker} is not being moved from log dir {place.current} to {target}."


async def begin_moves(client: AdminClient, runtime: Runtime, targets: Directories, timeout_ms: int) -> None:
    """Start moving replicas to these directories. Wait for replicas that their brokers have not created yet.

    Raises TerseFailure if such a replica does not appear in time, CommandFailed if a broker rejects a move.
    """
    deadline_ms = runtime.now().mono_ms + timeout_ms
    pending = dict(targets)
    while True:
        begun = await _begin(client, pending)
        for replica in begun:
            print_line(
                f"Successfully started moving log directory to {pending.pop(replica)} for replica "
                f"{replica.topic_partition} with broker {replica.broker_id} "
            )
        if not pending:
            return
        if runtime.now().mono_ms >= deadline_ms:
            plural = "" if len(pending) == 1 else "s"
            waiting = ",".join(map(str, sorted(pending)))
            raise TerseFailure(f"Timed out before log directory move{plural} could be started for: {waiting}")
        await runtime.sleep(ATTEMPT_EVERY_MS)


async def _begin(client: AdminClient, targets: Directories) -> list[TopicPartitionReplica]:
    """Start the moves of all replicas that exist on their brokers. Return these replicas, sorted."""
    begun = []
    for broker_id, partitions in _by_broker(targets).items():
        errors = await alter_replica_log_dirs(client, await _broker(client, broker_id), partitions)
        for partition in partitions:
            replica = TopicPartitionReplica(broker_id, partition)
            error = errors.get(partition, ErrorCode.unknown_server_error)
            if error is ErrorCode.none:
                begun.append(replica)
            elif error is not ErrorCode.replica_not_available:
                raise CommandFailed(f"Failed to alter dir for {replica}\nCaused by: {error.name.upper()}")
    return begun
