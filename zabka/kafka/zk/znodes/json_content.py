"""The format of Kafka's znodes: JSON objects, and the numbers in them.

Decoders return None for invalid data, because znodes are untrusted input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

INT32_MAX = 2**31 - 1
"""Maximum id, partition number or epoch. In messages, they are signed 32-bit numbers."""
INT64_MAX = 2**63 - 1
PORT_MAX = 65_535
TEXT_BYTES_MAX = 32_767
"""Maximum length of a string in a request. The receiver could not decode a request with a longer string."""
ZNODE_BYTES_MAX = 1_000_000
"""Maximum size of a znode.

If a request is larger than jute.maxbuffer, ZooKeeper closes the connection, and the client would send the request again
and again.
"""


def encode(value: Mapping[str, object]) -> bytes:
    """Encode a JSON object as Kafka does: no spaces, fields in the given order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes | None) -> dict[str, Any] | None:
    """Decode the JSON object in a znode.

    Return None if the data is not a JSON object, or if it contains a string that is too long for a message.
    """
    try:
        text = (data or b"").decode("utf-8-sig")
        value = json.loads(text) if text else None
        if "\\ud" in text.lower():
            # A lone surrogate has no UTF-8 encoding, so the string could neither be sent to a broker nor be written
            # again.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_int32(value: object, lowest: int, highest: int = INT32_MAX) -> bool:
    """Return whether the value is an integer within these bounds (inclusive)."""
    return _is_int(value) and isinstance(value, int) and lowest <= value <= highest


def is_tellable(text: str) -> bool:
    """Return whether the string is short enough to be sent in a request."""
    return len(text.encode()) <= TEXT_BYTES_MAX


def broker_ids(value: object) -> tuple[int, ...] | None:
    """Decode a list of broker ids; None if the value is not valid."""
    if not isinstance(value, list) or not all(is_int32(each, 0) for each in value):
        return None
    return tuple(value)


def plain_number(text: str, highest: int) -> int | None:
    """Parse a number of plain decimal digits, at most `highest`; None if the text is not valid."""
    if not text.isdecimal() or not text.isascii() or len(text) > len(str(highest)):
        return None
    return int(text) if int(text) <= highest else None
