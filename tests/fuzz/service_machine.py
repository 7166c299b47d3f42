"""Whole services with several connections that send valid, damaged and invalid requests.

The same history runs twice: with bytes, as a port delivers them, and with request objects, which bypass the fast path
for bytes. Both runs send the same messages to every client. Other clients' requests always succeed, and both servers
have the same valid tree.
"""

from __future__ import annotations

import msgspec

from tests.ensemble.tree.tree_driver import Ensemble, create, exists
from tests.fuzz.choices import Choices, Target, spoil
from tests.fuzz.client_targets import REQUESTS, USERS, connect_frames, request_frames, sasl_tokens
from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.ids import LinkId, PeerId
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.records import ClientMessage, ConnectRequest, Frames, OpCode, Reply, Request
from zabka.ensemble.tree.requests import PLAIN_WRITES
from zabka.ensemble.zab.effects import Effect
from zabka.ensemble.zab.messages import ForwardedRequest

FUZZED = 3
POLICY = AuthPolicy(schemes=frozenset({"digest", "ip", "sasl", "x509"}), sasl_users=USERS, super_digest="super:x")
IDENTITIES = (("ip", "127.0.0.1"),)
_FRAMES = request_frames()
_CONNECTS = connect_frames()
_TOKENS = [Request(9, OpCode.SASL, None).encode() + len(token).to_bytes(4, "big") + token for token in sasl_tokens()]


class _Side(Ensemble):
    """One of the two runs: a leader and a learner, with a witness client each, and the fuzzed connections."""

    def __init__(self, *, in_bytes: bool) -> None:
        super().__init__(servers=2, auto=False, auth=POLICY, full_journal=True)
        self.in_bytes = in_bytes
        self.witnesses = [self.connect(server, identities=IDENTITIES) for server in (0, 1)]
        self.settle()
        self.fuzzed: list[int | None] = [None] * FUZZED
        self.received = bytearray()

    def open(self, slot: int, server: int, frame: bytes) -> None:
        old = self.fuzzed[slot]
        if old is not None and old not in self.closed:
            self.hang_up(old)
        self.note(slot)
        connection = self.fuzzed[slot] = self.dial(server, IDENTITIES)
        try:
            self.message(connection, ConnectRequest.decode(frame))
        except MalformedRecord:
            self.hang_up(connection)
            self.fuzzed[slot] = None

    def send_frames(self, slot: int, frames: list[bytes]) -> None:
        connection = self.fuzzed[slot]
        if connection is None or connection in self.closed:
            return
        server = self._at[connection]
        messages: list[ClientMessage] = [Frames(frames)] if self.in_bytes else [Request.decode(each) for each in frames]
        effects: list[Effect] = []
        for message in messages:
            effects += self.services[server].on_client(self.now, connection, message)
        self.run(server, effects)

    def settle(self) -> None:
        """Complete all requests in flight."""
        while self.proposed or self.syncs or self.asked:
            if self.proposed:
                self.commit()
            elif self.syncs:
                self.finish_sync()
            else:
                self.revalidate()

    def note(self, slot: int) -> None:
        """Append to `received` the bytes that were sent to the connection in that slot since the previous call."""
        connection = self.fuzzed[slot]
        if connection is not None:
            self.received += b"|%d:" % slot + b"".join(map(_framed, self.take(connection)))
            self.received += b"closed" if connection in self.closed else b""

    def server_of(self, slot: int) -> int:
        connection = self.fuzzed[slot]
        return self._at[connection] if connection is not None else 0

    def check(self) -> None:
        for witness in self.witnesses:
            reply = self.ask(witness, exists("/zookeeper"))
            assert reply.err == 0, "a witness is no longer served"
        for _, event in self.events:
            msgspec.json.encode(event)
        self.events.clear()
        one, other = (service.tree for service in self.services)
        assert one.digest == other.digest and one.nodes.keys() == other.nodes.keys() and one.sessions == other.sessions
        for tree in (one, other):
            size = sum(len(path) + len(node.data or b"") for path, node in tree.nodes.items())
            assert tree.data_size_bytes == size, "the size of the data drifts"
            assert tree.digest == sum(node.digest for node in tree.nodes.values()), "the digest drifts"
            for path, node in tree.nodes.items():
                for name in node.children or ():
                    assert f"{path.rstrip('/')}/{name}" in tree.nodes
            assert all(owner in tree.sessions for owner in tree.ephemerals), "an ephemeral without its session"
        for service in self.services:
            for connection in service.clients.connections.values():
                assert connection.outstanding >= 0
            for session in service.clients.sessions.values():
                assert not session.queue, "a request is never answered"


def _framed(message: object) -> bytes:
    if isinstance(message, bytes):
        return message
    raw: bytes = message.encode()  # type: ignore[attr-defined]
    return len(raw).to_bytes(4, "big") + raw


def _frames(choices: Choices, *, leads: bool) -> list[bytes]:
    frames = []
    for _ in range(1 + choices.below(4)):
        frame = choices.one(_TOKENS) if choices.below(16) == 15 else choices.one(_FRAMES)
        if choices.below(2):
            frame = spoil(frame, choices)
        frame = frame.ljust(8, b"\0")  # the port rejects shorter frames
        request = Request.decode(frame)
        # Omit malformed writes to a leader: sent as bytes, they become an error transaction; sent as request objects,
        # they are rejected without a transaction.
        if not (leads and request.op in PLAIN_WRITES and request.body is None):
            frames.append(frame)
    return frames


def service(data: bytes) -> None:
    choices = Choices(data)
    sides = [_Side(in_bytes=True), _Side(in_bytes=False)]
    steps = 0
    while choices.left and steps < 60:
        steps += 1
        slot, step = choices.below(FUZZED), choices.below(8)
        if step == 0 or sides[0].fuzzed[slot] is None:
            server, frame = choices.below(2), choices.one(_CONNECTS)
            frame = spoil(frame, choices) if choices.below(2) else frame
            for side in sides:
                side.open(slot, server, frame)
        elif step == 1:
            ms = choices.one((10, 1000, 5000))
            for side in sides:
                side.advance(ms)
        else:
            frames = _frames(choices, leads=sides[0].server_of(slot) == 0)
            for side in sides:
                side.send_frames(slot, frames)
        for side in sides:
            side.settle()
            for each in range(FUZZED):
                side.note(each)
            side.check()
        assert sides[0].received == sides[1].received, (
            f"in bytes {bytes(sides[0].received)!r}, else {bytes(sides[1].received)!r}"
        )
    for side in sides:
        late = side.connect(0)
        side.settle()
        xid = side.send(late, create("/late"))
        side.settle()
        reply = side.take(late)[-1]
        assert isinstance(reply, Reply) and reply.xid == xid and reply.err in (0, -102, -110, -112)


def forwarded(data: bytes) -> None:
    """Apply all requests that a learner forwards.

    The leader makes a transaction of each request, possibly an error transaction. Leader and learner must both be able
    to apply it.
    """
    choices = Choices(data)
    leader = Ensemble(servers=2, auth=POLICY)
    session_id, _ = leader.session(leader.connect(1))
    for n in range(20):
        if not choices.left:
            break
        op, body = choices.one(REQUESTS)
        raw = Request(1, op, body).encode()[8:]
        kind = choices.one((int(op), int(op), int(op), int(OpCode.CREATE_SESSION), choices.below(256) - 128))
        raw = spoil(raw, choices) if choices.below(2) else raw
        session = session_id if choices.below(4) else choices.long()
        request = ForwardedRequest(session, n, kind, raw, (("ip", "1.2.3.4"),))
        leader.zxid += 1
        leader.proposed += leader.services[0].prepare_all(leader.now, [request], leader.zxid, LinkId(1))
        if choices.below(2):
            leader.commit()
    leader.commit()
    leader.advance(2000)
    leader.services[0].revalidate(leader.now, choices.long(), -1, LinkId(1), PeerId(2))
    one, other = (service.tree for service in leader.services)
    assert one.digest == other.digest


def _histories() -> list[bytes]:
    """Return inputs in which each slot connects and sends a few requests. Together they contain each request in each
    slot.
    """
    out = []
    for begin in range(0, len(_FRAMES), 4):
        steps = bytearray()
        for slot in range(FUZZED):
            steps += bytes([slot, 0, slot % 2, 1, 0])
            for op in range(begin, min(begin + 4, len(_FRAMES))):
                steps += bytes([slot, 2, 0, 0, op, 0])
        out.append(bytes(steps))
    return out


SERVICE_TARGETS: dict[str, Target] = {
    "service": Target(service, _histories),
    "forwarded": Target(forwarded, lambda: [bytes([n, 0, 0, 1, 1, n + 1, 0, 0, 1, 1]) for n in range(len(REQUESTS))]),
}
