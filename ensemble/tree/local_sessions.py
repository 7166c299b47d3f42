"""Local sessions, which exist only on one server (UpgradeableSessionTracker, LearnerSessionTracker).

They cost the ensemble nothing: no transaction opens or closes them, no other server can resume them, and they end when
this server stops accepting clients. They own no ephemerals: before a session creates one, it is upgraded to a global
session, if that is enabled.
"""

from __future__ import annotations

from zabka.ensemble.ids import PeerId, SessionId
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import WRITES, OpCode
from zabka.ensemble.tree.sessions import SessionTracker
from zabka.ensemble.zab.application import LOCAL_SESSIONS_TIMER
from zabka.ensemble.zab.effects import SetTimer

NEEDS_A_QUORUM = (WRITES - {OpCode.CHECK, OpCode.CREATE_SESSION, OpCode.CLOSE_SESSION}) | {OpCode.SYNC}
"""Ops that a read-only server rejects (ReadOnlyRequestProcessor). To all other ops, such a server replies from its
tree.
"""


class LocalSessions:
    """Local sessions of one server; `upgrading` is whether they can be upgraded to global sessions."""

    __slots__ = ("_server", "_tick_ms", "_timeouts_ms", "_tracker", "upgrading")

    def __init__(self, server: PeerId, tick_ms: int, *, upgrading: bool) -> None:
        self.upgrading = upgrading
        self._server = server
        self._tick_ms = tick_ms
        self._timeouts_ms: dict[SessionId, int] = {}
        self._tracker = SessionTracker(tick_ms, Instant(0, 0))

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._timeouts_ms

    def __len__(self) -> int:
        return len(self._timeouts_ms)

    def start(self, now: Instant) -> None:
        """Begin to accept clients; no local session exists yet."""
        self._timeouts_ms.clear()
        self._tracker = SessionTracker(self._tick_ms, now)

    def open(self, now: Instant, session_id: SessionId, timeout_ms: int) -> None:
        """Open a new local session."""
        self._timeouts_ms[session_id] = timeout_ms
        self._tracker.track(now, session_id, timeout_ms)

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int) -> bool:
        """Record that a session is active. Return False if it is not a local session of this server."""
        return self._tracker.touch(now, session_id, timeout_ms, self._server)

    def close(self, session_id: SessionId) -> None:
        """Remove a session that has ended or was upgraded."""
        if self._timeouts_ms.pop(session_id, None) is not None:
            self._tracker.remove(session_id)

    def expire(self, now: Instant) -> list[SessionId]:
        """End the overdue sessions; return their ids."""
        overdue = [session.session_id for session in self._tracker.expire(now)]
        for session_id in overdue:
            self.close(session_id)
        return overdue

    def next_expiry(self, now: Instant) -> SetTimer:
        """Return a timer for the next call of `expire`, at the end of the current tick."""
        return SetTimer(LOCAL_SESSIONS_TIMER, self._tick_ms - now.mono_ms % self._tick_ms)

    def listed(self) -> list[tuple[SessionId, int]]:
        """Return (id, timeout in milliseconds) of each session, for reports."""
        return list(self._timeouts_ms.items())

    def admits(self, session_id: SessionId) -> bool:
        """Return whether a leader accepts writes of a session that is not global.

        True if the session is local here, or can be local on the server whose id its session id contains
        (LeaderSessionTracker.checkSession).
        """
        return session_id in self._timeouts_ms or (session_id >> 56) & 0xFF != self._server & 0xFF
