"""The format of znodes: JSON objects, and the numbers in them.

Decoders return None for invalid data, because znodes are untrusted input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

INT32_MAX = 2**31 - 1
"""The maximum id, partition number or epoch: these are signed 32-bit numbers in messages."""
INT64_MAX = 2**63 - 1
PORT_MAX = 65_535
TEXT_BYTES_MAX = 32_767
"""The longest string in a request; the receiver of a longer string could not read the request."""
ZNODE_BYTES_MAX = 1_000_000
"""The maximum size of a znode.

If a request is larger (jute.maxbuffer), ZooKeeper closes the connection, and the client would resend the request
for ever.
"""


def encode(value: Mapping[str, object]) -> bytes:
    """Encode JSON as Kafka does: no spaces, fields in the given order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes | None) -> dict[str, Any] | None:
    """Decode the JSON object in a znode.

    Return None if there is no object, or if it contains a string that is too long for a message.
    """
    try:
        text = (data or b"").decode("utf-8-sig")
        value = json.loads(text) if text else None
        if "\\ud" in text.lower():
            # Half a surrogate pair has no UTF-8 encoding, so it could neither be sent to a broker nor be written again.
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
    """Return whether the string is short enough for a request."""
    return len(text.encode()) <= TEXT_BYTES_MAX


def broker_ids(value: object) -> tuple[int, ...] | None:
    """Decode a list of broker ids; None if it is not valid."""
    if not isinstance(value, list) or not all(is_int32(each, 0) for each in value):
        return None
    return tuple(value)


def plain_number(text: str, highest: int) -> int | None:
    """Parse plain decimal digits, up to `highest`; None if they are not valid."""
    if not text.isdecimal() or not text.isascii() or len(text) > len(str(highest)):
        return None
    return int(text) if int(text) <= highest else None
