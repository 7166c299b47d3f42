"""Sessions: ids, passwords, and the leader's tracking of live sessions (SessionTrackerImpl, ExpiryQueue)."""

from __future__ import annotations

from typing import Final, NamedTuple

from zabka.ensemble.ids import LinkId, PeerId, SessionId
from zabka.ensemble.ports import Instant
from zabka.ensemble.tree.create_modes import CONTAINER_OWNER

Owner = int
"""Server where a session was last validated: the link of a learner, or one of the two constants below."""
UNOWNED: Final = -2
LOCAL: Final = -1

_SECRET = 0xB3415C00
_MULTIPLIER = 0x5DEECE66D
_SEED_MASK = (1 << 48) - 1
PASSWORD_SIZE = 16
NO_SESSION = SessionId(0)
"""Session id of the leader's own requests (ContainerManager)."""
NO_PASSWORD = bytes(PASSWORD_SIZE)


def owner_of(origin: LinkId | None) -> Owner:
    """Return the session owner for a request's origin, which is a learner's link, or None for the leader itself."""
    return LOCAL if origin is None else origin


def password_of(session_id: SessionId) -> bytes:
    """Return a session's password. It is computed from the id, so that any server can check it.

    The password is `new java.util.Random(id ^ 0xB3415C00L).nextBytes(16)`.
    """
    seed = (session_id ^ _SECRET ^ _MULTIPLIER) & _SEED_MASK
    out = b""
    while len(out) < PASSWORD_SIZE:
        seed = (seed * _MULTIPLIER + 0xB) & _SEED_MASK
        out += (seed >> 16).to_bytes(4, "little")
    return out


class SessionIds:
    """Generator of session ids: server id in the top byte, then 40 bits of the clock, then a counter that starts at 0.

    The clock is the wall clock, so that a restarted server does not assign an id twice.
    """

    __slots__ = ("_next", "_server")

    def __init__(self, server: PeerId) -> None:
        self._server = server
        self._next = 0

    def start(self, now: Instant) -> None:
        """Let the next ids begin with the current time, unless they already begin with a later time."""
        self._next = max(self._next, (now.wall_ms & 0xFFFFFFFFFF) << 16)

    def next(self) -> SessionId:
        """Return a new id, as a signed 64-bit number."""
        unsigned = ((self._server & 0xFF) << 56) | (self._next & 0x00FFFFFFFFFFFFFF)
        self._next += 1
        session_id = unsigned - (1 << 64) if unsigned >> 63 else unsigned
        return SessionId(session_id) if session_id not in (0, CONTAINER_OWNER) else self.next()


class Overdue(NamedTuple):
    """An overdue session, the time since its last message, and the server that received that message.

    The time is -1 and the server 0 if no message was received since the session was created or since this leader's term
    began.
    """

    session_id: SessionId
    timeout_ms: int
    heard_ms_ago: int
    heard_by: int


class _Tracked:
    __slots__ = ("closing", "due_ms", "heard_by", "heard_ms", "owner", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.due_ms = -1
        self.heard_ms = -1
        self.heard_by = 0
        self.closing = False
        self.owner = UNOWNED


class SessionTracker:
    """The leader's sessions, in buckets of one tick: a session expires within one tick after the end of its timeout.

    The cost of touching, adding and removing a session does not depend on the number of sessions.
    """

    __slots__ = ("_buckets", "_next_due_ms", "_sessions", "_tick_ms")

    def __init__(self, tick_ms: int, now: Instant) -> None:
        self._tick_ms = tick_ms
        self._sessions: dict[SessionId, _Tracked] = {}
        self._buckets: dict[int, dict[SessionId, None]] = {}
        self._next_due_ms = self._bucket_after(now.mono_ms)

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._sessions

    def _bucket_after(self, mono_ms: int) -> int:
        return (mono_ms // self._tick_ms + 1) * self._tick_ms

    def track(self, now: Instant, session_id: SessionId, timeout_ms: int) -> None:
        """Add a session, or restart its full timeout if it is tracked already.

        This does not count as a message from the session.
        """
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = _Tracked(timeout_ms)
        if not session.closing:
            self._put_off(now, session_id, session, timeout_ms)

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int, by: int) -> bool:
        """Record that server `by` received a message of the session.

        Return False if the session is unknown or closing.
        """
        session = self._sessions.get(session_id)
        if session is None or session.closing:
            return False
        session.heard_ms = now.mono_ms
        session.heard_by = by
        self._put_off(now, session_id, session, timeout_ms)
        return True

    def _put_off(self, now: Instant, session_id: SessionId, session: _Tracked, timeout_ms: int) -> None:
        due_ms = self._bucket_after(now.mono_ms + timeout_ms)
        if due_ms != session.due_ms:
            self._leave_bucket(session_id, session)
            session.due_ms = due_ms
            self._buckets.setdefault(due_ms, {})[session_id] = None

    def _leave_bucket(self, session_id: SessionId, session: _Tracked) -> None:
        bucket = self._buckets.get(session.due_ms)
        if bucket is not None:
            bucket.pop(session_id, None)
            if not bucket:
                del self._buckets[session.due_ms]

    def close(self, session_id: SessionId) -> None:
        """Mark a session as closing, because its close was proposed; requests from it are rejected from now on."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.closing = True
            self._leave_bucket(session_id, session)

    def remove(self, session_id: SessionId) -> None:
        """Remove a session whose close was committed."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._leave_bucket(session_id, session)

    def is_alive(self, session_id: SessionId) -> bool:
        """Return whether the session exists and is not closing."""
        session = self._sessions.get(session_id)
        return session is not None and not session.closing

    def owned_by(self, session_id: SessionId, owner: Owner) -> bool:
        """Return whether this owner can send requests of the session.

        A session without an owner is assigned to the first owner that sends a request for it.
        """
        session = self._sessions[session_id]
        if session.owner == UNOWNED:
            session.owner = owner
        return session.owner == owner

    def standing(self, session_id: SessionId, owner: Owner) -> bool | None:
        """Return None if the session is not alive, otherwise the result of `owned_by`."""
        session = self._sessions.get(session_id)
        if session is None or session.closing:
            return None
        if session.owner == UNOWNED:
            session.owner = owner
        return session.owner == owner

    def set_owner(self, session_id: SessionId, owner: Owner) -> None:
        """Set the owner of a session, because the session was validated on that server."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.owner = owner

    def by_due_time(self) -> list[tuple[int, list[SessionId]]]:
        """Return (expiry time, sessions) pairs for the command `dump`, earliest first.

        A session expires at its time if it remains inactive until then. Times are on the monotonic clock.
        """
        return [(due_ms, list(bucket)) for due_ms, bucket in sorted(self._buckets.items())]

    def expire(self, now: Instant) -> list[Overdue]:
        """Mark every overdue session as closing; return these sessions, earliest due time first."""
        overdue: list[Overdue] = []
        while self._next_due_ms <= now.mono_ms:
            for session_id in self._buckets.pop(self._next_due_ms, ()):
                session = self._sessions[session_id]
                session.closing = True
                heard_ms_ago = now.mono_ms - session.heard_ms if session.heard_ms >= 0 else -1
                overdue.append(Overdue(session_id, session.timeout_ms, heard_ms_ago, session.heard_by))
            if not self._buckets:
                self._next_due_ms = self._bucket_after(now.mono_ms)
            else:
                self._next_due_ms += self._tick_ms
        return overdue
