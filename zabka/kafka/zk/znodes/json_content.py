"""What znodes are written in: JSON objects, and the numbers in them.

Decoders answer None for what nobody should have written: znodes are other people's input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

INT32_MAX = 2**31 - 1
"""Ids, partition numbers and epochs travel as signed 32-bit numbers; what is larger cannot be told to anybody."""
INT64_MAX = 2**63 - 1
PORT_MAX = 65_535
TEXT_BYTES_MAX = 32_767
"""A string in a request is no longer than that; whoever is sent a longer one reads nothing of the request."""
ZNODE_BYTES_MAX = 1_000_000
"""ZooKeeper drops the connection of whoever sends more (jute.maxbuffer), and what is sent again would go on for ever:
so nobody is to write it."""


def encode(value: Mapping[str, object]) -> bytes:
    """JSON as Kafka writes it: no spaces, fields in the given order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes | None) -> dict[str, Any] | None:
    """The JSON object in a znode; None where there is none, or where it holds text that no message can carry."""
    try:
        text = (data or b"").decode("utf-8-sig")
        value = json.loads(text) if text else None
        if "\\ud" in text.lower():
            # Half a surrogate pair has no UTF-8: it could neither be told to a broker nor be written again.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_int32(value: object, lowest: int, highest: int = INT32_MAX) -> bool:
    """Is it a whole number within these bounds, both included?"""
    return _is_int(value) and isinstance(value, int) and lowest <= value <= highest


def is_tellable(text: str) -> bool:
    """Can a request carry that text?"""
    return len(text.encode()) <= TEXT_BYTES_MAX


def broker_ids(value: object) -> tuple[int, ...] | None:
    """A list of broker ids; None where it is none."""
    if not isinstance(value, list) or not all(is_int32(each, 0) for each in value):
        return None
    return tuple(value)


def plain_number(text: str, highest: int) -> int | None:
    """Plain decimal digits, up to that number."""
    if not text.isdecimal() or not text.isascii() or len(text) > len(str(highest)):
        return None
    return int(text) if int(text) <= highest else None
