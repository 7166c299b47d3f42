"""Faults of single messages: hold, drop, delay or reorder messages of one kind between two nodes.

Message kinds are the packet types of the quorum port (`PROPOSAL`, `UPTODATE`;
org.apache.zookeeper.server.quorum.Leader), Kafka's requests by their API (`LeaderAndIsr`), and the responses to them
(`LeaderAndIsr answer`).  The faults act on the frames that a process writes to its simulated socket
(`zabka.simulation.engine.gates`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct

from zabka.ensemble.server.net import quorum_packets
from zabka.ensemble.server.net.quorum_packets import SIGNATURE, SNAP
from zabka.journal.messages import ANSWER
from zabka.kafka.message_names import api_name
from zabka.kafka.wire.frames import decode_request
from zabka.kafka.wire.kafka_schema import ApiKey
from zabka.simulation.cluster.broker_machine import KAFKA_PORT
from zabka.simulation.cluster.ensemble_world import ServingWorld
from zabka.simulation.cluster.peer_machine import QUORUM_PORT
from zabka.simulation.engine.gates import Action, Frame, Frames, Gate, Gates, Rule
from zabka.simulation.engine.observed import FrameReader
from zabka.simulation.engine.tcp import Socket

QUORUM_KINDS = {
    getattr(quorum_packets, name): name
    for name in (
        "REQUEST", "PROPOSAL", "ACK", "COMMIT", "PING", "REVALIDATE", "SYNC", "INFORM", "COMMITANDACTIVATE",
        "NEWLEADER", "FOLLOWERINFO", "UPTODATE", "DIFF", "TRUNC", "SNAP", "OBSERVERINFO", "LEADERINFO", "ACKEPOCH",
        "INFORMANDACTIVATE",
    )
}  # fmt: skip
"""Names of the quorum port's packet types."""
KAFKA_KINDS = tuple(f"{api_name(api_key)}{suffix}" for api_key in ApiKey for suffix in ("", ANSWER))
_HEAD, _INT = Struct(">iqi"), Struct(">i")
_KAFKA_HEAD = Struct(">hhi")


class UnknownKind(ValueError):
    """There is no message kind with that name."""


class MessageFaults:
    """Message faults in one world.  They affect only connections that are opened after this object is created."""

    def __init__(self, world: ServingWorld) -> None:
        self._world = world
        self._gates = Gates(world.scheduler)
        world.ground.network.make_gate = self._gate

    def hold(self, source: str, target: str, kind: str, count: int | None = None) -> Callable[[], None]:
        """Hold messages of that kind, and return a function that releases them.  Raises UnknownKind."""
        return self._add(source, target, kind, Action.HOLD, count, 0)

    def drop(self, source: str, target: str, kind: str, count: int | None = 1) -> Callable[[], None]:
        """Drop the next `count` messages of that kind; return a function that ends the fault.  Raises UnknownKind."""
        return self._add(source, target, kind, Action.DROP, count, 0)

    def delay(self, source: str, target: str, kind: str, delay_ms: int, count: int | None = None) -> Callable[[], None]:
        """Delay each message of that kind by `delay_ms`; return a function that ends the fault.  Raises UnknownKind."""
        return self._add(source, target, kind, Action.DELAY, count, delay_ms)

    def reorder(self, source: str, target: str, kind: str, count: int | None = 1) -> Callable[[], None]:
        """Send each of the next `count` messages of that kind after the message that follows it.

        Return a function that ends the fault.  Raises UnknownKind.
        """
        return self._add(source, target, kind, Action.REORDER, count, 0)

    def _add(
        self, source: str, target: str, kind: str, action: Action, count: int | None, delay_ms: int
    ) -> Callable[[], None]:
        if kind not in QUORUM_KINDS.values() and kind not in KAFKA_KINDS:
            raise UnknownKind(f"no message {kind!r}; there are {', '.join((*QUORUM_KINDS.values(), *KAFKA_KINDS))}")
        world = self._world
        fault_id = world.announce(f"{action.value} {kind}", source, target, delay_ms=delay_ms)
        ends = world.machine(source).address, world.machine(target).address
        rule = Rule(*ends, kind, action, count=count, delay_us=delay_ms * 1000)
        self._gates.add(rule)

        def end_fault() -> None:
            rule.release()
            world.over(fault_id)

        return end_fault

    def _gate(self, socket: Socket, send: Callable[[bytes], None]) -> Gate | None:
        frames: Frames
        if QUORUM_PORT in (socket.port, socket.remote_port):
            frames = _QuorumFrames()
        elif socket.remote_port == KAFKA_PORT:
            frames = _KafkaRequests()
        elif socket.port == KAFKA_PORT:
            frames = _KafkaAnswers()
        else:
            return None
        return Gate(self._gates, (socket.kernel.address, socket.remote), frames, send)


class _KafkaRequests:
    """Splits the bytes that a broker's client writes into frames: one per request."""

    def __init__(self) -> None:
        self._reader = FrameReader()

    @property
    def partial(self) -> int:
        return self._reader.left

    def written(self, data: bytes) -> list[Frame]:
        return [Frame(self.kind_of(frame), _INT.pack(len(frame)) + frame) for frame in self._reader.read(data)]

    def kind_of(self, frame: bytes) -> str:
        """Return the message kind of a frame."""
        return api_name(_KAFKA_HEAD.unpack_from(frame)[0])

    def received(self, data: bytes) -> None:
        """Do nothing: received bytes are not needed, because a request's header contains its kind."""


class _KafkaAnswers(_KafkaRequests):
    """Splits the bytes that a broker writes into frames: one per response.

    The kind of a response is derived from the kind of its request.
    """

    def __init__(self) -> None:
        super().__init__()
        self._received = FrameReader()
        self._asked: deque[tuple[int, str]] = deque()
        """Correlation id and kind of each request that has no response yet."""

    def received(self, data: bytes) -> None:
        for frame in self._received.read(data):
            api_key, _, number = _KAFKA_HEAD.unpack_from(frame)
            if api_key != ApiKey.PRODUCE or decode_request(frame).payload.acks:
                self._asked.append((number, f"{api_name(api_key)}{ANSWER}"))

    def kind_of(self, frame: bytes) -> str:
        (number,) = _INT.unpack_from(frame)
        while self._asked:
            asked, kind = self._asked.popleft()
            if asked == number:
                return kind
        return ANSWER


class _QuorumFrames:
    """Splits the bytes of one end of a quorum connection into packets.

    The tree that follows a SNAP packet counts as part of the packet.
    """

    def __init__(self) -> None:
        self._rest = b""

    @property
    def partial(self) -> int:
        return len(self._rest)

    def written(self, data: bytes) -> list[Frame]:
        self._rest += data
        found: list[Frame] = []
        while (size := _quorum_size(self._rest)) is not None:
            kind = QUORUM_KINDS.get(_INT.unpack_from(self._rest)[0], "")
            found.append(Frame(kind, self._rest[:size]))
            self._rest = self._rest[size:]
        return found

    def received(self, data: bytes) -> None:
        """Do nothing: received bytes are not needed, because a packet's header contains its kind."""


def _quorum_size(data: bytes) -> int | None:
    """Return the size of the packet at the beginning of `data`, or None if it is incomplete."""
    if len(data) < _HEAD.size:
        return None
    kind, _, size = _HEAD.unpack_from(data)
    end = _HEAD.size + max(size, 0)
    if len(data) < end + _INT.size:
        return None
    (texts,) = _INT.unpack_from(data, end)
    end += _INT.size
    for _ in range(2 * max(texts, 0)):
        if len(data) < end + _INT.size:
            return None
        end += _INT.size + max(_INT.unpack_from(data, end)[0], 0)
    if kind == SNAP:
        signed = data.find(SIGNATURE, end)
        return None if signed < 0 else signed + len(SIGNATURE)
    return end if len(data) >= end else None
