"""The less common authentication schemes: our server and Apache ZooKeeper 3.9.5 send equal replies to the same
packets.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.interop_servers import running
from tests.interop.test_client_protocol import Talk, create
from zabka.ensemble.auth.digest_md5_client import DigestMd5Client
from zabka.ensemble.records import (
    ACL,
    AuthPacket,
    DeleteRequest,
    EmptyRequest,
    OpCode,
    PathRequest,
    PathWatchRequest,
    SaslRequest,
    SetACLRequest,
    SetDataRequest,
)

pytestmark = pytest.mark.long

PROVIDER = "org.apache.zookeeper.server.auth."
SETTINGS = {
    "authProvider.1": f"{PROVIDER}EnsembleAuthenticationProvider",
    "authProvider.2": f"{PROVIDER}KeyAuthenticationProvider",
    "authProvider.3": f"{PROVIDER}SASLAuthenticationProvider",
    "authProvider.4": f"{PROVIDER}X509AuthenticationProvider",
    "ensembleAuthName": "alpha, beta ,",
    "letAnySaslUserDoX": "anybody",
    "superUser": "boss",
    "superUser.2": "deputy",
    "SASLAuthenticationProvider.superPassword": "changed",
}
JAAS = """Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="secret" user_ann="one" user_boss="two" user_deputy="three";
};
"""
KEY_ACLS = [
    ("key", ""),
    ("key", "x"),
    ("ensemble", ""),
    ("ensemble", "alpha"),
    ("auth", ""),
    ("sasl", ""),
    ("ip", ""),
    ("x509", ""),
    ("digest", ""),
]


class RecordedTalk(Talk):
    """Connection that records each request with its reply, and whether the server closed it."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.replies: list[object] = []

    def send(self, op: int, body: object) -> None:
        try:
            self.replies.append((int(op), self.ask(op, body)))  # type: ignore[arg-type]
        except (AssertionError, OSError):
            self.replies.append((int(op), "closed"))

    def auth(self, scheme: str, credentials: bytes | None) -> None:
        self.send(OpCode.AUTH, AuthPacket(0, scheme, credentials))

    def end(self) -> list[object]:
        self.send(OpCode.WHO_AM_I, EmptyRequest())
        self.close()
        return self.replies

    def sasl(self, user: str, password: str) -> None:
        negotiation = DigestMd5Client(user, password, "cnonce")
        (challenge,) = self.ask(OpCode.SASL, SaslRequest(b""))
        try:
            ((error, _),) = self.ask(OpCode.SASL, SaslRequest(negotiation.respond(challenge[1][0])))  # type: ignore[index,misc]
            self.replies.append((user, error))
        except (AssertionError, OSError):
            self.replies.append((user, "closed"))


def all_replies(port: int) -> list[object]:
    """Return all replies to clients that send the packets of the two simple schemes."""
    replies: list[object] = []
    for scheme, credentials in [
        *(("ensemble", name) for name in (b"alpha", b"beta", b" beta", b"gamma", b"", None, b"\xff")),
        *(("key", any_number) for any_number in (b"", b"seven", None)),
        ("sasl", b"ann"), ("nobody", b"x"), ("super", b""), ("x509", b"CN=a"), ("ip", b""),
    ]:  # fmt: skip
        one = RecordedTalk(port)
        one.auth(scheme, credentials)
        replies.append((scheme, credentials, one.end()))
    return replies + with_key(port) + acls(port)


def with_key(port: int) -> list[object]:
    replies: list[object] = []
    owner = RecordedTalk(port)
    owner.send(OpCode.CREATE, create("/key", None))
    for key in (None, b"", b"7", b"-7", b"0", b"+3", b"x", b"2147483648"):
        owner.send(OpCode.SET_DATA, SetDataRequest("/key", key, -1))
        for given in (b"14", b"-21", b"0", b"5", b"", b"9 ", b"99999999999", None):
            one = RecordedTalk(port)
            one.auth("key", given)
            replies.append((key, given, one.end()))
    owner.send(OpCode.DELETE, DeleteRequest("/key", -1))
    return [*replies, owner.end()]


def acls(port: int) -> list[object]:
    one, other = RecordedTalk(port), RecordedTalk(port)
    one.auth("key", b"1")
    other.auth("ensemble", b"alpha")
    for who in (one, other):
        for number, (scheme, name) in enumerate(KEY_ACLS):
            path = f"/acl{number}"
            who.send(OpCode.CREATE, create(path, b"x", 0, (ACL(31, scheme, name),)))
            who.send(OpCode.GET_ACL, PathRequest(path))
            who.send(OpCode.GET_DATA, PathWatchRequest(path, False))
        for number in range(len(KEY_ACLS)):
            who.send(OpCode.SET_ACL, SetACLRequest(f"/acl{number}", [ACL(31, "world", "anyone")], -1))
            who.send(OpCode.DELETE, DeleteRequest(f"/acl{number}", -1))
    return [one.end(), other.end()]


def sasl_users(port: int) -> list[object]:
    owner = RecordedTalk(port)
    for name in ("anybody", "ann", "zoe"):
        owner.send(OpCode.CREATE, create(f"/{name}", b"x", 0, (ACL(31, "sasl", name),)))
    replies = owner.end()
    for user, password in [
        ("ann", "one"),
        ("super", "changed"),
        ("super", "secret"),
        ("boss", "two"),
        ("deputy", "three"),
    ]:
        one = RecordedTalk(port)
        one.sasl(user, password)
        for name in ("anybody", "ann", "zoe"):
            one.send(OpCode.GET_ACL, PathRequest(f"/{name}"))
            one.send(OpCode.SET_DATA, SetDataRequest(f"/{name}", b"y", -1))
            one.send(OpCode.CREATE, create(f"/{name}/{user}", b"", 0, (ACL(31, "auth", ""),)))
            one.send(OpCode.GET_ACL, PathRequest(f"/{name}/{user}"))
        replies.append((user, one.end()))
    return replies


def test_same_auth_packets_get_equal_replies_from_both_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jaas = tmp_path / "jaas"
    jaas.write_text(JAAS)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={jaas}")
    ours_keys = {**SETTINGS, "java.security.auth.login.config": str(jaas)}
    with (
        running("ours", 1, tmp_path / "o", **ours_keys) as ours,
        running("zookeeper", 1, tmp_path / "z", **SETTINGS) as theirs,
    ):
        for transcript in (all_replies, sasl_users):
            mine, real = transcript(ours.servers[0].port), transcript(theirs.servers[0].port)
            assert [pair for pair in zip(mine, real, strict=True) if pair[0] != pair[1]] == []
