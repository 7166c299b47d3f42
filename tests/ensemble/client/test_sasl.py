"""SASL in the client: the DIGEST-MD5 computation, and when a session uses it, in virtual time."""

from __future__ import annotations

import pytest

from tests.ensemble.client.client_fakes import FakeConnection, FakeEnsemble
from zabka.ensemble.auth.digest_md5 import DigestMd5Server, SaslError, proof, secret_of
from zabka.ensemble.auth.digest_md5_client import DigestMd5Client
from zabka.ensemble.client.sasl import SaslLogin
from zabka.ensemble.client.service import SessionState
from zabka.ensemble.client.session import Session
from zabka.ensemble.errors import AuthFailed, ErrorCode
from zabka.ensemble.records import AUTH_XID, OpCode, PathWatchRequest, Reply, Request, SaslRequest, SaslResponse

USER, PASSWORD = 'a "quoted" \\ user', "secret"


def server(users: dict[str, str] | None = None) -> DigestMd5Server:
    return DigestMd5Server({USER: PASSWORD} if users is None else users, "nonce")


# -- the mechanism


def test_digest_md5_matches_the_example_of_rfc_2831() -> None:
    nonce, cnonce, realm = "OA6MG9tEQGm2hh", "OA6MHXh6VqTrRk", "elwood.innosoft.com"
    secret = secret_of("chris", realm, "secret", nonce, cnonce, None)
    uri = f"imap/{realm}"
    assert proof(secret, nonce, cnonce, f"AUTHENTICATE:{uri}") == b"d388dad90d4bbd760a152321f2143af7"
    assert proof(secret, nonce, cnonce, f":{uri}") == b"ea40f60335c427b5527b84dbabcdfffd"


def test_client_and_server_authenticate_each_other() -> None:
    client, other = DigestMd5Client(USER, PASSWORD, "cnonce"), server()
    user, answer = other.verify(client.respond(other.challenge()))
    assert user == USER
    client.check(answer)


def test_client_detects_a_server_that_lacks_the_password() -> None:
    client = DigestMd5Client(USER, PASSWORD, "cnonce")
    client.respond(server().challenge())
    with pytest.raises(SaslError, match="does not know"):
        client.check(b"rspauth=" + b"0" * 32)


@pytest.mark.parametrize(
    "challenge",
    [b"", b"garbage", b'realm="r"', b'nonce="n",algorithm=md5', b'nonce="n",algorithm=md5-sess,qop="auth-int"'],
)
def test_unsupported_sasl_challenge_is_an_error(challenge: bytes) -> None:
    with pytest.raises(SaslError):
        DigestMd5Client(USER, PASSWORD, "cnonce").respond(challenge)


# -- in a session


class Guarded(FakeEnsemble):
    """Servers that require SASL."""

    def __init__(self, users: dict[str, str] | None = None) -> None:
        super().__init__()
        self.users = users
        self.scripted[OpCode.SASL] = self.on_sasl
        self.negotiations: dict[FakeConnection, DigestMd5Server] = {}

    def on_sasl(self, connection: FakeConnection, request: Request) -> Reply:
        assert isinstance(request.body, SaslRequest)
        if connection not in self.negotiations:
            self.negotiations[connection] = server(self.users)
            return Reply(request.xid, 0, 0, SaslResponse(self.negotiations[connection].challenge()))
        try:
            _, token = self.negotiations[connection].verify(request.body.token or b"")
        except SaslError:
            return Reply(request.xid, 0, ErrorCode.AUTH_FAILED)
        return Reply(request.xid, 0, 0, SaslResponse(token))

    def session(self) -> tuple[Session, list[SessionState]]:
        session = Session(
            ["a:1", "b:2"], self, self.runtime, session_timeout_ms=6_000,
            login=SaslLogin(USER, PASSWORD, lambda: "cnonce"),
        )  # fmt: skip
        states: list[SessionState] = []
        session.add_listener(states.append)
        session.open()
        return session, states

    def ops(self) -> list[int]:
        return [message.op for message in self.last.sent if isinstance(message, Request)]


def test_no_request_is_sent_before_the_client_is_authenticated() -> None:
    world = Guarded()
    session, states = world.session()
    session.add_auth("digest", b"u:p")
    early = session.request(OpCode.EXISTS, PathWatchRequest("/a", False))
    world.advance(100)
    assert states == [SessionState.CONNECTED] and early.done()
    assert world.ops() == [OpCode.SASL, OpCode.SASL, OpCode.AUTH, OpCode.EXISTS]
    xids = [message.xid for message in world.last.sent if isinstance(message, Request)]
    assert xids == [1, 2, AUTH_XID, 3]


def test_every_new_connection_is_authenticated_again() -> None:
    world = Guarded()
    _, states = world.session()
    world.advance(100)
    world.last.drop()
    world.advance(1_000)
    assert states == [SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.CONNECTED]
    assert world.ops() == [OpCode.SASL, OpCode.SASL] and len(world.negotiations) == 2


def test_rejected_sasl_login_ends_the_session_and_waiting_calls() -> None:
    world = Guarded(users={})
    session, states = world.session()
    early = session.request(OpCode.EXISTS, PathWatchRequest("/a", False))
    world.advance(100)
    assert states == [SessionState.CLOSED] and session.auth_failed
    with pytest.raises(AuthFailed):
        early.result()


def test_server_without_sasl_causes_auth_failed() -> None:
    world = Guarded()
    world.scripted[OpCode.SASL] = lambda connection, request: Reply(request.xid, 0, 0, SaslResponse(None))
    session, states = world.session()
    world.advance(100)
    assert states == [SessionState.CLOSED] and session.auth_failed


def test_connection_lost_during_sasl_raises_connection_loss() -> None:
    world = Guarded()
    world.scripted[OpCode.SASL] = lambda connection, request: connection.drop()
    session, states = world.session()
    world.advance(20)
    world.scripted[OpCode.SASL] = world.on_sasl
    world.advance(3_000)
    assert states == [SessionState.CONNECTED] and not session.auth_failed
