"""What local sessions and clients of a read-only server ask for (QuorumZooKeeperServer, ReadOnlyZooKeeperServer)."""

from __future__ import annotations

from ensemble.errors import ErrorCode
from ensemble.ids import SessionId
from ensemble.ports import Instant
from ensemble.records import OpCode, Reply, Request
from ensemble.tree.connections import Connection, Waiting
from ensemble.tree.local_sessions import NEEDS_A_QUORUM, LocalSessions, wants_ephemeral
from ensemble.tree.statistics import ServiceViews
from ensemble.txn import CreateSessionTxn
from ensemble.zab.application import EnsembleConfig, Submit
from ensemble.zab.effects import Effect
from ensemble.zab.messages import ForwardedRequest


class LocalRequests(ServiceViews):
    """The part of a `Service` that looks after connections which are `alone`: no leader knows of their sessions."""

    _config: EnsembleConfig
    _local: LocalSessions | None
    """None where local sessions are not enabled."""
    _read_only: bool

    def local_sessions(self) -> list[tuple[SessionId, int]]:
        """(id, timeout in milliseconds) of the sessions that only this server knows."""
        return self._local.listed() if self._local is not None else []

    def _open_local(self, now: Instant, local: LocalSessions, client: Connection, effects: list[Effect]) -> None:
        """A new local session for a client."""
        if not len(local):
            effects.append(local.next_expiry(now))
        local.open(now, client.session_id, client.timeout_ms)

    def _touch_alone(self, now: Instant, client: Connection) -> bool:
        """A read-only server without local sessions keeps no book: it cannot know whether a session is over."""
        return self._local is None or self._local.touch(now, client.session_id, client.timeout_ms)

    def _stays_here(self, waiting: Waiting, request: Request, effects: list[Effect]) -> bool:
        """Whether a request is no leader's business although its kind is.  One that needs a global session opens it."""
        local, client, op = self._local, waiting.connection, request.op
        session_id = client.session_id
        is_local = local is not None and session_id in local
        if op == OpCode.CLOSE_SESSION and is_local:
            return True
        if self._read_only:
            if op not in NEEDS_A_QUORUM and op != OpCode.CLOSE_SESSION:
                return False
            waiting.body, waiting.problem = None, ErrorCode.NOT_READ_ONLY
            return True
        if local is not None and is_local and local.upgrading and wants_ephemeral(request):
            local.close(session_id)
            client.alone = False
            body = CreateSessionTxn(client.timeout_ms).encode()
            effects.append(Submit(ForwardedRequest(session_id, 0, OpCode.CREATE_SESSION, body)))
        return False

    def _close_local(self, waiting: Waiting) -> Reply:
        """The answer to a local session's closeSession, once its turn has come."""
        assert self._local is not None, "any other closeSession is a transaction"
        self._local.close(waiting.connection.session_id)
        waiting.closes = True
        return Reply(waiting.cxid, self._tree.last_zxid, 0)
