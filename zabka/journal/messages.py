"""Messages between processes: the content, the sender and receiver, and the times.

They are stored in `<run>.messages.jsonl` next to a journal and never in the journal, so that a history is the same with
and without recording.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

CLASSES = (
    "election", "discovery", "synchronisation", "broadcast", "session", "client", "controller", "replication", "fetch",
    "data", "group", "admin", "ping",
)  # fmt: skip
"""Every class of messages, in the order of display."""
ANSWER = " answer"
"""Suffix for the kind of a response: `LeaderAndIsr answer`."""
LISTED_MAX = 8
"""The number of partitions, paths or operations listed for a message.

If there are more, the message contains their count.
"""

Subject = dict[str, Any]


class Content(NamedTuple):
    """The content of a message: its class, its kind as the protocol calls it, and its subject."""

    group: str
    kind: str
    subject: Subject


class Message(msgspec.Struct, rename={"source": "from", "target": "to", "group": "class"}):
    """One message. Times are microseconds of the run's clock.

    `arrived_us` is when the receiver's process received it: None if it never did, and then `lost` is the reason, if
    known. `answers` is the id of the request.
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
    """Return the subject with "?" for each single surrogate, as Java's `String.getBytes` does.

    A client may send a single surrogate in a path, and UTF-8 cannot encode it.
    """
    encoded: Subject = json.loads(json.dumps(subject, ensure_ascii=False).encode(errors="replace"))
    return encoded


def read_message(line: bytes) -> Message:
    """Decode the message in a line. Raises msgspec.MsgspecError if the line contains none."""
    return _decoder.decode(line)


def listed(names: list[str]) -> Subject:
    """Return the first of these names, and the total number if there are more."""
    found: Subject = {"names": names[:LISTED_MAX]}
    if len(names) > LISTED_MAX:
        found["count"] = len(names)
    return found
