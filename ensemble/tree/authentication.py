"""Authentication of client connections: auth packets, SASL, and required schemes.

Sources: ZooKeeperServer.processPacket and processSasl, AuthenticationHelper, EnsembleAuthenticationProvider,
KeyAuthenticationProvider. As in ZooKeeper, each packet gets its reply at once, not in order with the session's
requests; wrong credentials close the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from zabka.ensemble.auth.digest_md5 import DigestMd5Server, SaslError
from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.auth.schemes import ENSEMBLE, KEY, AuthId, opens
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import AuthPacket, Reply, Request, SaslRequest, SaslResponse
from zabka.ensemble.tree.connections import Connection
from zabka.ensemble.tree.znode import Znode

KEY_PATH = "/key"
"""Znode whose data the credentials of the `key` scheme must match.

If the znode or its data is missing, all credentials are accepted.
"""
KEY_USER: AuthId = (KEY, "")
"""Identity that the `key` scheme proves.

The id should be the key, but KeyAuthenticationProvider leaves it empty.
"""
IDENTITIES_MAX = 1000
IDENTITIES_CHARS_MAX = 64 * 1024
"""Maximum total length of the identities of one connection; IDENTITIES_MAX limits their number.

Every write of the connection sends them to the leader, and each ACL with `auth` contains them: without a limit, one
client could block the links between the servers.
"""


class Verdict(NamedTuple):
    """Result of an authentication request: the reply, and whether to close the connection.

    Without a reply, the connection is closed silently.
    """

    reply: Reply | None
    closes: bool


_UNREADABLE = _TURNED_AWAY = Verdict(None, True)


class EnsembleCounts(msgspec.Struct):
    """Counts of clients by the ensemble name that they sent (ServerMetrics).

    The counts are of clients that named this ensemble, clients that named another one, and clients that named any
    ensemble while no name was configured.
    """

    ensemble_auth_success: int = 0
    ensemble_auth_fail: int = 0
    ensemble_auth_skip: int = 0


class Authentication:
    """Authenticates the clients of one server.

    `new_nonce` must return unpredictable strings; only SASL needs it. `key_node` returns the znode at KEY_PATH.
    """

    __slots__ = ("_key_node", "_new_nonce", "failures", "of_ensemble", "policy")

    def __init__(
        self,
        policy: AuthPolicy,
        new_nonce: Callable[[], str] | None,
        key_node: Callable[[], Znode | None] = lambda: None,
    ) -> None:
        assert policy.sasl_users is None or new_nonce is not None, "SASL without randomness"
        self.policy = policy
        self.failures = 0
        self.of_ensemble = EnsembleCounts()
        self._new_nonce = new_nonce
        self._key_node = key_node

    def welcome(self, client: Connection, identities: tuple[AuthId, ...]) -> None:
        """Set the identities that a new connection proves before it sends credentials."""
        self._add(client, identities)

    def on_auth(self, client: Connection, request: Request) -> Verdict:
        """Process an auth packet."""
        packet = request.body
        if not isinstance(packet, AuthPacket):
            return _UNREADABLE
        if packet.scheme == ENSEMBLE and ENSEMBLE in self.policy.schemes:
            return self._on_ensemble(request.xid, packet.auth)
        if packet.scheme == KEY and KEY in self.policy.schemes:
            proved = self._by_key(packet.auth)
        else:
            proved = self.policy.authenticate(packet.scheme, packet.auth, client.auth)
        if not proved or not _bearable((*client.auth, *proved)):
            return self._refused(request.xid, ErrorCode.AUTH_FAILED)
        self._add(client, proved)
        return Verdict(Reply(request.xid, 0, 0), False)

    def _on_ensemble(self, xid: int, name: bytes | None) -> Verdict:
        """Check the ensemble name that a client sent; if it is another ensemble's name, close the connection silently.

        The client would treat an AuthFailed reply as final, but after a closed connection it tries another server.
        """
        counts = self.of_ensemble
        if not self.policy.knows_ensemble(name):
            counts.ensemble_auth_fail += 1
            return _TURNED_AWAY
        if name and self.policy.ensemble_names is not None:
            counts.ensemble_auth_success += 1
        else:
            counts.ensemble_auth_skip += 1
        return Verdict(Reply(xid, 0, 0), False)

    def _by_key(self, credentials: bytes | None) -> tuple[AuthId, ...]:
        node = self._key_node()
        if credentials is None or (node is not None and node.data is not None and not opens(node.data, credentials)):
            return ()
        return (KEY_USER,)

    def on_sasl(self, client: Connection, request: Request) -> Verdict:
        """Process a client's SASL token: first the initial one, whose content is ignored, then the digest-response."""
        body = request.body
        if not isinstance(body, SaslRequest) or body.token is None:
            return _UNREADABLE
        users = self.policy.sasl_users
        if users is None:
            return Verdict(Reply(request.xid, 0, 0, SaslResponse(None)), False)
        server = client.sasl
        if server is None:
            assert self._new_nonce is not None
            server = client.sasl = DigestMd5Server(users, self._new_nonce())
            return Verdict(Reply(request.xid, 0, 0, SaslResponse(server.challenge())), False)
        try:
            user, answer = server.verify(body.token)
        except SaslError:
            return self._sasl_refused(request.xid)
        self._add(client, self.policy.sasl_identities(user))
        return Verdict(Reply(request.xid, 0, 0, SaslResponse(answer)), False)

    def _sasl_refused(self, xid: int) -> Verdict:
        if self.policy.sasl_required:
            return self._refused(xid, ErrorCode.SESSION_CLOSED_REQUIRE_SASL, SaslResponse(None))
        if self.policy.sasl_failure_tolerated:
            self.failures += 1
            return Verdict(Reply(xid, 0, 0, SaslResponse(None)), False)
        return self._refused(xid, ErrorCode.AUTH_FAILED, SaslResponse(None))

    def bar(self, xid: int) -> Verdict:
        """Return the rejection for a request of a client that has not authenticated with a required scheme."""
        return self._refused(xid, ErrorCode.SESSION_CLOSED_REQUIRE_SASL)

    def _refused(self, xid: int, error: ErrorCode, body: SaslResponse | None = None) -> Verdict:
        self.failures += 1
        return Verdict(Reply(xid, 0, int(error), body), True)

    def _add(self, client: Connection, identities: tuple[AuthId, ...]) -> None:
        client.auth = tuple(dict.fromkeys((*client.auth, *identities)))
        client.rights = self.policy.rights_of(client.auth)
        client.barred = not self.policy.lets_in(client.auth)


def _bearable(identities: Collection[AuthId]) -> bool:
    return len(identities) <= IDENTITIES_MAX and sum(len(id_) for _, id_ in identities) <= IDENTITIES_CHARS_MAX
