"""What the simulated links between peers carry: typed messages as they are, or ZooKeeper's bytes.

In wire mode every message goes through its codec and back, in pieces of odd sizes, so that the bytes of the real
processes are searched by the same seeds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from zabka.ensemble.jute import Reader, Record
from zabka.ensemble.records import (
    NOTIFICATION_XID,
    RESPONSE_BODIES,
    ClientMessage,
    ConnectRequest,
    ConnectResponse,
    Frames,
    GetDataResponse,
    MultiResponse,
    OpCode,
    Reply,
    Request,
    ServerMessage,
    WatcherEvent,
)
from zabka.ensemble.server.net.election_wire import FrameReader, decode_notification, encode_notification
from zabka.ensemble.server.net.quorum_wire import QuorumCodec
from zabka.ensemble.zab.messages import Notification, Packet, Proposal, Snap
from zabka.simulation.kernel.draws import draw_below

_RESPONSE_BODIES: dict[int, type[Record] | type[MultiResponse]] = {
    **RESPONSE_BODIES,
    OpCode.RECONFIG: GetDataResponse,
}


class LinkWire(Protocol):
    """One end of a quorum link."""

    def send(self, packets: Sequence[Packet], send: Callable[[Any], None]) -> None:
        """Turn packets into what travels, and send it: what a turn says together may still arrive in parts."""
        ...

    def receive(self, item: Any) -> list[Packet]:
        """The packets that what arrived completes."""
        ...


class ClientWire(Protocol):
    """A server's end of a client's connection."""

    def request(self, message: ClientMessage) -> ClientMessage:
        """What the server gets of what the client sent."""
        ...

    def replies(self, message: ServerMessage) -> list[ServerMessage]:
        """What the client gets of what the server sent."""
        ...


class Wire(Protocol):
    """How peers' messages travel."""

    def link(self, *, learner: bool) -> LinkWire: ...
    def client(self) -> ClientWire: ...
    def notification(self, notification: Notification) -> Notification: ...


def one_by_one(packets: Sequence[Packet]) -> list[Packet]:
    """The packets of a link as they are on the wire: one a proposed transaction."""
    out: list[Packet] = []
    for packet in packets:
        if isinstance(packet, Proposal):
            out += [packet] if len(packet.txns) == 1 else [Proposal((txn,)) for txn in packet.txns]
        else:
            out.append(packet)
    return out


class TypedWire:
    """The fast way: objects travel as they are, torn between two of them now and then."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def link(self, *, learner: bool) -> LinkWire:
        """An end of a link, the same for learner and leader: objects pass as they are."""
        return _TypedLink(self._random)

    def client(self) -> ClientWire:
        """Unchanged."""
        return _TypedClient()

    def notification(self, notification: Notification) -> Notification:
        """Unchanged."""
        return notification


class _TypedLink:
    __slots__ = ("_random",)

    def __init__(self, random: Random) -> None:
        self._random = random

    def send(self, packets: Sequence[Packet], send: Callable[[Any], None]) -> None:
        singles = one_by_one(packets)
        cut = draw_below(self._random, len(singles) + 1)
        if len(singles) == 1:
            send(singles)
            return
        for piece in (singles[:cut], singles[cut:]):
            if piece:
                send(_joined(piece))

    def receive(self, item: Any) -> list[Packet]:
        packets: list[Packet] = item
        return packets


class _TypedClient:
    def request(self, message: ClientMessage) -> ClientMessage:
        return message

    def replies(self, message: ServerMessage) -> list[ServerMessage]:
        return [message]


def _joined(packets: list[Packet]) -> list[Packet]:
    """As a connection reads them: proposals that come one after the other are one."""
    out: list[Packet] = []
    for packet in packets:
        if isinstance(packet, Proposal) and out and isinstance(before := out[-1], Proposal):
            out[-1] = Proposal((*before.txns, *packet.txns))
        else:
            out.append(packet)
    return out


class EncodedWire:
    """Wire mode: ZooKeeper's bytes, torn into pieces as TCP may tear them."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def link(self, *, learner: bool) -> LinkWire:
        """A codec for that end."""
        return _EncodedLink(QuorumCodec(learner=learner), self._random)

    def client(self) -> ClientWire:
        """The client port's bytes, each way."""
        return _EncodedClient()

    def notification(self, notification: Notification) -> Notification:
        """Through the election port's bytes and back."""
        (body,) = FrameReader().feed(encode_notification(notification))
        return decode_notification(body)


class _EncodedLink:
    __slots__ = ("_codec", "_random")

    def __init__(self, codec: QuorumCodec, random: Random) -> None:
        self._codec = codec
        self._random = random

    def send(self, packets: Sequence[Packet], send: Callable[[Any], None]) -> None:
        data = b""
        for packet in packets:
            data += self._codec.encode(packet)
            if isinstance(packet, Snap):
                data += b"".join(self._codec.encode_stream(packet))
        cut = draw_below(self._random, len(data) + 1)
        for piece in (data[:cut], data[cut:]):
            if piece:
                send(piece)

    def receive(self, item: Any) -> list[Packet]:
        return self._codec.feed(item)


class _EncodedClient:
    """Requests reach the server as bytes; its replies are read as a client reads them, by the ops that were asked."""

    __slots__ = ("_ops",)

    def __init__(self) -> None:
        self._ops: deque[int] = deque()

    def request(self, message: ClientMessage) -> ClientMessage:
        if isinstance(message, ConnectRequest):
            return ConnectRequest.decode(message.encode())
        assert isinstance(message, Request), "a client sends one request after the other"
        if message.xid > 0:
            self._ops.append(message.op)
        return Frames([message.encode()])

    def replies(self, message: ServerMessage) -> list[ServerMessage]:
        if isinstance(message, ConnectResponse):
            return [message]
        if isinstance(message, Reply):
            return [self._reply(Reader(message.encode()))]
        replies: list[ServerMessage] = []
        reader = Reader(message)
        while reader.left:
            frame = reader.read_buffer()
            assert frame is not None, "a reply has a length"
            replies.append(self._reply(Reader(frame)))
        return replies

    def _reply(self, reader: Reader) -> Reply:
        reply = Reply(reader.read_int(), reader.read_long(), reader.read_int())
        kind: type[Record] | type[MultiResponse] | None = None
        if reply.xid == NOTIFICATION_XID:
            kind = WatcherEvent
        elif reply.xid > 0:
            kind = _RESPONSE_BODIES.get(self._ops.popleft())
        if kind is not None and not reply.err:
            reply.body = kind.read_from(reader)
        return reply
