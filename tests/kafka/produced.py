"""Functions that validate produced records in one call, for tests."""

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
    """Run a generator to its end without pausing between its steps, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            result: T = ended.value
            return result


def validated(data: Data, rules: TopicRules | None = None, now_ms: int = 0) -> Validated:
    """Validate these records. Return the batches to append, or raise RecordsRefused."""
    return whole(validate(data, Append(rules or TopicRules(), "orders-0", now_ms)))


def error_of(data: Data, rules: TopicRules | None = None, now_ms: int = 0) -> int:
    """Validate these records. Return Kafka's error code, or 0 if they are valid."""
    try:
        validated(data, rules, now_ms)
    except RecordsRefused as refused:
        return refused.error
    return 0


def headers_of(data: bytes) -> list[BatchHeader]:
    """Return the headers of the batches, which must be valid."""
    headers = split_batches(data)
    assert headers
    return headers
