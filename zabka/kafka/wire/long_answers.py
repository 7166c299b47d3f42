"""Answers of many rows, made bytes of a slice at a time so that others are served in between.

kio takes two milliseconds for everything that is configured of one broker, and a request may ask for a thousand
resources.  Wherever an answer ends with its rows, these are written one by one.  A shell, because kio.serial does the
bytes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from io import BytesIO

from kio.serial import entity_writer

from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import last_rows
from zabka.kafka.wire.primitives import EMPTY_TAGS, length

SHORT_ROWS = 16
"""So many rows at most are written at once."""
SLICE_BYTES = 8_192
"""A millisecond."""


def is_long(answer: KafkaMessage) -> bool:
    """Does this answer, which kio writes, end with many rows?"""
    last = last_rows(type(answer))
    rows = None if last is None else getattr(answer, last.field)
    return rows is not None and len(rows) > SHORT_ROWS


def body_in_slices(answer: KafkaMessage) -> Generator[None, None, bytes]:
    """The body of an answer that is long, as kio writes it; gives the turn away after every slice."""
    last = last_rows(type(answer))
    assert last is not None
    rows = getattr(answer, last.field)
    body = BytesIO()
    entity_writer(type(answer))(body, replace(answer, **{last.field: ()}))
    tags = EMPTY_TAGS if answer.__flexible__ else b""
    body.seek(-len(length(0, answer.__flexible__) + tags), 2)
    body.write(length(len(rows), answer.__flexible__))
    write, turn_at = entity_writer(last.schema), body.tell() + SLICE_BYTES
    for row in rows:
        write(body, row)
        if body.tell() >= turn_at:
            turn_at = body.tell() + SLICE_BYTES
            yield
    body.write(tags)
    return body.getvalue()
