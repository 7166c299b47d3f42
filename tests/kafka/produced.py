"""Produced records looked over in one go."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from zabka.kafka.compression import Data
from zabka.kafka.record_batch import BatchHeader, split_batches
from zabka.kafka.record_refusals import RecordsRefused
from zabka.kafka.record_rules import Append, TopicRules
from zabka.kafka.record_validation import Validated, validate

T = TypeVar("T")


def whole(work: Generator[None, None, T]) -> T:
    """What comes of sliced work."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            result: T = ended.value
            return result


def validated(data: Data, rules: TopicRules | None = None, now_ms: int = 0) -> Validated:
    """What is appended of these.  Raises RecordsRefused."""
    return whole(validate(data, Append(rules or TopicRules(), "orders-0", now_ms)))


def error_of(data: Data, rules: TopicRules | None = None, now_ms: int = 0) -> int:
    """Kafka's error for these, 0 where they are appended."""
    try:
        validated(data, rules, now_ms)
    except RecordsRefused as refused:
        return refused.error
    return 0


def headers_of(data: bytes) -> list[BatchHeader]:
    """The headers of batches that are known to be sound."""
    headers = split_batches(data)
    assert headers
    return headers
