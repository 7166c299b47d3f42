"""A session whose client was heard in time, by any server of a serving quorum, does not expire.

What was heard is seen where it arrives: at a server's end of a client's connection, and at the leader's end of a
learner's link.  So neither the leader's table of sessions nor what a follower puts into its pings is asked.  Once a
ping that a follower sent behind a client's word has reached the leader, the leader may not declare that session dead
until its timeout has passed since the word (LearnerHandler and SessionTrackerImpl: the answer to a ping touches every
session that was heard from).  What a server hears itself counts at once.
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
    """What one server's process hears."""

    __slots__ = ("connected", "fresh", "link", "peer_id")

    def __init__(self, peer_id: int) -> None:
        self.peer_id = peer_id
        self.connected: dict[ConnectionId, int] = {}
        """Whose connection that is: the session of the server's answer to the first frame."""
        self.fresh: dict[int, int] = {}
        """Sessions heard from since the last ping, and when (µs)."""
        self.link: Endpoint | None = None
        """This server's end of the link to its leader, the one before or the present one."""


class HeardSessions:
    """Watches all peers of one world."""

    def __init__(self, judged: Judged, emit: Callable[[InvariantViolated], object]) -> None:
        """`emit` tells of a session that expired though it was heard."""
        self._judged = judged
        self._emit = emit
        self._known: dict[int, dict[int, tuple[int, int]]] = {}
        """For each server what it must know: sessions, when each was last heard (µs), and by whom."""
        self._under_way: dict[Endpoint, tuple[int, deque[dict[int, int]]]] = {}
        """By the learner's end of a link: the learner, and what it had heard before each ping that has not arrived."""

    def answered(self, hearing: Hearing, connection: ConnectionId, message: ServerMessage | bytes) -> None:
        """A server answers a client."""
        if type(message) is ConnectResponse and message.session_id:
            hearing.connected[connection] = message.session_id

    def heard(self, hearing: Hearing, connection: ConnectionId, now_us: int) -> None:
        """A client's word reaches a server."""
        session_id = hearing.connected.get(connection)
        if session_id is not None:
            hearing.fresh[session_id] = now_us
            self._known.setdefault(hearing.peer_id, {})[session_id] = now_us, hearing.peer_id

    def sent(self, hearing: Hearing, ours: Endpoint, packets: Sequence[Packet]) -> None:
        """A learner sends packets to its leader.  On a new link it begins anew: whoever leaves a leader serves nobody,
        and what it had not told yet is lost with its sessions' table (LearnerSessionTracker)."""
        if ours is not hearing.link:
            hearing.link, hearing.fresh = ours, {}
        for packet in packets:
            if type(packet) is Ping:
                self._under_way.setdefault(ours, (hearing.peer_id, deque()))[1].append(hearing.fresh)
                hearing.fresh = {}

    def arrived(self, at: int, theirs: Endpoint, packets: Sequence[Packet]) -> None:
        """A learner's packets reach its leader: what was heard before a ping is known there now."""
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
        """A node's line in the journal: does a server let a session expire?"""
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
