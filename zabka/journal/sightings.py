"""Log lines about the messages of real processes, and how the lines of both ends are joined into one message.

Each end of a connection logs the messages that it sent and received; such a line is a sighting. Both ends use the same
name for the connection and the same key for the message (the protocol's own number, or kind and position), so the
sender's and the receiver's lines can be matched exactly. The clocks of different hosts may differ: see `Skews`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Literal

import msgspec

from zabka.journal.messages import Message, Subject, in_utf8

DELAY_US_MAX = 15 * 60 * 1_000_000
"""If the times of two lines differ by more than this, they are about different messages."""
OPENED_US_MAX = 60 * 1_000_000
"""Maximum time between the openings of a connection at its two ends, including clock differences.

A minute after a connection was closed (TIME-WAIT), a new connection may have the same addresses and the same message
keys.
"""
CLOCKS_US_MAX = 10 * 1_000_000
"""Maximum difference between the clocks of two hosts. A larger difference is not corrected."""
SKEW_WINDOW_US = 60 * 1_000_000
SKEW_WINDOWS_MAX = 4_096
"""Maximum number of time windows stored per pair of hosts.

Clocks drift and are adjusted, so a measured difference is used only for messages in its own window and the next ones.
"""
PAIRS_MAX = 200_000
OPEN_MAX = 50_000
"""Maximum number of stored messages, and of lines that wait for the matching line of the other end.

Above this number, the oldest are dropped.
"""
LINES_MAX = 50_000
"""Maximum number of connections whose ends are stored. Each client has its own connection."""
UNSEEN = "its receiver wrote down no such message"
UNSENT = "its sender wrote down no such message"
OUT_OF_SIGHT = "its other end is outside the cluster and has no journal"
CLAMPED = "the clocks of its ends differ by more than it took"
OUTSIDE = "client"
"""Name of the other end of a connection if it is not a node of the cluster."""


class Sighting(msgspec.Struct, rename={"group": "class", "other": "with"}, omit_defaults=True):
    """A line of a node's message file: a message that the node sent or received, at the time of its wall clock.

    `line` is the name of the connection and `key` the key of the message on it. `opened` is when this end opened the
    connection (0: unknown), and `missed` is the number of messages before this one that were not logged.
    """

    n: int
    node: str
    us: int
    way: Literal["sent", "received"]
    line: str
    key: str
    group: str
    kind: str
    subject: Subject
    bytes: int | None = None
    other: str | None = None
    missed: int = 0
    opened: int = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Sighting)


def sighting_line(sighting: Sighting) -> bytes:
    """Encode a sighting as a line of a file, with the newline."""
    try:
        return _encoder.encode(sighting) + b"\n"
    except UnicodeEncodeError:
        return sighting_line(msgspec.structs.replace(sighting, subject=in_utf8(sighting.subject)))


def read_sighting(line: bytes) -> Sighting:
    """Decode the sighting in a line. Raises msgspec.MsgspecError if the line is not a sighting."""
    return _decoder.decode(line)


class Skews:
    """Differences between the clocks of hosts, estimated from the messages between the hosts.

    For two hosts, the fastest message in each direction gives a bound. If one host's clock is ahead, the measured time
    is longer in one direction and shorter in the other. Half the difference of the two measured times is the best
    estimate (as in NTP), with an error of at most half their sum. If there are messages in one direction only, no
    difference is estimated.
    """

    def __init__(self, hosts: dict[str, str]) -> None:
        self._hosts = hosts
        self._quickest: dict[tuple[str, str], dict[int, int]] = {}
        """Shortest measured time of a message in each time window, by pair of hosts."""

    def see(self, sent: Sighting, received: Sighting) -> None:
        """Update the estimate with a message that both ends have logged."""
        pair = (self._host(sent.node), self._host(received.node))
        if pair[0] == pair[1]:
            return
        windows = self._quickest.setdefault(pair, {})
        window, took_us = sent.us // SKEW_WINDOW_US, received.us - sent.us
        windows[window] = min(windows.get(window, took_us), took_us)
        if len(windows) > SKEW_WINDOWS_MAX:
            del windows[min(windows)]

    def _host(self, node: str) -> str:
        return self._hosts.get(node, "")

    def _quickest_around(self, pair: tuple[str, str], at_us: int) -> int | None:
        windows, window = self._quickest.get(pair, {}), at_us // SKEW_WINDOW_US
        around = (windows.get(each) for each in (window - 1, window, window + 1))
        return min((took_us for took_us in around if took_us is not None), default=None)

    def ahead_us(self, sender: str, receiver: str, at_us: int) -> int:
        """Return by how much the receiver's clock is ahead of the sender's clock at that time."""
        pair = (self._host(sender), self._host(receiver))
        if pair[0] == pair[1]:
            return 0
        there, back = self._quickest_around(pair, at_us), self._quickest_around((pair[1], pair[0]), at_us)
        return 0 if there is None or back is None else (there - back) // 2


class Matcher:
    """Joins the sightings of both ends into messages. `hosts` maps each node to its host."""

    def __init__(self, hosts: dict[str, str]) -> None:
        self._skews = Skews(hosts)
        self._open: dict[tuple[str, str, str], deque[Sighting]] = defaultdict(deque)
        """Sightings of messages that still lack their match from the other end of the connection.

        They are keyed by connection, message key and direction. Several sightings can have the same key: a client may
        use one key for all of its requests, and clients log no sightings that could match them.
        """
        self._waiting = 0
        """Total number of sightings in `_open`."""
        self._pairs: list[tuple[Sighting, Sighting]] = []
        self._ends: dict[str, dict[str, None]] = {}
        self._others: dict[tuple[str, str], str] = {}

    def add(self, sightings: Iterable[Sighting]) -> None:
        """Add lines of one or several nodes. The lines of each node must be in order."""
        for sighting in sightings:
            # Move the connection to the end, so that connections without recent messages are dropped first.
            self._ends[sighting.line] = ends = self._ends.pop(sighting.line, {})
            ends[sighting.node] = None
            if sighting.other is not None:
                self._others[sighting.line, sighting.node] = sighting.other
            partner = self._partner(sighting)
            if partner is None:
                self._open[sighting.line, sighting.key, sighting.way].append(sighting)
                self._waiting += 1
                continue
            sent, received = (partner, sighting) if partner.way == "sent" else (sighting, partner)
            self._pairs.append((sent, received))
            self._skews.see(sent, received)
        if len(self._pairs) > PAIRS_MAX:
            del self._pairs[: PAIRS_MAX // 4]
        while self._waiting > OPEN_MAX:
            self._take_out(next(iter(self._open)), 0)
        while len(self._ends) > LINES_MAX:
            line = next(iter(self._ends))
            for node in self._ends.pop(line):
                self._others.pop((line, node), None)

    def _partner(self, sighting: Sighting) -> Sighting | None:
        """Remove and return the other end's sighting of the same message, if it is waiting."""
        name = (sighting.line, sighting.key, "received" if sighting.way == "sent" else "sent")
        for place, each in enumerate(self._open.get(name, ())):
            if _belong_together(each, sighting):
                return self._take_out(name, place)
        return None

    def _take_out(self, name: tuple[str, str, str], place: int) -> Sighting:
        waiting = self._open[name]
        found = waiting[place]
        del waiting[place]
        self._waiting -= 1
        if not waiting:
            del self._open[name]
        return found

    def messages(self) -> list[Message]:
        """Return every message, ordered by sending time. A message's id is its position in that order."""
        found = [self._message(sent, received) for sent, received in self._pairs]
        found += [self._lone(sighting) for waiting in self._open.values() for sighting in waiting]
        found.sort(key=lambda message: (message.sent_us, message.source, message.target, message.kind))
        for number, message in enumerate(found, start=1):
            message.id = number
        _answer(found)
        return found

    def _message(self, sent: Sighting, received: Sighting) -> Message:
        arrived_us = received.us - self._skews.ahead_us(sent.node, received.node, sent.us)
        clamped = arrived_us < sent.us
        message = _made_of(sent, sent.node, received.node)
        message.arrived_us = max(arrived_us, sent.us)
        message.lost = CLAMPED if clamped else None
        return message

    def _lone(self, sighting: Sighting) -> Message:
        """Return a message that only one end has logged."""
        others = [node for node in self._ends.get(sighting.line, ()) if node != sighting.node]
        other = others[0] if others else self._others.get((sighting.line, sighting.node), OUTSIDE)
        if sighting.way == "sent":
            message = _made_of(sighting, sighting.node, other)
            message.lost = OUT_OF_SIGHT if other == OUTSIDE else UNSEEN
        else:
            message = _made_of(sighting, other, sighting.node)
            message.arrived_us, message.lost = sighting.us, OUT_OF_SIGHT if other == OUTSIDE else UNSENT
        return message


def _belong_together(one: Sighting, other: Sighting) -> bool:
    sent, received = (one, other) if one.way == "sent" else (other, one)
    if sent.node == received.node and sent.other != sent.node and received.other != received.node:
        return False
    if sent.opened and received.opened and abs(received.opened - sent.opened) > OPENED_US_MAX:
        return False
    return -CLOCKS_US_MAX <= received.us - sent.us <= DELAY_US_MAX


def _made_of(sighting: Sighting, source: str, target: str) -> Message:
    return Message(
        id=0,
        sent_us=sighting.us,
        arrived_us=None,
        source=source,
        target=target,
        group=sighting.group,
        kind=sighting.kind,
        subject={**sighting.subject, "on": f"{sighting.line} {sighting.key}"},
        bytes=sighting.bytes,
    )


def _answer(messages: list[Message]) -> None:
    """Link responses to their requests: on a connection, `answer@N` is the response to `request@N`."""
    asked: dict[str, int] = {}
    for message in messages:
        line, _, key = message.subject.pop("on").partition(" ")
        word, _, number = key.partition("@")
        if word == "request":
            asked[f"{line}@{number}"] = message.id
        elif word == "answer":
            message.answers = asked.pop(f"{line}@{number}", None)
