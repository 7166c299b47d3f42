"""A tap on the simulated network: every message that was sent, and when it arrived.

It draws nothing, orders nothing and tells no node anything, so a world with a tap has the history that it has without.
In wire mode it reads the bytes with codecs of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Protocol

from zabka.ensemble.op_names import connect_content, connected_content, reply_content, request_content
from zabka.ensemble.records import ConnectRequest, ConnectResponse, Reply, Request
from zabka.ensemble.server.net.quorum_wire import QuorumCodec
from zabka.ensemble.zab.messages import SyncRequest
from zabka.ensemble.zab.packet_names import notification_content, packet_contents
from zabka.journal.messages import Content, Message, message_line
from zabka.kafka import message_names as kafka
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of
from zabka.simulation.kernel.scheduler import Scheduler
from zabka.simulation.network.addresses import CLIENT_SERVICE, KAFKA_SERVICE, QUORUM_SERVICE, WORD_SERVICE
from zabka.simulation.network.network import CLOSED, End, Endpoint, Network

PROCESS_GONE = "the receiver's process was gone"
CONNECTION_GONE = "the receiver had closed the connection"
CUT = "the link was cut"
UNHEARD = "the receiver was cut off by then, or its process was gone"


Send = Callable[[Content, int | None], Message]
"""Notes that a message leaves: its content, and the id of what it answers."""


class MessageTap:
    """What was sent in one world, in that order."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, now_us: int, source: str, target: str, content: Content, answers: int | None = None) -> Message:
        """A message leaves; it has not arrived yet."""
        message = Message(len(self.messages) + 1, now_us, None, source, target, *content, answers=answers)
        self.messages.append(message)
        return message

    def lines(self) -> Iterator[bytes]:
        """The messages as they stand in a file."""
        return map(message_line, self.messages)


class _Line(Protocol):
    """What the two ends of one connection say to each other."""

    def forth(self, item: Any, send: Send) -> list[Message]:
        """The messages in what the side that has dialled sends."""
        ...

    def back(self, item: Any, send: Send) -> list[Message]:
        """The messages in what the side that listens sends."""
        ...


class _QuorumLine:
    """A learner's connection to its leader."""

    def __init__(self) -> None:
        self._at_leader = QuorumCodec(learner=False)
        self._at_learner = QuorumCodec(learner=True)

    def forth(self, item: Any, send: Send) -> list[Message]:
        if not isinstance(item, bytes):
            return [send(content, None) for packet in item for content in packet_contents(packet)]
        packets = self._at_leader.feed(item)
        for packet in packets:
            if isinstance(packet, SyncRequest):
                # The answer does not say what it answers: the learner's codec has to remember the question.
                self._at_learner.encode(packet)
        return [send(content, None) for packet in packets for content in packet_contents(packet)]

    def back(self, item: Any, send: Send) -> list[Message]:
        packets = self._at_learner.feed(item) if isinstance(item, bytes) else item
        return [send(content, None) for packet in packets for content in packet_contents(packet)]


class _ClientLine:
    """A ZooKeeper client's connection."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[int, int]] = {}
        """By xid: the operation, and the id of the message."""
        self._first: int | None = None

    def forth(self, item: Any, send: Send) -> list[Message]:
        if isinstance(item, ConnectRequest):
            message = send(connect_content(item), None)
            self._first = message.id
            return [message]
        assert isinstance(item, Request), "a client sends one request after the other"
        message = send(request_content(item), None)
        self._asked[item.xid] = (item.op, message.id)
        return [message]

    def back(self, item: Any, send: Send) -> list[Message]:
        if isinstance(item, ConnectResponse):
            return [send(connected_content(item), self._first)]
        assert isinstance(item, Reply), "what was asked in objects is answered in objects"
        op, asked = self._asked.pop(item.xid, (None, None))
        return [send(reply_content(item, op), asked)]


class _KafkaLine:
    """A connection to a broker: answers come in the order of the requests."""

    def __init__(self) -> None:
        self._asked: deque[Message] = deque()

    def forth(self, item: Any, send: Send) -> list[Message]:
        message = send(kafka.request_content(item), None)
        if api_key_of(item) != ApiKey.PRODUCE or item.acks != 0:
            self._asked.append(message)
        return [message]

    def back(self, item: Any, send: Send) -> list[Message]:
        asked = self._asked.popleft()
        return [send(kafka.response_content(item, asked.group), asked.id)]


class _WordLine:
    """A four-letter word and its answer."""

    def forth(self, item: Any, send: Send) -> list[Message]:
        return [send(Content("admin", str(item), {}), None)]

    def back(self, item: Any, send: Send) -> list[Message]:
        return [send(Content("admin", "four-letter word answer", {"answer": str(item)}), None)]


_LINES: dict[str, Callable[[], _Line]] = {
    QUORUM_SERVICE: _QuorumLine,
    CLIENT_SERVICE: _ClientLine,
    KAFKA_SERVICE: _KafkaLine,
    WORD_SERVICE: _WordLine,
}


class _UnderWay:
    """An item under way, and the messages that are complete with it."""

    __slots__ = ("item", "messages")

    def __init__(self, item: Any, messages: list[Message]) -> None:
        self.item = item
        self.messages = messages

    def are_lost(self, reason: str) -> None:
        """They never arrive."""
        for message in self.messages:
            message.lost = reason


class _TappedEndpoint(Endpoint):
    """One end of a connection that is listened to; `read` makes messages of what is sent to this end."""

    __slots__ = ("_read", "_tap")

    def __init__(self, network: TappedNetwork, end: End, read: Callable[[Any, Send], list[Message]]) -> None:
        super().__init__(network, *end)
        self._tap = network.tap
        self._read = read

    def enqueue(self, item: Any) -> None:
        """Take an item under way to this end."""
        if item is CLOSED:
            super().enqueue(item)
            return
        now_us, source, target = self._scheduler.now_us, self.peer.host.name, self.host.name

        def send(content: Content, answers: int | None) -> Message:
            return self._tap.send(now_us, source, target, content, answers)

        super().enqueue(_UnderWay(item, self._read(item, send)))

    def pump(self) -> None:
        """Hand over what has arrived; a process that has ended gets nothing."""
        if self.runtime.stopped and not self._inbound.cuts:
            for due_us, item in self._inbox:
                if due_us <= self._scheduler.now_us and isinstance(item, _UnderWay):
                    item.are_lost(PROCESS_GONE)
        super().pump()

    def _hand_over(self, item: Any) -> None:
        if not isinstance(item, _UnderWay):
            super()._hand_over(item)
        elif self.closed:
            item.are_lost(CONNECTION_GONE)
        else:
            for message in item.messages:
                message.arrived_us = self._scheduler.now_us
            super()._hand_over(item.item)


class TappedNetwork(Network):
    """A network of which every message is written down."""

    def __init__(self, scheduler: Scheduler, random: Random, tap: MessageTap) -> None:
        super().__init__(scheduler, random)
        self.tap = tap

    def ends(self, dialler: End, listener: End, service: str) -> tuple[Endpoint, Endpoint]:
        """The two ends of a new connection to that service."""
        line = _LINES[service]()
        return _TappedEndpoint(self, dialler, line.back), _TappedEndpoint(self, listener, line.forth)

    def datagram(self, source: str, target: str, item: Any, deliver: Callable[[Any], object]) -> None:
        """Call `deliver` with the item as the target's process, one latency later, unless cut or down by then."""
        message = self.tap.send(self.scheduler.now_us, source, target, notification_content(item))

        def delivered(heard: Any) -> None:
            message.arrived_us, message.lost = self.scheduler.now_us, None
            deliver(heard)

        message.lost = CUT if self._link(source, target).cuts else UNHEARD
        super().datagram(source, target, item, delivered)
