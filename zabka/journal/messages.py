"""Messages between processes: what one is about, who sent it to whom, and when it arrived.

They stand in `<run>.messages.jsonl` beside a journal and never in it, so that a history is the same whether somebody
listened or not.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

CLASSES = (
    "election", "discovery", "synchronisation", "broadcast", "session", "client", "controller", "replication", "fetch",
    "data", "group", "admin", "ping",
)  # fmt: skip
"""Every class of messages, in the order in which they are told."""
ANSWER = " answer"
"""Behind the kind of what is answered: `LeaderAndIsr answer`."""
LISTED_MAX = 8
"""So many partitions, paths or operations of one message are named; of more their number is."""

Subject = dict[str, Any]


class Content(NamedTuple):
    """What a message is: its class, its kind in the protocol's own word, and what it is about."""

    group: str
    kind: str
    subject: Subject


class Message(msgspec.Struct, rename={"source": "from", "target": "to", "group": "class"}):
    """One message.  Times are microseconds of the run's clock.  `arrived_us` is when the receiver's process took it:
    None where it never did, and then `lost` says why where that is known.  `answers` is the id of the request."""

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
    """A message as it stands in a file, newline included."""
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        return message_line(msgspec.structs.replace(message, subject=in_utf8(message.subject)))


def in_utf8(subject: Subject) -> Subject:
    """The subject with "?" for each half of a surrogate pair that stands alone, as Java's `String.getBytes` has it: a
    client may send one in a path, and UTF-8 has no bytes for it."""
    told: Subject = json.loads(json.dumps(subject, ensure_ascii=False).encode(errors="replace"))
    return told


def read_message(line: bytes) -> Message:
    """The message of a line.  Raises msgspec.MsgspecError where it holds none."""
    return _decoder.decode(line)


def listed(names: list[str]) -> Subject:
    """The first of these names, and how many there are where that is more."""
    found: Subject = {"names": names[:LISTED_MAX]}
    if len(names) > LISTED_MAX:
        found["count"] = len(names)
    return found
