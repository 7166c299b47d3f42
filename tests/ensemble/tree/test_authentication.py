"""How clients authenticate: auth packets, SASL DIGEST-MD5, certificates, and servers that require authentication."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ensemble.tree.tree_driver import Ensemble, children, create, exists, get, set_acl, set_data
from zabka.ensemble.auth.digest_md5 import DigestMd5Server, SaslError, proof, secret_of
from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.auth.schemes import digest_of
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import (
    ACL,
    OPEN_ACL,
    AuthPacket,
    Frames,
    OpCode,
    PathRequest,
    Reply,
    Request,
    SaslRequest,
    SaslResponse,
)
from zabka.ensemble.tree.acl import masked

HERE = (("ip", "127.0.0.1"),)
USERS = {"jaasuser": "jaas_password", "super": "secret", "jörg": "ß"}
SASL = AuthPolicy(schemes=frozenset({"ip", "digest", "sasl"}), sasl_users=USERS)


def auth(ensemble: Ensemble, connection: int, scheme: str, credentials: bytes | None) -> Reply:
    ensemble.message(connection, Request.decode(Request(-4, OpCode.AUTH, AuthPacket(0, scheme, credentials)).encode()))
    reply = ensemble.sent[connection][-1]
    assert isinstance(reply, Reply) and reply.xid == -4
    return reply


def token(ensemble: Ensemble, connection: int, data: bytes | None) -> Reply:
    return ensemble.ask(connection, (OpCode.SASL, SaslRequest(data)))


def answered(challenge: bytes, user: str = "jaasuser", password: str = "jaas_password", **other: str) -> bytes:
    """Compute a client's digest-response to the server's challenge (RFC 2831)."""
    nonce = challenge.decode().split('nonce="')[1].split('"')[0]
    given = {
        "username": user, "realm": "zk-sasl-md5", "nonce": nonce, "cnonce": "c", "nc": "00000001", "qop": "auth",
        "digest-uri": "zookeeper/zk-sasl-md5", "charset": "utf-8", **other,
    }  # fmt: skip
    secret = secret_of(user, given["realm"], password, nonce, given["cnonce"], given.get("authzid"))
    response = proof(secret, nonce, given["cnonce"], f"AUTHENTICATE:{given['digest-uri']}")
    return ",".join([*(f'{k}="{v}"' for k, v in given.items() if v), f"response={response.decode()}"]).encode()


def logged_in(ensemble: Ensemble, connection: int, user: str = "jaasuser", password: str = "jaas_password") -> Reply:
    challenge = token(ensemble, connection, b"").body
    assert isinstance(challenge, SaslResponse) and challenge.token is not None
    return token(ensemble, connection, answered(challenge.token, user, password))


# -- DIGEST-MD5 ------------------------------------------------------------------------------------------------------


def test_digest_response_equals_the_example_of_rfc_2831() -> None:
    nonce, cnonce, uri = "OA6MG9tEQGm2hh", "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com"
    secret = secret_of("chris", "elwood.innosoft.com", "secret", nonce, cnonce, None)
    assert proof(secret, nonce, cnonce, f"AUTHENTICATE:{uri}") == b"d388dad90d4bbd760a152321f2143af7"
    assert proof(secret, nonce, cnonce, f":{uri}") == b"ea40f60335c427b5527b84dbabcdfffd"


def test_sasl_challenge_has_the_format_of_java() -> None:
    assert DigestMd5Server(USERS, "n").challenge() == (
        b'realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess'
    )


@pytest.mark.parametrize(
    "other", [{}, {"digest-uri": "ZooKeeper/ZK-SASL-MD5"}, {"authzid": "super"}, {"nc": "1"}, {"foo": "b"}]
)
def test_correct_digest_response_authenticates_only_its_user(other: dict[str, str]) -> None:
    server = DigestMd5Server(USERS, "n")
    user, proof = server.verify(answered(server.challenge(), **other))
    assert (user, proof[:8], len(proof)) == ("jaasuser", b"rspauth=", 40)
    with pytest.raises(SaslError):
        server.verify(answered(server.challenge()))


def test_non_ascii_names_are_hashed_as_latin_1_if_possible() -> None:
    server = DigestMd5Server(USERS, "n")
    assert server.verify(answered(server.challenge(), "jörg", "ß"))[0] == "jörg"


@pytest.mark.parametrize(
    "response",
    [
        b"", b"xx", b"\xff", b"a=b,a=b", b'username="jaasuser"', bytes(5000),
        *(answered(b'nonce="n"', **{name: "wrong"}) for name in ("realm", "nonce", "qop", "charset", "digest-uri")),
        *(answered(b'nonce="n"', **{name: ""}) for name in ("username", "realm", "nonce", "cnonce", "digest-uri")),
        answered(b'nonce="n"', nc="00000002"), answered(b'nonce="n"', password="wrong"),
        answered(b'nonce="n"', user="nobody"), answered(b'nonce="other"'),
        answered(b'nonce="n"').replace(b"response=", b"response=0"),
    ],
)  # fmt: skip
def test_wrong_digest_response_error_contains_no_password(response: bytes) -> None:
    with pytest.raises(SaslError) as caught:
        DigestMd5Server(USERS, "n").verify(response)
    assert "jaas_password" not in str(caught.value)


@given(st.one_of(st.binary(), st.text(alphabet='username="jnoc,\\ =').map(str.encode)))
def test_random_sasl_response_raises_only_sasl_error(response: bytes) -> None:
    with pytest.raises(SaslError):
        DigestMd5Server(USERS, "n").verify(response)


# -- the schemes ensemble and key ------------------------------------------------------------------------------------

RARE = frozenset({"ip", "ensemble", "key"})


def turned_away(ensemble: Ensemble, connection: int, scheme: str, credentials: bytes | None) -> bool:
    """Send an auth packet. Return whether the server closes the connection without a reply."""
    before = len(ensemble.sent[connection])
    ensemble.message(connection, Request.decode(Request(-4, OpCode.AUTH, AuthPacket(0, scheme, credentials)).encode()))
    return connection in ensemble.closed and len(ensemble.sent[connection]) == before


def test_client_of_another_ensemble_is_disconnected_silently() -> None:
    ensemble = Ensemble(auth=AuthPolicy(schemes=RARE, ensemble_names=frozenset({"alpha", "beta"})))
    one, lost = ensemble.connect(identities=HERE), ensemble.connect(identities=HERE)
    for name in (b"alpha", b"", None):
        assert auth(ensemble, one, "ensemble", name) == Reply(-4, 0, 0)
    assert ensemble.ask(one, create("/a", acl=(ACL(31, "auth", ""),))).err == ErrorCode.INVALID_ACL
    assert ensemble.ask(one, create("/a", acl=(ACL(31, "ensemble", "alpha"),))).err == ErrorCode.INVALID_ACL
    assert turned_away(ensemble, lost, "ensemble", b"gamma")
    counts = ensemble.services[0].ensemble_auth
    assert (counts.ensemble_auth_success, counts.ensemble_auth_skip, counts.ensemble_auth_fail) == (1, 2, 1)


def test_ensemble_auth_accepts_any_name_if_none_is_configured() -> None:
    nameless, plain = Ensemble(auth=AuthPolicy(schemes=RARE)), Ensemble()
    assert auth(nameless, nameless.connect(), "ensemble", b"gamma").err == 0
    assert auth(plain, plain.connect(), "ensemble", b"gamma").err == ErrorCode.AUTH_FAILED
    assert auth(plain, plain.connect(), "key", b"1").err == ErrorCode.AUTH_FAILED


def test_key_auth_requires_a_multiple_of_the_configured_key() -> None:
    ensemble = Ensemble(auth=AuthPolicy(schemes=RARE))
    first = ensemble.connect()
    assert auth(ensemble, first, "key", b"any").err == 0
    assert ensemble.ask(first, create("/key", b"7", acl=(ACL(31, "auth", ""),))).err == 0
    assert auth(ensemble, ensemble.connect(), "key", b"8").err == ErrorCode.AUTH_FAILED
    assert auth(ensemble, ensemble.connect(), "key", None).err == ErrorCode.AUTH_FAILED
    stranger, second = ensemble.connect(), ensemble.connect()
    assert auth(ensemble, second, "key", b"21").err == 0
    assert ensemble.ask(second, get("/key")).err == 0
    assert ensemble.ask(stranger, get("/key")).err == ErrorCode.NO_AUTH


# -- at a server -----------------------------------------------------------------------------------------------------


def test_sasl_user_gets_the_access_of_its_acl() -> None:
    ensemble = Ensemble(auth=SASL)
    one, other = ensemble.connect(), ensemble.connect()
    assert logged_in(ensemble, one).err == 0
    assert ensemble.ask(one, create("/s", b"x", acl=(ACL(31, "sasl", "jaasuser"),))).err == 0
    assert ensemble.ask(other, get("/s")).err == ErrorCode.NO_AUTH
    assert ensemble.ask(one, get("/s")).err == 0


def test_acl_can_grant_access_to_any_sasl_user() -> None:
    ensemble = Ensemble(auth=AuthPolicy(schemes=SASL.schemes, sasl_users=USERS, any_sasl_user="anybody"))
    one, plain = ensemble.connect(), ensemble.connect()
    assert ensemble.ask(plain, create("/s", b"x", acl=(ACL(31, "sasl", "anybody"),))).err == 0
    assert ensemble.ask(plain, get("/s")).err == ErrorCode.NO_AUTH
    assert logged_in(ensemble, one).err == 0
    assert ensemble.ask(one, get("/s")).err == 0
    assert ensemble.ask(one, create("/s/own", acl=(ACL(31, "auth", ""),))).err == 0
    assert ensemble.services[0].tree.nodes["/s/own"].acl == (ACL(31, "sasl", "jaasuser"),)


def test_wrong_sasl_password_gets_auth_failed_and_an_empty_token() -> None:
    ensemble = Ensemble(auth=SASL)
    client = ensemble.connect()
    reply = logged_in(ensemble, client, password="guess")
    assert (reply.err, reply.body) == (ErrorCode.AUTH_FAILED, SaslResponse(None))
    assert client in ensemble.closed


def test_tolerated_sasl_failure_adds_no_identity() -> None:
    ensemble = Ensemble(auth=AuthPolicy(schemes=SASL.schemes, sasl_users=USERS, sasl_failure_tolerated=True))
    client = ensemble.connect()
    assert logged_in(ensemble, client, password="guess").err == 0
    assert ensemble.ask(client, create("/s", acl=(ACL(31, "auth", ""),))).err == ErrorCode.INVALID_ACL


def test_sasl_request_without_login_configuration_has_no_effect() -> None:
    ensemble = Ensemble()
    client = ensemble.connect()
    reply = token(ensemble, client, b"")
    assert (reply.err, reply.body) == (0, SaslResponse(None))


def test_unreadable_sasl_token_or_packet_closes_the_connection() -> None:
    for frame in (b"\0\0\0\1\0\0\0\x66", b"\0\0\0\1\0\0\0\x66\xff\xff\xff\xff", b"\xff\xff\xff\xfc\0\0\0\x64\0\0\0\0"):
        ensemble = Ensemble(auth=SASL)
        client = ensemble.connect()
        before = len(ensemble.sent[client])
        ensemble.message(client, Request.decode(frame))
        assert client in ensemble.closed
        assert len(ensemble.sent[client]) == before


def test_sasl_super_user_passes_every_acl() -> None:
    policy = AuthPolicy(schemes=SASL.schemes, sasl_users=USERS, sasl_super_users=("jaasuser",))
    ensemble = Ensemble(auth=policy)
    owner, admin = ensemble.connect(), ensemble.connect()
    auth(ensemble, owner, "digest", b"ann:pw")
    ensemble.ask(owner, create("/own", acl=(ACL(31, "auth", ""),)))
    logged_in(ensemble, admin)
    assert ensemble.ask(admin, get("/own")).err == 0


def test_digest_super_user_passes_every_acl_and_sees_hashes() -> None:
    for policy, error in ((AuthPolicy(super_digest=digest_of("super:test")), 0), (AuthPolicy(), ErrorCode.NO_AUTH)):
        ensemble = Ensemble(auth=policy)
        owner, admin = ensemble.connect(), ensemble.connect()
        auth(ensemble, owner, "digest", b"ann:pw")
        ensemble.ask(owner, create("/own", acl=(ACL(31, "auth", ""),)))
        assert auth(ensemble, admin, "digest", b"super:test").err == 0
        assert ensemble.ask(admin, set_data("/own", b"x")).err == error
        reply = ensemble.ask(admin, (OpCode.GET_ACL, PathRequest("/own")))
        assert reply.err == error
        assert error or reply.body.acl[0].id == digest_of("ann:pw")


def test_ip_identity_matches_network_acls_but_not_auth_acls() -> None:
    ensemble = Ensemble()
    here = ensemble.connect(identities=HERE)
    there = ensemble.connect(identities=(("ip", "10.0.0.1"),))
    assert ensemble.ask(here, create("/near", acl=(ACL(31, "ip", "127.0.0.0/8"),))).err == 0
    assert ensemble.ask(here, get("/near")).err == 0
    assert ensemble.ask(there, get("/near")).err == ErrorCode.NO_AUTH
    assert ensemble.ask(here, create("/a", acl=(ACL(31, "auth", ""),))).err == ErrorCode.INVALID_ACL


def test_leader_checks_acls_with_the_identities_from_a_learner() -> None:
    ensemble = Ensemble(servers=2)
    client = ensemble.connect(server=1, identities=(*HERE, ("x509", "CN=ann")))
    assert auth(ensemble, client, "digest", b"ann:pw").err == 0
    assert ensemble.ask(client, create("/a", acl=(ACL(31, "auth", ""),))).err == 0
    assert ensemble.ask(client, set_data("/a", b"x")).err == 0
    assert ensemble.ask(ensemble.connect(server=1, identities=HERE), set_data("/a", b"x")).err == ErrorCode.NO_AUTH


def test_client_with_an_unknown_auth_scheme_is_disconnected() -> None:
    for scheme in ("world", "super", "nope", "sasl", "x509"):
        ensemble = Ensemble(auth=SASL)
        client = ensemble.connect(identities=HERE)
        assert auth(ensemble, client, scheme, b"anyone").err == ErrorCode.AUTH_FAILED
        assert client in ensemble.closed


def test_required_authentication_must_precede_any_request() -> None:
    policy = AuthPolicy(schemes=SASL.schemes, sasl_users=USERS, required_schemes=("sasl",))
    for request in (exists("/"), create("/a"), (OpCode.PING, None)):
        ensemble = Ensemble(auth=policy)
        client = ensemble.connect(identities=HERE)
        op, body = request
        ensemble.message(client, Request(7, op, body) if body is not None else Frames([Request(7, op, None).encode()]))
        assert ensemble.sent[client][-1] == Reply(7, 0, ErrorCode.SESSION_CLOSED_REQUIRE_SASL)
        assert client in ensemble.closed
    ensemble = Ensemble(auth=policy)
    client = ensemble.connect(identities=HERE)
    assert logged_in(ensemble, client).err == 0
    assert ensemble.ask(client, create("/a")).err == 0
    wrong = ensemble.connect(identities=HERE)
    assert logged_in(ensemble, wrong, password="x").err == ErrorCode.SESSION_CLOSED_REQUIRE_SASL


def test_only_the_first_of_several_rejected_frames_gets_a_reply() -> None:
    ensemble = Ensemble(auth=AuthPolicy(required_schemes=("digest",)))
    client = ensemble.connect(identities=HERE)
    op, body = get("/")
    ensemble.message(client, Frames([Request(xid, op, body).encode() for xid in (1, 2, 3)]))
    assert [m for m in ensemble.sent[client] if isinstance(m, Reply)] == [
        Reply(1, 0, ErrorCode.SESSION_CLOSED_REQUIRE_SASL)
    ]


def test_restricted_acl_applies_immediately_despite_cached_reads() -> None:
    ensemble = Ensemble()
    ann, bob = ensemble.connect(identities=HERE), ensemble.connect(identities=HERE)
    auth(ensemble, ann, "digest", b"ann:pw")
    ensemble.ask(ann, create("/a", b"public"))
    op, body = get("/a")
    frames = Frames([Request(5, op, body).encode()])
    ensemble.message(bob, frames)
    ensemble.ask(ann, set_acl("/a", (ACL(31, "auth", ""),)))
    before = len(ensemble.sent[bob])
    ensemble.message(bob, frames)
    assert b"public" not in b"".join(m if isinstance(m, bytes) else m.encode() for m in ensemble.sent[bob][before:])
    assert ensemble.ask(bob, children("/a")).err == ErrorCode.NO_AUTH
    assert ensemble.ask(ann, set_acl("/a", OPEN_ACL)).err == 0


def test_acl_checks_are_skipped_if_configured() -> None:
    ensemble = Ensemble(auth=AuthPolicy(skip_acl=True))
    client = ensemble.connect(identities=AuthPolicy(skip_acl=True).identities_of("127.0.0.1", None))
    assert ensemble.ask(client, create("/a", acl=(ACL(1, "digest", "x:y"),))).err == 0
    assert ensemble.ask(client, set_data("/a", b"x")).err == 0
    assert ensemble.ask(client, get("/a")).err == 0


def test_only_digest_hashes_are_masked() -> None:
    """getACL masks the part after the colon of `digest` ids only.

    ReferenceCountedACLCache and FinalRequestProcessor.getACL do the same.
    """
    shown = (ACL(31, "ip", "fe80::1"), ACL(31, "digest", "nobody"), ACL(1, "sasl", "a:b"))
    assert masked(shown) == list(shown)
    assert masked((ACL(31, "digest", "u:hash"),)) == [ACL(31, "digest", "u:x")]
