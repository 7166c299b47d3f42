"""What the simulated links between peers carry: typed messages as they are, or ZooKeeper's bytes.

In wire mode every message goes through its codec and back, in pieces of odd sizes, so that the bytes of the real
processes are searched by the same seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from ensemble.server.election_wire import FrameReader, decode_notification, encode_notification
from ensemble.server.quorum_wire import QuorumCodec
from ensemble.zab.messages import Notification, Packet, Snap


class LinkWire(Protocol):
    """One end of a quorum link."""

    def send(self, packet: Packet, send: Callable[[Any], None]) -> None:
        """Turn a packet into what travels, and send it."""
        ...

    def receive(self, item: Any) -> list[Packet]:
        """The packets that what arrived completes."""
        ...


class Wire(Protocol):
    """How peers' messages travel."""

    def link(self, *, learner: bool) -> LinkWire: ...
    def notification(self, notification: Notification) -> Notification: ...


class TypedWire:
    """The fast way: objects travel as they are."""

    def link(self, *, learner: bool) -> LinkWire:
        """The same for both ends."""
        return _TypedLink()

    def notification(self, notification: Notification) -> Notification:
        """Unchanged."""
        return notification


class _TypedLink:
    __slots__ = ()

    def send(self, packet: Packet, send: Callable[[Any], None]) -> None:
        send(packet)

    def receive(self, item: Any) -> list[Packet]:
        return [item]


class EncodedWire:
    """Wire mode: ZooKeeper's bytes, torn into pieces as TCP may tear them."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def link(self, *, learner: bool) -> LinkWire:
        """A codec for that end."""
        return _EncodedLink(QuorumCodec(learner=learner, config=b""), self._random)

    def notification(self, notification: Notification) -> Notification:
        """Through the election port's bytes and back."""
        (body,) = FrameReader().feed(encode_notification(notification, b""))
        return decode_notification(body)


class _EncodedLink:
    __slots__ = ("_codec", "_random")

    def __init__(self, codec: QuorumCodec, random: Random) -> None:
        self._codec = codec
        self._random = random

    def send(self, packet: Packet, send: Callable[[Any], None]) -> None:
        data = self._codec.encode(packet)
        if isinstance(packet, Snap):
            data += b"".join(self._codec.encode_stream(packet))
        cut = self._random.randrange(0, len(data) + 1)
        for piece in (data[:cut], data[cut:]):
            if piece:
                send(piece)

    def receive(self, item: Any) -> list[Packet]:
        return self._codec.feed(item)
