"""Recorder of the messages between a ZooKeeper client and its servers, for a broker's message file.

Pings are omitted unless all messages are recorded.
"""

from __future__ import annotations

from zabka.ensemble.client.service import ToServer, WatchEvent
from zabka.ensemble.op_names import connect_content, connected_content, reply_content, request_content
from zabka.ensemble.records import PING_XID, ConnectRequest, ConnectResponse, Reply
from zabka.journal.message_log import MessageLine, MessageNotes, Transport
from zabka.journal.messages import Content


class ClientTap:
    """Records the messages of one process's connections to the ensemble."""

    def __init__(self, notes: MessageNotes) -> None:
        self._notes = notes

    def line(self, transport: Transport) -> ClientLine:
        """Return the recorder of a new connection."""
        return ClientLine(self._notes.line(transport), self._notes.hears_everything)


class ClientLine:
    """Recorder of one connection."""

    __slots__ = ("_line", "_ops", "_records_pings")

    def __init__(self, line: MessageLine, records_pings: bool) -> None:
        self._line = line
        self._records_pings = records_pings
        self._ops: dict[int, int] = {}

    def sent(self, message: ToServer, size: int) -> None:
        """Record a frame that is sent."""
        if isinstance(message, ConnectRequest):
            self._line.sent(connect_content(message))
            return
        if message.xid == PING_XID and not self._records_pings:
            return
        self._ops[message.xid] = message.op
        self._line.sent(request_content(message), f"request@{message.xid}" if message.xid > 0 else None, size)

    def connected(self, response: ConnectResponse) -> None:
        """Record the ConnectResponse, which is the server's first frame."""
        self._line.received(connected_content(response))

    def replied(self, reply: Reply, size: int) -> None:
        """Record the reply to a request."""
        if reply.xid == PING_XID and not self._records_pings:
            return
        content = reply_content(reply, self._ops.pop(reply.xid, None))
        self._line.received(content, f"answer@{reply.xid}" if reply.xid > 0 else None, size)

    def watched(self, event: WatchEvent, zxid: int, size: int) -> None:
        """Record a watch event."""
        subject = {"event": event.type.name, "path": event.path}
        key = f"watch@{zxid}{event.type.name}{event.path}"
        self._line.received(Content("client", "watch", subject), key, size)
