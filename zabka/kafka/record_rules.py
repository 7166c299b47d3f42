"""Checks each record that producers send against the config of its topic (LogValidator.validateRecord)."""

from __future__ import annotations

from typing import NamedTuple

from zabka.kafka.compression import Codec
from zabka.kafka.record_refusals import INVALID_TIMESTAMP, RecordErrors

NO_TIMESTAMP = -1
FOREVER_MS = 2**63 - 1


class TopicRules(NamedTuple):
    """The config values of a topic that affect its records."""

    compacts: bool = False
    """True if cleanup.policy contains compact, so that every record must have a key."""
    stamps: bool = False
    """True if message.timestamp.type is LogAppendTime."""
    before_max_ms: int = FOREVER_MS
    """message.timestamp.before.max.ms."""
    after_max_ms: int = FOREVER_MS
    """message.timestamp.after.max.ms."""
    codec: Codec | None = None
    """Codec in compression.type; None for `producer`, with which batches keep their codec."""
    level: int | None = None
    """Level in compression.CODEC.level; None for the codec's default level."""
    max_message_bytes: int = 1_048_588
    """max.message.bytes."""

    @property
    def asks_nothing(self) -> bool:
        """Whether valid uncompressed batches are appended unchanged."""
        is_timeless = self.before_max_ms == self.after_max_ms == FOREVER_MS
        return is_timeless and not self.compacts and not self.stamps and not self.codec


class Append(NamedTuple):
    """Parameters of one append: the topic's rules, the partition, and the current time."""

    rules: TopicRules
    topic_partition: object
    """Partition as it appears in error messages, such as orders-0."""
    now_ms: int

    @property
    def checks_times(self) -> bool:
        """Whether the topic's config rejects records with a timestamp that is too old or too new."""
        rules = self.rules
        return not rules.stamps and (rules.before_max_ms != FOREVER_MS or rules.after_max_ms != FOREVER_MS)

    def check_record(
        self, errors: RecordErrors, index: int, offset: int, timestamp_ms: int, has_key: bool, stamped_as: str | None
    ) -> None:
        """If a record is invalid, add an error to `errors`.

        `stamped_as` is Kafka's error message for a record in a batch with the attribute LogAppendTime, which only
        brokers may set; None if the batch does not have that attribute.
        """
        rules = self.rules
        if rules.compacts and not has_key:
            where = f"in topic partition {self.topic_partition}"
            errors.note(index, f"Compacted topic cannot accept message without key {where}")
        elif not rules.stamps and timestamp_ms != NO_TIMESTAMP:
            age_ms = self.now_ms - timestamp_ms
            if age_ms > rules.before_max_ms or -age_ms > rules.after_max_ms:
                oldest, newest = as_long(self.now_ms - rules.before_max_ms), as_long(self.now_ms + rules.after_max_ms)
                text = f"Timestamp {timestamp_ms} of message with offset {offset} is out of range. "
                text += f"The timestamp should be within [{oldest}, {newest}]"
                errors.note(index, text, INVALID_TIMESTAMP)
        elif stamped_as is not None:
            text = f"Invalid timestamp type in message {stamped_as}. "
            text += "Producer should not set timestamp type to LogAppendTime."
            errors.note(index, text, INVALID_TIMESTAMP)


def as_long(number: int) -> int:
    """Convert an integer as Java does when a 64-bit long overflows."""
    return (number + 2**63) % 2**64 - 2**63
