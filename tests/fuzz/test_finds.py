"""Bugs found by fuzzing. Each has a test of the rule that fixes it."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec
import pytest

from tests.ensemble.tree.tree_driver import Ensemble, create, multi
from tests.fuzz.peer_machine import Lone
from tests.fuzz.peer_targets import SESSION, small_snapshot, transactions
from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import EPOCH_LEAP_MAX, Epoch, PeerId, Zxid, make_zxid
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.properties import read_properties
from zabka.ensemble.records import (
    ACL,
    OPEN_ACL,
    AuthPacket,
    CreateRequest,
    Frames,
    MultiOp,
    OpCode,
    Reply,
    Request,
)
from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.server.config.zoo_cfg import parse
from zabka.ensemble.tree.authentication import IDENTITIES_CHARS_MAX
from zabka.ensemble.tree.proposer import LISTED_CHARS_MAX
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import CloseSessionTxn, ErrorTxn, MultiTxn, Txn
from zabka.ensemble.zab.election import ROUND_LEAP_MAX
from zabka.ensemble.zab.membership import BadMembership, Membership
from zabka.ensemble.zab.messages import (
    CommitAndActivate,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Notification,
    PeerState,
    Proposal,
    Snap,
    Vote,
)

WHOLE = {
    OpCode.CREATE: Request(1, OpCode.CREATE, CreateRequest("/a", b"x", OPEN_ACL, 0)).encode(),
    OpCode.CREATE2: Request(1, OpCode.CREATE2, CreateRequest("/a", b"x", OPEN_ACL, 0)).encode(),
    OpCode.SET_DATA: struct.pack(">iii", 1, OpCode.SET_DATA, 1) + b"/\0\0\0\1x" + b"\xff" * 4,
    OpCode.DELETE: struct.pack(">iii", 1, OpCode.DELETE, 2) + b"/a" + b"\xff" * 4,
}


# -- clients


def sent_by(server: int, frame: bytes) -> tuple[Ensemble, list[object]]:
    ensemble = Ensemble(servers=2)
    connection = ensemble.connect(server)
    before = len(ensemble.history)
    ensemble.take(connection)
    ensemble.message(connection, Frames([frame]))
    del ensemble.history[:before]
    return ensemble, ensemble.take(connection)


@pytest.mark.parametrize("op", WHOLE)
def test_learner_rejects_a_malformed_write_before_forwarding(op: OpCode) -> None:
    """A learner rejects a malformed write, and does not forward it, because another leader might crash on it."""
    whole = WHOLE[op]
    huge, null = struct.pack(">i", 0x7FFFFFFF), struct.pack(">i", -1)
    for frame in (
        whole[:-1],
        whole[:9],
        whole[:8],
        whole[:8] + huge + whole[12:],
        whole[:12] + b"\xff\xff" + whole[14:],
    ):
        ensemble, replies = sent_by(1, frame)
        assert ensemble.history == []
        assert [message.err for message in replies if isinstance(message, Reply)] == [ErrorCode.MARSHALLING_ERROR]
    assert len(sent_by(1, whole)[0].history) == 1
    # A null path is valid: it is decoded, and forwarded as an empty path.
    ensemble, replies = sent_by(1, whole[:8] + null + whole[14 if op != OpCode.SET_DATA else 13 :])
    assert len(ensemble.history) == 1 and ensemble.history[0].type == OpCode.ERROR


@pytest.mark.parametrize("op", WHOLE)
def test_leader_rejects_a_malformed_write_when_preparing_it(op: OpCode) -> None:
    ensemble, replies = sent_by(0, WHOLE[op][:-1])
    assert ensemble.history[0].body == ErrorTxn(int(ErrorCode.MARSHALLING_ERROR))
    assert isinstance(replies[0], Reply) and replies[0].err == ErrorCode.MARSHALLING_ERROR


def test_number_of_client_identities_is_limited() -> None:
    ensemble = Ensemble()
    connection = ensemble.connect()
    name = b"n" * (IDENTITIES_CHARS_MAX // 2)
    errors = []
    for n in range(2):
        ensemble.send(connection, (OpCode.AUTH, AuthPacket(0, "digest", name + b"%d:secret" % n)), xid=-4)
        errors.append(ensemble.take(connection)[-1].err)
    assert errors == [0, ErrorCode.AUTH_FAILED]
    assert connection in ensemble.closed


def test_multi_whose_transaction_is_too_large_is_rejected() -> None:
    ensemble = Ensemble(auth=AuthPolicy())
    connection = ensemble.connect()
    ensemble.send(connection, (OpCode.AUTH, AuthPacket(0, "digest", b"n" * 60_000 + b":secret")), xid=-4)
    mine = [ACL(31, "auth", "")]
    ops = [MultiOp(OpCode.CREATE, CreateRequest(f"/m{n}", b"", mine, 0)) for n in range(400)]
    reply = ensemble.ask(connection, multi(*ops))
    assert ensemble.history[-1].type == OpCode.MULTI and len(ensemble.history[-1].encoded()) < 20 * 1024 * 1024
    assert reply.body.results[-1].error != 0
    assert ensemble.ask(connection, create("/m0")).err == 0


def test_closed_session_with_many_ephemerals_deletes_them_all() -> None:
    ensemble = Ensemble(servers=2)
    connection = ensemble.connect()
    for n in range(3):
        name = f"/{n}" + "e" * (LISTED_CHARS_MAX // 2)
        assert ensemble.ask(connection, create(name, flags=1)).err == 0
    ensemble.send(connection, (OpCode.CLOSE_SESSION, Request(0, OpCode.PING, None).body))
    assert ensemble.history[-1].body == CloseSessionTxn([])
    one, other = (service.tree for service in ensemble.services)
    assert len(one.nodes) == 4 and one.ephemerals == other.ephemerals == {} and one.digest == other.digest


# -- transactions


@pytest.mark.parametrize(
    "sub",
    [
        struct.pack(">ii", OpCode.DELETE, -1),
        struct.pack(">ii", 99, 0),
        struct.pack(">ii", OpCode.MULTI, 4) + bytes(4),
        struct.pack(">ii", OpCode.DELETE, 3) + b"\0\0\0",
        struct.pack(">ii", OpCode.ERROR, 4) + b"\xff" * 4 + struct.pack(">ii", OpCode.DELETE, 6) + b"\0\0\0\2/a",
    ],
)
def test_multi_with_operations_that_cannot_apply_is_malformed(sub: bytes) -> None:
    count = 2 if len(sub) > 20 else 1
    head = Txn(SESSION, 1, Zxid(1), 0, OpCode.MULTI, MultiTxn([])).encoded()[:-4]
    with pytest.raises(MalformedRecord):
        Txn.decode(head + struct.pack(">i", count) + sub)


# -- peers


def test_learner_rejects_a_leader_epoch_far_above_its_own() -> None:
    lone = Lone()
    link = lone.follow(0)
    assert link is not None
    lone.give(link, [LeaderInfo(Epoch(EPOCH_LEAP_MAX + 1))])
    lone.flush()
    assert lone.disk.accepted == 0 and lone.peer.state is PeerState.LOOKING
    assert lone.follow() is not None


@pytest.mark.parametrize("epoch", [EPOCH_LEAP_MAX + 1, 0x7FFFFFFF, -1])
def test_leader_rejects_an_epoch_that_is_too_large(epoch: int) -> None:
    lone = Lone()
    link = lone.lead(0)
    assert link is not None
    lone.give(link, [FollowerInfo(Epoch(epoch), PeerId(2))])
    lone.flush()
    assert link not in lone.links and lone.peer.state is PeerState.LEADING and lone.peer.accepted_epoch == 0


def test_looking_peer_rejects_a_much_later_election_round() -> None:
    lone = Lone()
    vote = Vote(PeerId(3), Zxid(1), Epoch(1))
    for state in (PeerState.LOOKING, PeerState.LEADING, PeerState.FOLLOWING):
        lone.receive(3, Notification(state, vote, lone.peer.round + ROUND_LEAP_MAX + 1))
        lone.receive(2, Notification(state, vote, 2**63 - 1))
    assert lone.peer.round == 1 and lone.peer.state is PeerState.LOOKING


def test_leader_membership_without_voters_closes_only_its_link() -> None:
    lone = Lone(reconfig=True)
    link = lone.follow(2)
    assert link is not None
    observers = "server.1=127.0.0.1:1:2:observer;127.0.0.1:3\nversion=5"
    lone.give(link, [NewLeader(make_zxid(1, 0), observers)])
    lone.flush()
    assert lone.peer.state is PeerState.LOOKING and lone.follow() is not None


def test_snapshot_without_a_valid_tree_closes_only_its_own_link() -> None:
    lone = Lone()
    link = lone.follow(1)
    assert link is not None
    whole = small_snapshot()
    orphans = TreeSnapshot(whole.zxid, {}, [image for image in whole.nodes if image.path != "/a"], 0)
    stray = msgspec.structs.replace(next(image for image in whole.nodes if image.path == "/a"), path="/b/c")
    orphans.nodes.append(stray)
    lone.give(link, [Snap(whole.zxid, orphans), NewLeader(make_zxid(1, 0), "")])
    lone.flush()
    assert lone.disk.snapshots == [] and lone.service.last_applied == 0
    assert lone.peer.state is PeerState.LOOKING and lone.follow() is not None


def test_activation_of_a_plain_write_closes_only_its_link() -> None:
    lone = Lone(reconfig=True)
    link = lone.follow(1)
    assert link is not None
    lone.give(link, [Diff(Zxid(0)), Proposal(transactions()[:1]), CommitAndActivate(make_zxid(1, 1), PeerId(2))])
    lone.flush()
    assert lone.peer.state is PeerState.LOOKING and lone.follow() is not None


# -- files


@pytest.mark.parametrize("text", ["²", "9" * 5000, "\0", ""])
def test_non_numeric_myid_is_a_config_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "myid").write_text(text)
    with pytest.raises(ConfigError, match="instead of a number"):
        parse(f"dataDir={tmp_path}\nclientPort=1\n")


@pytest.mark.parametrize("name", ["dataDir=/a\0b\nclientPort=1\n", "dataDir=/nowhere\ndynamicConfigFile=/a\0b\n"])
def test_impossible_file_name_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        parse(name)


@pytest.mark.parametrize("char", "\x1e\x0b\x85\u2028\t []\0")
@pytest.mark.parametrize("line", ["h{}:1:2;3", "h:1:2;g{}:3", "h:1:2|i{}:3:4"])
def test_membership_that_cannot_be_parsed_again_is_rejected(char: str, line: str) -> None:
    """A reconfig to a membership whose text form cannot be parsed is rejected.

    Otherwise a client could commit such a membership, and then no server could follow a leader.
    """
    with pytest.raises(BadMembership):
        Membership.parse("server.1=" + line.format(f"{char}x"))


def test_properties_lines_end_only_at_java_line_separators() -> None:
    assert read_properties("a=1\x1eb=2\rc=3\r\nd=4\ne=\u2028f") == {"a": "1\x1eb=2", "c": "3", "d": "4", "e": "\u2028f"}


@pytest.mark.parametrize(
    "text",
    [
        "server." + "9" * 5000 + "=h:1:2",
        "server.1=h:²:2",
        "server.1=h:" + "9" * 5000 + ":2",
        "server.1=h:1:2\nversion=" + "f" * 17,
    ],
)
def test_membership_with_an_invalid_number_is_rejected(text: str) -> None:
    with pytest.raises(BadMembership):
        Membership.parse(text)
