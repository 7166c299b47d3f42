"""Topic ids: 128-bit numbers, written as 22 characters of base64url (org.apache.kafka.common.Uuid).

The controller stores a topic id as such a string. Requests contain the UUID type of `kio.schema`.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from kio.static.constants import uuid_zero

from zabka.ensemble.ports import Random

_KafkaUuid = type(uuid_zero)


def random_topic_id(random: Random) -> str:
    """Return a random UUID (version 4) that is not reserved and does not begin with a dash (Uuid.randomUuid)."""
    while True:
        bits = random.getrandbits(128)
        bits = (bits & ~(0xF << 76)) | (0x4 << 76)
        bits = (bits & ~(0x3 << 62)) | (0x2 << 62)
        text = _text(bits.to_bytes(16, "big"))
        if not text.startswith("-"):
            return text


def topic_id_to_kafka(topic_id: str | None) -> Any:
    """Convert a topic id to the UUID type of `kio.schema`; None stays None."""
    if topic_id is None:
        return None
    try:
        return _KafkaUuid(bytes=urlsafe_b64decode(topic_id + "=="))
    except ValueError:
        return None


def topic_id_from_kafka(value: Any) -> str | None:
    """Convert a topic id in a request to a string. Return None for null and for the zero id."""
    return None if value is None or value == uuid_zero else _text(value.bytes)


def is_topic_id(text: object) -> bool:
    """Return whether the string is a topic id."""
    return isinstance(text, str) and len(text) == 22 and topic_id_to_kafka(text) is not None


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")
