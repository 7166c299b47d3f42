"""Messages between processes: content, sender, receiver, and times.

They are stored in `<run>.messages.jsonl` next to a journal and never in the journal itself, so a history is the same
with and without recorded messages.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

CLASSES = (
    "election", "discovery", "synchronisation", "broadcast", "session", "client", "controller", "replication", "fetch",
    "data", "group", "admin", "ping",
)  # fmt: skip
"""Every class of messages, in the order in which the dashboard lists them."""
ANSWER = " answer"
"""Suffix of a response's kind, as in `LeaderAndIsr answer`."""
LISTED_MAX = 8
"""Maximum number of partitions, paths or operations that a message lists.

If there are more, the message contains their number.
"""

Subject = dict[str, Any]


class Content(NamedTuple):
    """Content of a message: its class, its kind (the protocol's name for it), and its subject."""

    group: str
    kind: str
    subject: Subject


class Message(msgspec.Struct, rename={"source": "from", "target": "to", "group": "class"}):
    """One message. Times are microseconds of the run's clock.

    `arrived_us` is when the receiver's process received the message. It is None if the message never arrived; `lost` is
    then the reason, if known. For a response, `answers` is the id of the request.
    """

    id: int
    sent_us: int
    arrived_us: int | None
    source: str
    target: str
    group: str
    kind: str
    subject: Subject
    bytes: int | None = None
    answers: int | None = None
    lost: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Message)


def message_line(message: Message) -> bytes:
    """Encode a message as a line of a file, with the newline."""
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        return message_line(msgspec.structs.replace(message, subject=in_utf8(message.subject)))


def in_utf8(subject: Subject) -> Subject:
    """Return the subject with "?" for each lone surrogate, as Java's `String.getBytes` encodes it.

    A client can send a lone surrogate in a path, and UTF-8 cannot encode it.
    """
    encoded: Subject = json.loads(json.dumps(subject, ensure_ascii=False).encode(errors="replace"))
    return encoded


def read_message(line: bytes) -> Message:
    """Decode the message in a line. Raises msgspec.MsgspecError if the line is not a message."""
    return _decoder.decode(line)


def listed(names: list[str]) -> Subject:
    """Return the first LISTED_MAX names, and the total number of names if there are more."""
    found: Subject = {"names": names[:LISTED_MAX]}
    if len(names) > LISTED_MAX:
        found["count"] = len(names)
    return found
