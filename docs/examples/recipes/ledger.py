"""A small consumer that maintains a list of payments, and removes payments that an unclean election has lost.

It reads one partition with kafka-python. After an unclean election, the new leader may lack records that the consumer
has already read. By the leader epochs, the consumer finds the offset from which on the logs differ (KIP-320). What to
do then is the application's decision: this consumer removes the payments that are no longer in the log.
"""

from __future__ import annotations

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import LogTruncationError


class Ledger:
    """The payments in partition 0 of a topic, keyed by offset."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.payments: dict[int, str] = {}
        self.taken_back: list[str] = []
        self._partition = TopicPartition(topic, 0)
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), auto_offset_reset="none", enable_auto_commit=False
        )
        self._consumer.assign([self._partition])
        self._consumer.seek(self._partition, 0)

    def read(self) -> None:
        """Read the records that are available now, and add their payments."""
        try:
            found = self._consumer.poll(timeout_ms=200)
        except LogTruncationError as truncated:
            self._take_back(truncated.divergent_offsets[self._partition].offset)
            return
        for record in found.get(self._partition, []):
            self.payments[record.offset] = record.value.decode()

    def _take_back(self, first: int) -> None:
        for offset in sorted(offset for offset in self.payments if offset >= first):
            self.taken_back.append(self.payments.pop(offset))
        self._consumer.seek(self._partition, first)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
