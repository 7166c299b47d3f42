"""Approximate sizes of requests and responses, for byte quotas."""

from __future__ import annotations

from zabka.kafka.ports import KafkaMessage

HEAD_BYTES, TOPIC_BYTES, ROW_BYTES = 24, 20, 40
"""Approximate sizes, in bytes, of a message's header, of a topic, and of a partition's entry without its records.
Quotas count whole messages.
"""


def produce_size(request: KafkaMessage, client_id: str) -> int:
    """Return the approximate size of a Produce request in bytes: exact for the records, estimated for the rest."""
    size = HEAD_BYTES + len(client_id)
    for topic in request.topic_data:
        size += TOPIC_BYTES + len(topic.name)
        size += sum(ROW_BYTES // 4 + len(row.records or b"") for row in topic.partition_data)
    return size
