"""partition.metadata of one replica, on the disk before its log can be (Kafka's PartitionMetadataFile)."""

from __future__ import annotations

from zabka.broker_sim.logs import checkpoints
from zabka.broker_sim.ports import LogDirectory


class PartitionMetadataFile:
    """Whether a power loss might take what was recorded, and a way to see to it that it does not.

    As in Kafka (KAFKA-13092) the log flushes it before anything is appended and before it is renamed or closed;
    usually somebody has synced it by then beside everything else.
    """

    __slots__ = ("_directory", "_dirty")

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._dirty: str | None = None
        """The id that may not be on the disk yet."""

    @property
    def is_dirty(self) -> bool:
        """Might a power loss take it?"""
        return self._dirty is not None

    def record(self, name: str, topic_id: str) -> None:
        """Write the id into that replica directory, as Kafka prints it; a killed process leaves it there."""
        checkpoints.exchange_topic_id(self._directory, name, topic_id)
        self._dirty = topic_id

    def synced(self) -> None:
        """It is on the disk."""
        self._dirty = None

    def maybe_flush(self, name: str) -> None:
        """Bring it to the disk, where it may not be."""
        if self._dirty is not None:
            checkpoints.write_topic_id(self._directory, name, self._dirty)
            self._dirty = None
