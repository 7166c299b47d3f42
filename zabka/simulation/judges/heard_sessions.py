"""Checks that a session does not expire if any server of a serving quorum heard from its client in time.

Contact is observed where messages arrive: at a server's end of a client's connection, and at the leader's end of a
learner's link.  The leader's session table and the content of a follower's pings are not used.  A client's message
to the leader counts at once; a message to a follower counts when the follower's next ping has reached the leader.
From then on, the leader must not expire the session until its timeout has passed since the message (LearnerHandler
and SessionTrackerImpl: the reply to a ping touches every session that the learner reports).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.records import ConnectResponse, ServerMessage
from zabka.ensemble.zab.messages import Packet, Ping
from zabka.journal import events as e
from zabka.journal.events import Entry, InvariantViolated
from zabka.journal.judges.judged import Judged
from zabka.simulation.network.network import Endpoint

NAME = "a session that is heard lives"


class Hearing:
    """The contacts of one server's process."""

    __slots__ = ("connected", "fresh", "link", "peer_id")

    def __init__(self, peer_id: int) -> None:
        self.peer_id = peer_id
        self.connected: dict[ConnectionId, int] = {}
        """The session of each connection, from the server's reply to the first frame."""
        self.fresh: dict[int, int] = {}
        """Sessions with a message since the last ping, and its time (µs)."""
        self.link: Endpoint | None = None
        """This server's end of the last or current link to its leader."""


class HeardSessions:
    """Watches all peers of one world."""

    def __init__(self, judged: Judged, emit: Callable[[InvariantViolated], object]) -> None:
        """`emit` reports a session that expired although its client was active."""
        self._judged = judged
        self._emit = emit
        self._known: dict[int, dict[int, tuple[int, int]]] = {}
        """For each server, the sessions that it must know: the time of last contact (µs) and the server contacted."""
        self._under_way: dict[Endpoint, tuple[int, deque[dict[int, int]]]] = {}
        """By the learner's end of a link: the learner, and its contacts before each ping that is still in flight."""

    def answered(self, hearing: Hearing, connection: ConnectionId, message: ServerMessage | bytes) -> None:
        """Handle a server's message to a client."""
        if type(message) is ConnectResponse and message.session_id:
            hearing.connected[connection] = message.session_id

    def heard(self, hearing: Hearing, connection: ConnectionId, now_us: int) -> None:
        """Handle a client's message that reaches a server."""
        session_id = hearing.connected.get(connection)
        if session_id is not None:
            hearing.fresh[session_id] = now_us
            self._known.setdefault(hearing.peer_id, {})[session_id] = now_us, hearing.peer_id

    def sent(self, hearing: Hearing, ours: Endpoint, packets: Sequence[Packet]) -> None:
        """Handle packets that a learner sends to its leader.

        A new link starts with no contacts: a learner that leaves its leader serves no clients, and loses unreported
        contacts with its session table (LearnerSessionTracker).
        """
        if ours is not hearing.link:
            hearing.link, hearing.fresh = ours, {}
        for packet in packets:
            if type(packet) is Ping:
                self._under_way.setdefault(ours, (hearing.peer_id, deque()))[1].append(hearing.fresh)
                hearing.fresh = {}

    def arrived(self, at: int, theirs: Endpoint, packets: Sequence[Packet]) -> None:
        """Handle a learner's packets that reach its leader: the leader now knows the contacts before each ping."""
        for packet in packets:
            if type(packet) is Ping:
                heard_by, waiting = self._under_way[theirs]
                self._learn(at, heard_by, waiting.popleft())

    def _learn(self, at: int, heard_by: int, words: dict[int, int]) -> None:
        known = self._known.setdefault(at, {})
        for session_id, heard_us in words.items():
            if heard_us > known.get(session_id, (-1, 0))[0]:
                known[session_id] = heard_us, heard_by

    def journalled(self, entry: Entry) -> None:
        """Handle a journal entry: check each session that a server expires."""
        event = entry.event
        if isinstance(event, e.SessionExpired):
            heard = self._known.get(int(entry.node.rpartition("-")[2]), {}).get(event.session_id)
            if heard is not None:
                self._judged.note(NAME)
                heard_us, heard_by = heard
                if entry.mono_us - heard_us < event.timeout_ms * 1000:
                    ago_ms = (entry.mono_us - heard_us) // 1000
                    self._emit(
                        InvariantViolated(
                            NAME,
                            f"{entry.node} lets session 0x{event.session_id:x} expire after {event.timeout_ms} ms; "
                            f"its client was heard {ago_ms} ms before by peer-{heard_by}, which had said so",
                        )
                    )
