"""Kafka's small text files: offset checkpoints, leader-epoch-checkpoint, partition.metadata, and shutdown markers.

A checkpoint file (Kafka's CheckpointFile) has a version, a count, and that many lines. A file with any other content
counts as missing, because its data can be obtained again from the log or from the leader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from zabka.broker_sim.ports import LogDirectory
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import UNKNOWN_BROKER_EPOCH
from zabka.kafka.topic_ids import is_topic_id

REPLICATION_OFFSETS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
ALIVE = ".zabka_alive"

_VERSION = "0"


def _format(rows: Sequence[str]) -> str:
    return "\n".join([_VERSION, str(len(rows)), *rows]) + "\n"


def _rows(text: str | None, width: int) -> list[list[str]] | None:
    """Return the lines of a checkpoint, split into `width` fields, or None if the file is damaged or missing."""
    lines = text.split("\n") if text else []
    if len(lines) < 2 or lines[0].strip() != _VERSION or not lines[1].strip().isdigit():
        return None
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != int(lines[1]) or any(len(row) != width for row in rows):
        return None
    return rows


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit() and text.isascii()


def clean_shutdown(broker_epoch: int) -> str:
    """Return the content of the clean shutdown marker (CleanShutdownFileHandler).

    `broker_epoch` identifies the broker's last registration, -1 if it had none.
    """
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))


def broker_epoch_of(mark: str | None) -> int:
    """Return the broker epoch in a clean shutdown marker, or -1 if there is no marker or no epoch in it."""
    try:
        found = json.loads(mark or "")
    except ValueError:
        return UNKNOWN_BROKER_EPOCH
    epoch = found.get("brokerEpoch") if isinstance(found, dict) else None
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else UNKNOWN_BROKER_EPOCH


def alive(broker_epoch: int, boot_id: str) -> str:
    """Return the content of the marker which states that the running process has all its records.

    It contains the broker epoch and the boot id. If the process is killed during the same boot, no record is lost,
    because the operating system has everything that the process wrote. In KIP-966, only a clean shutdown shows that a
    broker has all its records.
    """
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch, "bootId": boot_id}, separators=(",", ":"))


def broker_epoch_alive(mark: str | None, boot_id: str) -> int:
    """Return the broker epoch in the marker written by `alive`, or -1 if the system has rebooted since then."""
    known = boot_id and mark and broker_epoch_of(mark) >= 0 and mark == alive(broker_epoch_of(mark), boot_id)
    return broker_epoch_of(mark) if known else UNKNOWN_BROKER_EPOCH


def read_offsets(directory: LogDirectory, file: str) -> dict[TopicPartition, int]:
    """Return the offsets in a checkpoint file, keyed by partition; empty if the file is missing or damaged."""
    rows = _rows(directory.read_text("", file), 3) or []
    if not all(_is_number(partition) and _is_number(offset) for _, partition, offset in rows):
        return {}
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def write_offsets(directory: LogDirectory, file: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file with these offsets."""
    rows = [f"{tp.topic} {tp.partition} {offsets[tp]}" for tp in sorted(offsets)]
    directory.write_text("", file, _format(rows))


def read_leader_epochs(directory: LogDirectory, name: str) -> list[tuple[int, int]] | None:
    """Return a replica's (epoch, start offset) entries, or None if the file is missing or damaged."""
    rows = _rows(directory.read_text(name, LEADER_EPOCHS), 2)
    if rows is None or not all(_is_number(word) for row in rows for word in row):
        return None
    return [(int(epoch), int(offset)) for epoch, offset in rows]


def write_leader_epochs(directory: LogDirectory, name: str, entries: Sequence[tuple[int, int]]) -> None:
    """Replace a replica's leader epoch checkpoint.

    The file is synced a little later. Kafka waits for the sync, but a new leader of a thousand partitions would then
    block for seconds. If a power loss removes entries, they are restored from the batches when the log is opened.
    """
    directory.exchange_text(name, LEADER_EPOCHS, _format([f"{epoch} {offset}" for epoch, offset in entries]))


def read_topic_id(directory: LogDirectory, name: str) -> str | None:
    """Return the topic id in a replica's partition.metadata, or None if the file is missing or damaged."""
    for line in (directory.read_text(name, PARTITION_METADATA) or "").split("\n"):
        key, _, value = line.partition(":")
        if key.strip() == "topic_id":
            return value.strip() if is_topic_id(value.strip()) else None
    return None


def _partition_metadata(topic_id: str) -> str:
    return f"version: 0\ntopic_id: {topic_id}"


def write_topic_id(directory: LogDirectory, name: str, topic_id: str) -> None:
    """Write partition.metadata, with the id as Kafka prints it: 22 characters of base64url."""
    directory.write_text(name, PARTITION_METADATA, _partition_metadata(topic_id))


def exchange_topic_id(directory: LogDirectory, name: str, topic_id: str) -> None:
    """Write partition.metadata and sync it later. A power loss before the sync may remove the file."""
    directory.exchange_text(name, PARTITION_METADATA, _partition_metadata(topic_id))
