"""Fetch sessions (KIP-227), in which requests and responses contain only the partitions that changed.

Source: Kafka's FetchSession, FetchSessionCache and FetchManager. If a broker has no free slot for another session, it
responds with session id 0, and the fetcher continues with full fetches.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.broker_sim.ports import FetchedPartition, FetchPartition
from zabka.ensemble.ports import Random

NO_SESSION = 0
FINAL_EPOCH, INITIAL_EPOCH = -1, 0
"""Session epochs of a full fetch: without a session, and to create a session."""
_EPOCH_MAX = _SESSION_ID_MAX = 2**31 - 1

FetchKey = tuple[Hashable, int]
"""Identifies a partition as the fetcher does: by the topic's name or id, and the partition number."""

Asked = dict[FetchKey, FetchPartition]
Rows = dict[FetchKey, FetchedPartition]


class Request(NamedTuple):
    """The session fields of a Fetch request. `forgotten` are partitions to remove from the session."""

    session_id: int
    session_epoch: int
    is_follower: bool
    uses_topic_ids: bool
    asked: Asked
    forgotten: Collection[FetchKey]


class FetchRefused(NamedTuple):
    """Error: the fetch session in the request does not exist or has another epoch."""

    error: ErrorCode


class _Session:
    __slots__ = ("created_ms", "epoch", "id", "is_follower", "known", "partitions", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, request: Request, rows: Rows, now_ms: int) -> None:
        self.id = session_id
        self.is_follower = request.is_follower
        self.uses_topic_ids = request.uses_topic_ids
        self.partitions: Asked = {key: request.asked[key] for key in rows}
        self.known = {key: _known_values(row) for key, row in rows.items()}
        self.created_ms = self.used_ms = now_ms
        self.epoch = 1

    def update(self, asked: Mapping[FetchKey, FetchPartition], forgotten: Collection[FetchKey]) -> None:
        self.partitions.update(asked)
        for key in forgotten:
            self.partitions.pop(key, None)
            self.known.pop(key, None)

    def news(self, rows: Rows) -> Rows:
        """Return the entries whose content the fetcher does not know yet.

        Partitions with records move to the end of the session.
        """
        news: Rows = {}
        for key, row in rows.items():
            known = _known_values(row)
            previous = self.known.get(key)
            is_news = row.records or row.error or row.diverging is not None or row.preferred_read_replica >= 0
            if is_news or known != previous:
                news[key] = row
                self.known[key] = known
            if row.records and key in self.partitions:
                self.partitions[key] = self.partitions.pop(key)
        return news


def _known_values(row: FetchedPartition) -> tuple[int, int]:
    """Return the values that a fetcher knows after this response: (high watermark, log start offset).

    After an error, or if it has to truncate first, the fetcher ignores the high watermark. The next response then
    contains an entry for this partition even if nothing has changed.
    """
    is_taken_over = not row.error and row.diverging is None
    return row.high_watermark if is_taken_over else -1, row.log_start_offset


class FetchContext:
    """One Fetch request: its partitions, and which of their entries the response contains."""

    __slots__ = ("_epoch", "_now_ms", "_request", "_session", "_sessions", "partitions")

    def __init__(self, request: Request, sessions: FetchSessions, session: _Session | None, now_ms: int) -> None:
        self._request = request
        self._sessions = sessions
        self._session = session
        self._epoch = NO_SESSION if session is None else session.epoch
        self._now_ms = now_ms
        self.partitions: Asked = request.asked if session is None else dict(session.partitions)

    def without_rows(self) -> tuple[ErrorCode, int]:
        """Return (error, session id) of a response without partitions.

        The fetch session stays unchanged, as if no partition had been read.
        """
        session = self._session
        if session is None:
            return ErrorCode.none, NO_SESSION
        if session.epoch != self._epoch:
            return ErrorCode.invalid_fetch_session_epoch, session.id
        return ErrorCode.none, session.id

    def finish(self, rows: Rows) -> tuple[ErrorCode, int, Rows]:
        """Complete the request. Return (error, session id, the entries to send)."""
        session = self._session
        if session is None:
            if self._request.session_epoch == FINAL_EPOCH or self._request.session_id != NO_SESSION:
                return ErrorCode.none, NO_SESSION, rows
            return ErrorCode.none, self._sessions.create(self._request, rows, self._now_ms), rows
        if session.epoch != self._epoch:
            # Another request with the same session epoch was processed first.
            return ErrorCode.invalid_fetch_session_epoch, session.id, {}
        return ErrorCode.none, session.id, session.news(rows)


class FetchSessions:
    """The fetch sessions of one broker, at most `slots` (max.incremental.fetch.session.cache.slots)."""

    def __init__(self, random: Random, slots: int, eviction_ms: int) -> None:
        self._random = random
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, _Session] = {}
        """Fetch sessions keyed by id, the least recently used first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: Request, now_ms: int) -> FetchContext | FetchRefused:
        """Find the session that a fetch continues, if any, and update it.

        The fetch is rejected with FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            return FetchContext(request._replace(session_id=NO_SESSION), self, None, now_ms)
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchRefused(ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            return FetchRefused(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != request.uses_topic_ids:
            return FetchRefused(ErrorCode.fetch_session_topic_id_error)
        session.update(request.asked, request.forgotten)
        del self._sessions[session.id]
        if not session.partitions:
            return FetchContext(request, self, None, now_ms)
        self._sessions[session.id] = session
        session.used_ms = now_ms
        session.epoch = session.epoch + 1 if session.epoch < _EPOCH_MAX else 1
        return FetchContext(request, self, session, now_ms)

    def partitions(self, session_id: int) -> Collection[FetchKey]:
        """Return the partitions of a session; none if it does not exist."""
        session = self._sessions.get(session_id)
        return () if session is None else list(session.partitions)

    def create(self, request: Request, rows: Rows, now_ms: int) -> int:
        """Create a session with the partitions of a full fetch. Return its id, or 0 if there is no free slot."""
        if len(self._sessions) >= self._slots and not self._evict(request.is_follower, len(rows), now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randrange(1, _SESSION_ID_MAX)
        self._sessions[session_id] = _Session(session_id, request, rows, now_ms)
        return session_id

    def _evict(self, is_follower: bool, size: int, now_ms: int) -> bool:
        """Evict a session to make room for a new session of `size` partitions. Return False if none can be evicted.

        Sessions are considered in this order: sessions that were unused for longer than the limit; for a follower,
        sessions of consumers; sessions of the same kind with fewer partitions. A session created within the limit is
        not evicted, except that a follower evicts any consumer's session.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > self._eviction_ms:
            del self._sessions[oldest.id]
            return True
        candidates = [
            (session.is_follower, len(session.partitions), session.id)
            for session in self._sessions.values()
            if now_ms - session.created_ms > self._eviction_ms or (is_follower and not session.is_follower)
        ]
        if not candidates or (is_follower, size, 0) < min(candidates):
            return False
        del self._sessions[min(candidates)[2]]
        return True
