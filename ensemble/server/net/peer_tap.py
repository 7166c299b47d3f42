"""Recorder of a peer's messages on its election, quorum and client ports, for its message file.

With `zabka.messages=control` it records elections, discovery, synchronisation, sessions, and all requests of brokers'
sessions with their proposals, acknowledgements and commits. For writes of other clients, it only looks up the
transaction's session. A session is known to be a broker's after it has created the broker's znode below /brokers/ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from zabka.ensemble.ids import ConnectionId, counter_of
from zabka.ensemble.jute import MalformedRecord, Reader, Record
from zabka.ensemble.op_names import connect_content, connected_content, reply_content, request_content
from zabka.ensemble.records import (
    NOTIFICATION_XID,
    PING_XID,
    REPLY_HEADER_SIZE,
    ClientMessage,
    ConnectResponse,
    Frames,
    OpCode,
    Reply,
    Request,
    ServerMessage,
    WatcherEvent,
)
from zabka.ensemble.records import ConnectRequest as Connect
from zabka.ensemble.server.net.election_wire import FrameReader, decode_notification
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.txn import CreateTxn, MultiTxn, Txn
from zabka.ensemble.zab.messages import (
    Ack,
    Commit,
    CommitAndActivate,
    ForwardedRequest,
    Inform,
    Notification,
    Packet,
    Ping,
    Proposal,
    SyncRequest,
)
from zabka.ensemble.zab.packet_names import notification_content, packet_contents, txn_subject
from zabka.journal.message_log import MessageLine, MessageNotes, Transport
from zabka.journal.messages import Content

BROKER_IDS = "/brokers/ids"
REGISTRATIONS = f"{BROKER_IDS}/"
_REGISTRATIONS = REGISTRATIONS.encode()
_SET_DATA, _CREATE_SESSION, _CLOSE_SESSION = int(OpCode.SET_DATA), int(OpCode.CREATE_SESSION), int(OpCode.CLOSE_SESSION)
_SESSION_OPS = (_CREATE_SESSION, _CLOSE_SESSION)
_EXPECTED_MAX = 1_000
SENT, RECEIVED = 0, 1
_KINDS_AND_WAYS = 4
"""Number of queues of expected packets: acks sent, acks received, commits sent, commits received."""
Note = Callable[[Content, str | None, int | None], None]


class PeerTap:
    """Records the messages of a peer."""

    def __init__(self, notes: MessageNotes) -> None:
        self._notes = notes
        self._records_everything = notes.hears_everything
        self._brokers: dict[int, str] = {}
        """Name of each broker, such as broker-1, keyed by session id."""
        self._sessions: dict[int, ConnectionId] = {}
        """Open connection of each session of this peer's clients, keyed by session id."""
        self._session_on: dict[ConnectionId, int] = {}
        self._lines: dict[ConnectionId, MessageLine] = {}
        self._ops_by_xid: dict[ConnectionId, dict[int, int]] = {}
        """Op code of each request that has no reply yet, keyed by recorded connection, then by xid."""
        self._proposal: Proposal | None = None
        self._recorded: list[Txn] = []

    def line(self, transport: Transport, other: int | None = None) -> MessageLine:
        """Return the recorder of a connection with another peer."""
        return self._notes.line(transport, None if other is None else f"peer-{other}")

    def learn(self, tree: DataTree) -> None:
        """Find the sessions of the registered brokers in this peer's tree, because a snapshot may have changed it."""
        for name in tree.children(BROKER_IDS):
            node = tree.nodes.get(f"{BROKER_IDS}/{name}")
            if node is not None and node.ephemeral_owner:
                self._is_broker(node.ephemeral_owner, name)

    def _is_broker(self, session_id: int, name: str) -> None:
        self._brokers[session_id] = node = f"broker-{name}"
        connection = self._sessions.get(session_id)
        if connection is not None and connection in self._lines:
            self._lines[connection].other = node
            self._ops_by_xid.setdefault(connection, {})

    # -- elections ---------------------------------------------------------------------------------------------------

    def votes_sent(self, line: MessageLine, frame: bytes) -> None:
        """Record the notifications in a frame sent on the election port."""
        for body in FrameReader().feed(frame):
            line.sent(notification_content(decode_notification(body)), size=len(frame))

    def vote_received(self, line: MessageLine, notification: Notification) -> None:
        """Record a notification received on the election port."""
        line.received(notification_content(notification))

    # -- the quorum port ---------------------------------------------------------------------------------------------

    def packets_sent(self, line: MessageLine, packets: Sequence[Packet]) -> None:
        """Record packets sent to another peer."""
        for packet in packets:
            if self._is_recorded(line, packet, SENT):
                self._note(packet, line, line.sent)

    def packets_received(self, line: MessageLine, packets: Sequence[Packet]) -> None:
        """Record packets received from another peer."""
        for packet in packets:
            if self._is_recorded(line, packet, RECEIVED):
                self._note(packet, line, line.received)

    def _is_recorded(self, line: MessageLine, packet: Packet, way: int) -> bool:
        """Return whether to record a packet.

        Of the frequent packet types, only those about brokers' transactions are recorded. These types are checked
        first.
        """
        kind = type(packet)
        if kind is Proposal:
            if packet is not self._proposal:
                self._look_into(packet)  # type: ignore[arg-type]
            return bool(self._recorded)
        if kind is Ack or kind is Commit:
            expected = line.expected
            if expected and _came(expected[way if kind is Ack else way + 2], packet.zxid):  # type: ignore[union-attr]
                return True
            return self._records_everything or counter_of(packet.zxid) == 0  # type: ignore[union-attr]
        if self._records_everything:
            return True
        if kind is ForwardedRequest:
            assert isinstance(packet, ForwardedRequest)
            return packet.session_id in self._brokers or packet.op in _SESSION_OPS
        if isinstance(packet, Inform):
            return self._concerns(packet.txn)
        if isinstance(packet, SyncRequest):
            return packet.session_id in self._brokers
        return kind is not Ping

    def _look_into(self, proposal: Proposal) -> None:
        """Choose which transactions of a proposal to record.

        Every learner receives the same proposal, so the choice is made once per proposal.
        """
        self._proposal, brokers = proposal, self._brokers
        found = [txn for txn in proposal.txns if txn.type != _SET_DATA or txn.session_id in brokers]
        self._recorded = [txn for txn in found if self._concerns(txn)] if found else found
        if self._records_everything:
            self._recorded = list(proposal.txns)

    def _concerns(self, txn: Txn) -> bool:
        """Return whether the transaction is from a broker's session, or opens or closes a session."""
        if txn.session_id in self._brokers:
            if txn.type == _CLOSE_SESSION:
                del self._brokers[txn.session_id]
            return True
        if txn.type == _SET_DATA:
            return False
        if txn.type in _SESSION_OPS:
            return True
        name = _registered(txn.body)
        if name is not None:
            self._is_broker(txn.session_id, name)
        return name is not None

    def _note(self, packet: Packet, line: MessageLine, note: Note) -> None:
        if isinstance(packet, Proposal):
            for txn in self._recorded:
                size = None if txn.raw is None else len(txn.raw)
                note(Content("broadcast", "PROPOSAL", txn_subject(txn)), f"PROPOSAL@{txn.zxid}", size)
                _expect(line, txn.zxid)
            return
        for content in packet_contents(packet):
            note(content, _key(packet, content), None)

    # -- the client port ---------------------------------------------------------------------------------------------

    def received_from_client(
        self, connection: ConnectionId, transport: Transport, messages: Sequence[ClientMessage]
    ) -> None:
        """Record frames received from a client."""
        for message in messages:
            if isinstance(message, Frames):
                if connection in self._ops_by_xid:
                    self._requests(connection, message.frames)
            elif isinstance(message, Connect):
                line = self._lines[connection] = self._notes.line(transport)
                line.received(connect_content(message))
                if self._records_everything:
                    self._ops_by_xid[connection] = {}

    def _requests(self, connection: ConnectionId, frames: Sequence[bytes]) -> None:
        line, ops = self._lines[connection], self._ops_by_xid[connection]
        for frame in frames:
            try:
                request = Request.decode(frame)
            except MalformedRecord:
                continue
            if request.xid == PING_XID and not self._records_everything:
                continue
            ops[request.xid] = request.op
            key = f"request@{request.xid}" if request.xid > 0 else None
            line.received(request_content(request), key, len(frame) + 4)

    def sent_to_client(self, connection: ConnectionId, message: ServerMessage) -> None:
        """Record a reply or event sent to a client."""
        if isinstance(message, ConnectResponse):
            self._connected(connection, message)
        elif connection in self._ops_by_xid:
            if isinstance(message, Reply):
                self._reply(connection, message, None)
            else:
                self._replies(connection, message)

    def _connected(self, connection: ConnectionId, response: ConnectResponse) -> None:
        line = self._lines.get(connection)
        if line is None:
            return
        self._sessions[response.session_id] = connection
        self._session_on[connection] = response.session_id
        broker = self._brokers.get(response.session_id)
        if broker is not None:
            line.other = broker
            self._ops_by_xid.setdefault(connection, {})
        line.sent(connected_content(response))

    def _replies(self, connection: ConnectionId, framed: bytes) -> None:
        """Record the encoded replies in `framed`. Each reply is preceded by its length."""
        reader = Reader(framed)
        while reader.left >= REPLY_HEADER_SIZE:
            frame = reader.read_buffer()
            if frame is None:
                return
            one = Reader(frame)
            reply = Reply(one.read_int(), one.read_long(), one.read_int())
            if reply.xid == NOTIFICATION_XID:
                reply.body = WatcherEvent.read_from(one)
            self._reply(connection, reply, len(frame) + 4)

    def _reply(self, connection: ConnectionId, reply: Reply, size: int | None) -> None:
        if reply.xid == PING_XID and not self._records_everything:
            return
        content = reply_content(reply, self._ops_by_xid[connection].pop(reply.xid, None))
        self._lines[connection].sent(content, reply_key(reply, content), size)

    def client_gone(self, connection: ConnectionId) -> None:
        """Forget a client's connection, which has ended."""
        self._lines.pop(connection, None)
        self._ops_by_xid.pop(connection, None)
        session_id = self._session_on.pop(connection, None)
        # If the session has moved, `_sessions` already contains its new connection: keep that entry.
        if session_id is not None and self._sessions.get(session_id) == connection:
            del self._sessions[session_id]


def _registered(body: Record) -> str | None:
    """Return the id of the broker that a transaction registers, alone or within a multi, or None."""
    if isinstance(body, MultiTxn):
        bodies = [sub.body() for sub in body.txns if _REGISTRATIONS in sub.data]
        return next((name for each in bodies if (name := _registered(each)) is not None), None)
    if isinstance(body, CreateTxn) and body.ephemeral and body.path.startswith(REGISTRATIONS):
        return body.path.removeprefix(REGISTRATIONS)
    return None


def reply_key(reply: Reply, content: Content) -> str | None:
    """Return the key by which a server's frame is matched with the client's record of it, or None."""
    if reply.xid == NOTIFICATION_XID:
        return f"watch@{reply.zxid}{content.subject.get('event')}{content.subject.get('path')}"
    return f"answer@{reply.xid}" if reply.xid > 0 else None


def _key(packet: Packet, content: Content) -> str | None:
    if isinstance(packet, Ack | Commit | CommitAndActivate) and content.group == "broadcast":
        return f"{content.kind}@{packet.zxid}"
    if isinstance(packet, ForwardedRequest):
        return f"{content.kind}@{packet.session_id}:{packet.cxid}"
    return f"INFORM@{packet.txn.zxid}" if isinstance(packet, Inform) else None


def _expect(line: MessageLine, zxid: int) -> None:
    """Mark the acknowledgements and commits of this proposal, in both directions, as packets to record."""
    if not line.expected:
        line.expected = [deque(maxlen=_EXPECTED_MAX) for _ in range(_KINDS_AND_WAYS)]
    for each in line.expected:
        each.append(zxid)


def _came(expected: deque[int], zxid: int) -> bool:
    """Return whether the packet is about an expected proposal; remove all expected proposals up to `zxid`.

    An acknowledgement may also cover earlier proposals.
    """
    if not expected or expected[0] > zxid:
        return False
    while expected and expected[0] <= zxid:
        expected.popleft()
    return True
