"""Checks that a broker's state of idempotent producers matches the batches in the log.

After a truncation, a restart or a leader change, the state must contain the last batch of each producer in the log. If
it contained an older batch, a retried batch that was acknowledged would be appended again. If it contained a newer
batch, a new batch would be rejected.
"""

from __future__ import annotations

from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import is_control, read_header
from zabka.simulation.checkers.audited_broker import AuditedBroker, log_bytes

NAME = "producer states equal the log"
NO_SEQUENCE = -1


def producers_in(data: bytes) -> dict[int, tuple[int, int]]:
    """Return the producer epoch and the last sequence number of each producer in a log."""
    found: dict[int, tuple[int, int]] = {}
    at = 0
    while (header := read_header(data, at)) is not None:
        epoch, sequence = found.get(header.producer_id, (-1, NO_SEQUENCE))
        if is_control(header):
            # A marker has no sequence number. If it begins a new producer epoch, the producer has no sequence number
            # yet.
            sequence = sequence if epoch == header.producer_epoch else NO_SEQUENCE
            found[header.producer_id] = header.producer_epoch, sequence
        elif header.producer_id >= 0:
            found[header.producer_id] = header.producer_epoch, header.base_sequence + header.last_offset_delta
        at += header.size
    return found


def differing_producers(machine: AuditedBroker, name: TopicPartition) -> str | None:
    """Return how a running broker's state of a partition's producers differs from the log, or None if it does not."""
    running = machine.broker
    replica = None if running is None else running.replicas.partitions.get(name)
    if replica is None:
        return None
    known = {each.producer_id: (each.epoch, each.last_sequence) for each in replica.log.producers.active()}
    stored = producers_in(log_bytes(machine, str(name)))
    return None if known == stored else f"{machine.name} knows producers {known} of {name}, its log has {stored}"
