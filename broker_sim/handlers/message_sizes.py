"""How large requests and answers are, for quotas: the records exactly, and about what is around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zabka.broker_sim.ports import FetchedPartition
from zabka.broker_sim.request_context import RequestContext
from zabka.kafka.ports import KafkaMessage

_HEAD_BYTES, _TOPIC_BYTES, _ROW_BYTES = 24, 20, 40
"""What a message has around its records, roughly: quotas count whole messages."""


def produce_size(request: KafkaMessage, context: RequestContext) -> int:
    """About how many bytes a Produce request has."""
    size = _HEAD_BYTES + len(context.client_id)
    for topic in request.topic_data:
        size += _TOPIC_BYTES + len(topic.name)
        size += sum(_ROW_BYTES // 4 + len(row.records or b"") for row in topic.partition_data)
    return size


def fetch_size(rows: Mapping[tuple[Any, int], FetchedPartition]) -> int:
    """About how many bytes a Fetch answer has."""
    # A session's answer leaves out those of which there is no news.
    told = {key: _ROW_BYTES + len(row.records) for key, row in rows.items() if row.records or row.error}
    return _HEAD_BYTES + _TOPIC_BYTES * len({topic for topic, _ in told}) + sum(told.values())
