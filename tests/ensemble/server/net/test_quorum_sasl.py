"""Servers authenticate each other with SASL DIGEST-MD5 before they send any other message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from bench.free_ports import free_ports
from tests.ensemble.server.pem_files import Authority, needs_openssl
from zabka.ensemble.auth.digest_md5 import SaslError, proof, secret_of
from zabka.ensemble.auth.jaas import digest_login
from zabka.ensemble.auth.quorum_sasl import LearnerSide, QuorumSasl, Refused, ServerSide, Step, packet
from zabka.ensemble.ids import Epoch, LinkId, PeerId, Zxid
from zabka.ensemble.runtime.links import LinkFaults
from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.server.config.tls import TlsSettings, TlsStore
from zabka.ensemble.server.config.zoo_cfg import parse
from zabka.ensemble.server.net.election_port import ElectionPort
from zabka.ensemble.server.net.peer_security import PeerSecurity
from zabka.ensemble.server.net.quorum_auth import QuorumAuth
from zabka.ensemble.server.net.quorum_port import QuorumPort
from zabka.ensemble.zab.messages import FollowerInfo, Notification, Packet, PeerState, Vote
from zabka.ensemble.zab.server_line import parse_server_line


def settings(password: str = "sesame", *, learner: bool = True, server: bool = True) -> QuorumSasl:
    return QuorumSasl(
        users={"zk": "sesame"}, user="zk", password=password, learner_required=learner, server_required=server
    )


def exchange(learner: LearnerSide, server: ServerSide, cut: int) -> tuple[Step, Step]:
    """Run an authentication whose bytes arrive in chunks of `cut` bytes. Return the last SASL step of each side."""
    to_server, answers = learner.first_message(), []
    while True:
        to_learner, to_server = to_server, b""
        step = Step(b"")
        for i in range(0, len(to_learner), cut):
            step = server.feed(to_learner[i : i + cut])
        answer = Step(b"")
        for i in range(0, len(step.send), cut):
            answer = learner.feed(step.send[i : i + cut])
        answers.append(answer)
        to_server = answer.send
        if step.done:
            return answer, step


# -- the SASL exchange -----------------------------------------------------------------------------------------------


def test_first_sasl_packet_equals_the_first_packet_of_java() -> None:
    assert packet(0, b"").hex() == "5f2435013501edcc" + "00000000" + "00000000"
    assert packet(-1, None).hex() == "5f2435013501edcc" + "ffffffff" + "ffffffff"


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_servers_with_the_same_password_accept_each_other(cut: int) -> None:
    learner, server = exchange(LearnerSide(settings(), "c"), ServerSide(settings(), "n"), cut)
    assert (learner.done, server.done, learner.rest, server.rest) == (True, True, b"", b"")


def test_bytes_after_the_sasl_exchange_are_passed_on() -> None:
    learner, server = LearnerSide(settings(), "c"), ServerSide(settings(), "n")
    response = learner.feed(server.feed(learner.first_message()).send).send
    done = server.feed(response + b"FOLLOWERINFO")
    assert (done.done, done.rest) == (True, b"FOLLOWERINFO")
    assert learner.feed(done.send + b"LEADERINFO").rest == b"LEADERINFO"


def test_wrong_password_is_rejected_and_reported_to_the_learner() -> None:
    learner, server = LearnerSide(settings("guess"), "c"), ServerSide(settings(), "n")
    response = learner.feed(server.feed(learner.first_message()).send).send
    with pytest.raises(Refused, match="a wrong password") as caught:
        server.feed(response)
    assert caught.value.send == packet(-1, b"")
    with pytest.raises(SaslError, match="refused this one's user or password"):
        learner.feed(caught.value.send)


def test_learner_detects_a_server_without_the_password() -> None:
    learner = LearnerSide(settings(), "c")
    learner.feed(ServerSide(settings(), "n").feed(learner.first_message()).send)
    with pytest.raises(SaslError, match="does not know the password"):
        learner.feed(packet(1, b"rspauth=" + b"0" * 32))


def test_learner_without_sasl_is_accepted_only_if_optional() -> None:
    with pytest.raises(Refused, match="does not authenticate itself"):
        ServerSide(settings(), "n").feed(b"\0\0\0\x0b")
    with pytest.raises(Refused, match="does not authenticate itself"):
        ServerSide(settings(), "n").connection_ended()
    lenient = settings(server=False)
    assert ServerSide(lenient, "n").feed(b"\0\0\0\x0b") == Step(b"", True, b"\0\0\0\x0b")
    assert ServerSide(lenient, "n").connection_ended() == Step(b"", True, b"")


def test_login_with_another_authorization_id_is_rejected() -> None:
    learner, server = LearnerSide(settings(), "c"), ServerSide(settings(), "n")
    response = learner.feed(server.feed(learner.first_message()).send).send[16:].decode()
    uri = "zookeeper-quorum/zk-quorum-sasl-md5"
    secret = secret_of("zk", "zk-quorum-sasl-md5", "sesame", "n", "c", "root")
    asked = response[: response.index("response=")] + 'authzid="root",qop=auth,response='
    with pytest.raises(Refused, match="act for somebody else"):
        server.feed(packet(0, asked.encode() + proof(secret, "n", "c", f"AUTHENTICATE:{uri}")))


def test_connecting_to_a_server_without_sasl_logs_one_line() -> None:
    with pytest.raises(Refused, match=r"is quorum\.auth\.enableSasl=true there"):
        LearnerSide(settings(), "c").feed(b"\0\0\0\x11")
    with pytest.raises(Refused, match="ended the connection"):
        LearnerSide(settings(), "c").connection_ended()


@budget(max_examples=40)
@given(st.lists(st.one_of(st.binary(max_size=40), st.builds(packet, st.integers(-2, 2), st.binary(max_size=40)))))
def test_random_sasl_bytes_raise_only_protocol_errors(parts: list[bytes]) -> None:
    for side in (LearnerSide(settings(), "c"), ServerSide(settings(), "n")):
        try:
            for part in parts:
                if side.feed(part).done:
                    break
        except SaslError as bad:
            assert "sesame" not in str(bad)


# -- on real connections ---------------------------------------------------------------------------------------------


class Owner:
    """Receiver of all callbacks of the quorum and election ports. Each callback sets `news`."""

    def __init__(self, news: asyncio.Event) -> None:
        self.received: list[object] = []
        self.complaints: list[str] = []
        self._news = news

    def _note(self, what: object) -> None:
        self.received.append(what)
        self._news.set()

    def on_link_up(self, link: LinkId, to: PeerId) -> None:
        self._note(("up", to))

    def on_link_failed(self, to: PeerId) -> None:
        self._note(("failed", to))

    def on_link_accepted(self, link: LinkId) -> None:
        self._note("accepted")

    def on_link_down(self, link: LinkId) -> None:
        self._note("down")

    def on_packets(self, link: LinkId, packets: list[Packet]) -> None:
        for packet_ in packets:
            self._note(packet_)

    def on_unlisted_server(self, peer_id: PeerId, address: str) -> None: ...

    def on_notification(self, src: PeerId, notification: Notification) -> None:
        self._note((src, notification.vote.leader))

    def on_voter_unreachable(self, peer_id: PeerId) -> None:
        self._note(("unreachable", peer_id))

    def on_peer_broken(self, remote: str, reason: str) -> None:
        self.complaints.append(reason)
        self._news.set()


HELLO = FollowerInfo(Epoch(0), PeerId(2))
LOOK = Notification(PeerState.LOOKING, Vote(PeerId(2), Zxid(0), Epoch(0)), 1)


def secured(guard: QuorumSasl | None, by_tls: bool, tmp_path: Path) -> dict[str, object]:
    auth = QuorumAuth(guard, lambda: "nonce") if guard is not None else None
    if not by_tls:
        return {"auth": auth}
    authority = Authority(tmp_path / "ssl")
    store = authority.store("peer", "/CN=peer", "IP:127.0.0.1")
    tls = TlsSettings(prefix="ssl.quorum.", key_store=store, key_password="", trust_store=authority.ca)
    return {"auth": auth, "security": PeerSecurity(TlsStore(tls), dials=True, accepts_plain=False)}


async def follow(leader: dict[str, object], learner: dict[str, object]) -> tuple[Owner, Owner]:
    """Connect server 2 to the quorum and election ports of server 1, and wait for the result at both ports.

    Return the received callbacks of both servers.
    """
    ports = free_ports(4)
    lines = {PeerId(i + 1): parse_server_line(f"127.0.0.1:{ports[2 * i]}:{ports[2 * i + 1]}") for i in range(2)}
    news = asyncio.Event()
    leading, learning = owners = Owner(news), Owner(news)
    quorum = [
        QuorumPort(PeerId(i + 1), lines, LinkFaults(), owners[i], 10.0, **kind)  # type: ignore[arg-type]
        for i, kind in enumerate((leader, learner))
    ]
    elections = [
        ElectionPort(PeerId(i + 1), lines, LinkFaults(), owners[i], **kind)  # type: ignore[arg-type]
        for i, kind in enumerate((leader, learner))
    ]
    for i in range(2):
        for port in (quorum[i], elections[i]):
            await port.listen(lines[PeerId(i + 1)].addresses, print)
    quorum[1].open(PeerId(1))
    elections[1].send(PeerId(1), LOOK)
    elections[0].send(PeerId(2), LOOK)

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            news.clear()
            await news.wait()

    async with asyncio.timeout(10):
        await until(lambda: ("up", 1) in learning.received or ("failed", 1) in learning.received)
        if ("up", 1) in learning.received:
            quorum[1].send(LinkId(1), [HELLO])
            quorum[1].flush()
            await until(
                lambda: HELLO in leading.received and (2, 2) in leading.received and (1, 2) in learning.received
            )
        else:
            await until(lambda: len(leading.complaints) >= 2 and len(learning.complaints) >= 2)
    for port in (*quorum, *elections):
        await port.close()
    return owners


@pytest.mark.parametrize("by_tls", [False, pytest.param(True, marks=needs_openssl)], ids=["plain", "tls"])
def test_learner_with_the_password_connects_to_both_quorum_ports(tmp_path: Path, by_tls: bool) -> None:
    kind = secured(settings(), by_tls, tmp_path)
    leader, learner = asyncio.run(follow(kind, kind))
    assert (leader.complaints, learner.complaints) == ([], [])


def test_wrong_learner_password_is_logged_by_both_sides(tmp_path: Path) -> None:
    leader, learner = asyncio.run(
        follow(secured(settings(), False, tmp_path), secured(settings("guess"), False, tmp_path))
    )
    assert HELLO not in leader.received and (2, 2) not in leader.received
    refused = "SASL: the server refused this one's user or password (quorum.auth.learner.saslLoginContext)"
    assert {f"{port} port: SASL: a wrong password" for port in ("quorum", "election")} == set(leader.complaints)
    assert {f"{port} port: {refused}" for port in ("quorum", "election")} <= set(learner.complaints)
    assert len(leader.complaints) == 2


def test_servers_can_start_to_require_sasl_one_after_the_other(tmp_path: Path) -> None:
    without, lenient = secured(None, False, tmp_path), secured(settings(learner=False, server=False), False, tmp_path)
    calling = secured(settings(server=False), False, tmp_path)
    for leader, learner in ((lenient, without), (without, lenient), (lenient, calling), (calling, lenient)):
        received = asyncio.run(follow(leader, learner))
        assert [owner.complaints for owner in received] == [[], []]


# -- configuration ---------------------------------------------------------------------------------------------------

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
SERVER = f'QuorumServer {{ {MODULE} user_zk="sesame"; }};'
LEARNER = f'QuorumLearner {{ {MODULE} username="zk" password="guess"; }};'
ENABLED = ("quorum.auth.enableSasl=true", "quorum.auth.learnerRequireSasl=true", "quorum.auth.serverRequireSasl=true")


def read(tmp_path: Path, jaas: str, *lines: str) -> QuorumSasl | None:
    (tmp_path / "jaas").write_text(jaas)
    config = [f"dataDir={tmp_path}", "clientPort=2181", f"java.security.auth.login.config={tmp_path / 'jaas'}", *lines]
    return parse("\n".join(config)).quorum_sasl


def test_quorum_sasl_is_configured_with_zookeepers_keys(tmp_path: Path) -> None:
    assert read(tmp_path, SERVER + LEARNER) is None
    assert read(tmp_path, SERVER + LEARNER, *ENABLED) == settings("guess")
    named = "quorum.auth.server.saslLoginContext=A", "quorum.auth.learner.saslLoginContext=B"
    jaas = (SERVER + LEARNER).replace("QuorumServer", "A").replace("QuorumLearner", "B")
    assert read(tmp_path, jaas, ENABLED[0], *named) == settings("guess", learner=False, server=False)


@pytest.mark.parametrize(
    ("jaas", "lines", "message"),
    [
        (SERVER + LEARNER, ENABLED[1:2], "learnerRequireSasl=true needs quorum.auth.enableSasl=true"),
        (SERVER + LEARNER, ENABLED[2:], "serverRequireSasl=true needs quorum.auth.enableSasl=true"),
        (SERVER + LEARNER, (ENABLED[0], ENABLED[2]), "serverRequireSasl=true needs quorum.auth.learnerRequireSasl"),
        (LEARNER, ENABLED, "needs a section QuorumServer"),
        (SERVER, ENABLED, "needs a section QuorumLearner"),
        (SERVER + LEARNER.replace("username", "user"), ENABLED, "section QuorumLearner has no username and password"),
        (SERVER + LEARNER.replace("org.apache.zookeeper.server.auth.Digest", "com.sun.Krb5"), ENABLED, "is supported"),
        (SERVER + LEARNER, (*ENABLED, "quorum.auth.kerberos.servicePrincipal=zk/h"), "GSSAPI is not supported"),
    ],
)  # fmt: skip
def test_invalid_quorum_sasl_setting_is_reported_in_one_line(
    tmp_path: Path, jaas: str, lines: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, jaas, *lines)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_login_section_can_list_its_digest_module_second() -> None:
    assert digest_login(f"A {{ {MODULE}; {MODULE} username=u password=p; }};", "A") == ("u", "p")
    assert digest_login(SERVER, "A") is None
