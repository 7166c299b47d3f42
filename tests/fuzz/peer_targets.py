"""Messages between peers, and files of peers, as fuzz targets: packets, notifications, transactions, logs,
snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest

from tests.fuzz.choices import Choices, Target, pieces
from tests.fuzz.client_targets import DIGEST_ACL
from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.ensemble.auth.quorum_sasl import LearnerSide, QuorumSasl, ServerSide, packet
from zabka.ensemble.ids import Epoch, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.jute import MalformedRecord, Reader
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.server.net.election_wire import (
    FRAME_BYTES_MAX,
    FrameReader,
    Opening,
    decode_notification,
    decode_opening,
    encode_notification,
    encode_opening,
)
from zabka.ensemble.server.net.quorum_wire import QuorumCodec
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    SubTxn,
    Txn,
    decode_body,
)
from zabka.ensemble.txnlog.records import LOG_HEADER, Damage, frame_record, is_torn_tail, scan, whole_record_after
from zabka.ensemble.txnlog.snapshot_format import TreeDecoder, encode_tree
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    ForwardedRequest,
    Inform,
    InformAndActivate,
    LeaderInfo,
    NewLeader,
    Notification,
    Packet,
    PeerState,
    Ping,
    Proposal,
    Revalidate,
    Snap,
    SyncRequest,
    Trunc,
    UpToDate,
    Vote,
)

MEMBERS = "server.1=127.0.0.1:1:2:participant;127.0.0.1:3\nserver.2=127.0.0.1:4:5:participant;127.0.0.1:6\nversion=0"
SESSION = SessionId(0x100000000000001)

_BODIES = [
    (OpCode.CREATE_SESSION, CreateSessionTxn(4000)),
    (OpCode.CREATE, CreateTxn("/a", b"x", OPEN_ACL, False, 1)),
    (OpCode.CREATE2, CreateTxn("/e", None, DIGEST_ACL, True, 2)),
    (OpCode.CREATE_CONTAINER, CreateContainerTxn("/c", b"some data", OPEN_ACL, 3)),
    (OpCode.CREATE_TTL, CreateTTLTxn("/t", b"", OPEN_ACL, 4, 1000)),
    (OpCode.SET_DATA, SetDataTxn("/a", b"yy", 1)),
    (OpCode.SET_DATA, SetDataTxn("/a", None, 2)),
    (OpCode.SET_ACL, SetACLTxn("/a", DIGEST_ACL, 1)),
    (OpCode.MULTI, MultiTxn([SubTxn(OpCode.CREATE, CreateTxn("/m", b"", OPEN_ACL, False, 5).encode()),
                             SubTxn(OpCode.CHECK, CheckVersionTxn("/m", 1).encode()),
                             SubTxn(OpCode.DELETE, DeleteTxn("/m").encode())])),
    (OpCode.MULTI, MultiTxn([SubTxn(OpCode.ERROR, ErrorTxn(err).encode()) for err in (0, -101)])),
    (OpCode.DELETE, DeleteTxn("/a")),
    (OpCode.RECONFIG, SetDataTxn("/zookeeper/config", MEMBERS.encode(), -1)),
    (OpCode.ERROR, ErrorTxn(-101)),
    (OpCode.CLOSE_SESSION, CloseSessionTxn(["/e"])),
]  # fmt: skip


def transactions(epoch: int = 1) -> list[Txn]:
    """Return one transaction of every type, with consecutive zxids."""
    return [
        Txn(SESSION, n, make_zxid(epoch, n), 1000 + n, kind, body, n << 40 if kind > 0 else None)
        for n, (kind, body) in enumerate(_BODIES, 1)
    ]  # fmt: skip


def small_snapshot() -> TreeSnapshot:
    tree = DataTree()
    for txn in transactions()[:8]:
        tree.apply(txn)
    return tree.to_snapshot()


def from_leader(snapshot: TreeSnapshot | None = None) -> list[Packet]:
    """Return packets that a leader sends, in a valid order."""
    txns = transactions()
    config = txns[11]
    return [
        LeaderInfo(Epoch(1), True), Diff(Zxid(0)), Proposal(txns[:2]), Commit(txns[1].zxid, True), Trunc(Zxid(0)),
        *([Snap(snapshot.zxid, snapshot)] if snapshot is not None else []),
        NewLeader(make_zxid(1, 0), MEMBERS), UpToDate(), Ping(Zxid(5)), Revalidate(SESSION, 0, True),
        Commit(txns[0].zxid), Inform(txns[2]), CommitAndActivate(config.zxid, PeerId(2)),
        InformAndActivate(config, PeerId(1)), Ack(txns[0].zxid, True),
    ]  # fmt: skip


def from_learner() -> list[Packet]:
    """Return packets that a learner sends."""
    auth = (("ip", "127.0.0.1"), ("digest", "ann:x"))
    return [
        FollowerInfo(Epoch(1), PeerId(2), cumulative=True, heeds_acks=True),
        FollowerInfo(Epoch(1), PeerId(2), cumulative=True), FollowerInfo(Epoch(0), PeerId(9), observer=True),
        AckEpoch(Zxid(0), 0), Ack(make_zxid(2, 0)), Ack(make_zxid(2, 1), True), Ping(Zxid(1), ((SESSION, 4000),)),
        Revalidate(SESSION, 4000), SyncRequest(SESSION, 3, "/a"),
        ForwardedRequest(SESSION, 4, OpCode.DELETE, DeleteTxn("/a").encode() + b"\xff" * 4, auth),
        ForwardedRequest(SESSION, 5, OpCode.CLOSE_SESSION, b""),
    ]  # fmt: skip


def encoded(packets: Iterable[Packet], *, learner: bool) -> list[bytes]:
    """Return each packet as bytes, encoded as a learner or a leader does."""
    codec = QuorumCodec(learner=learner)
    return [
        codec.encode(packet) + (b"".join(codec.encode_stream(packet)) if isinstance(packet, Snap) else b"")
        for packet in packets
    ]


def _flat(packets: Iterable[Packet]) -> list[Packet]:
    """Return the packets with one transaction per proposal.

    Otherwise the result would depend on the chunks: the decoder joins proposals that arrive together.
    """
    return [
        single
        for packet in packets
        for single in ([Proposal([txn]) for txn in packet.txns] if isinstance(packet, Proposal) else [packet])
    ]


def _fed(learner: bool, cuts: Iterable[bytes]) -> list[Packet] | type[MalformedRecord]:
    codec = QuorumCodec(learner=learner)
    codec._syncs.extend([SyncRequest(SESSION, 1, "/")] * 4)
    packets: list[Packet] = []
    try:
        for cut in cuts:
            packets += codec.feed(cut)
    except MalformedRecord:
        return MalformedRecord
    return _flat(packets)


def _quorum(learner: bool) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        """Check that packets are decoded equally from whole and from split data, or rejected in both cases.

        Encoding the decoded packets and decoding them again must give the same packets.
        """
        choices, stream = Choices(data[:16]), data[16:]
        whole = _fed(learner, [stream])
        torn = _fed(learner, pieces(stream, choices))
        assert whole == torn, f"{whole} {torn}"
        if isinstance(whole, list):
            plain = [packet for packet in whole if not isinstance(packet, SyncRequest)]
            again = _fed(learner, encoded(plain, learner=not learner))
            assert again == plain
            for packet in plain:
                if isinstance(packet, Snap):
                    _restore(packet.snapshot)

    return run


def _streams(learner: bool) -> list[bytes]:
    packets = from_leader(small_snapshot()) if learner else from_learner()
    each = encoded(packets, learner=not learner)
    return [bytes(16) + b"".join(each), *(bytes([n % 7] * 16) + raw for n, raw in enumerate(each))]


def election(data: bytes) -> None:
    """Decode an election connection's opening message and notifications, split at any position."""
    choices, stream = Choices(data[:8]), data[8:]
    opening: Opening | None = None
    with suppress(MalformedRecord):
        opening = decode_opening(stream)
    if opening is not None and opening.address and opening.address.isascii():
        again = decode_opening(encode_opening(opening.peer_id, opening.address.split("|")))
        assert again is not None and again[:2] == opening[:2]
    rest = stream[opening.size :] if opening is not None else stream
    outcomes: list[list[Notification] | type[MalformedRecord]] = []
    for cuts in ([rest], pieces(rest, choices)):
        reader, received = FrameReader(), []
        try:
            for cut in cuts:
                received += [decode_notification(frame) for frame in reader.feed(cut)]
                assert len(reader._buffer) <= FRAME_BYTES_MAX + 4
            outcomes.append(received)
        except MalformedRecord:
            outcomes.append(MalformedRecord)
    assert outcomes[0] == outcomes[1]
    if isinstance(outcomes[0], list):
        for notification in outcomes[0]:
            assert decode_notification(encode_notification(notification)[4:]) == notification


def notifications() -> list[Notification]:
    return [
        Notification(PeerState.LOOKING, Vote(PeerId(2), make_zxid(1, 5), Epoch(1)), 3, MEMBERS),
        Notification(PeerState.LEADING, Vote(PeerId(3), make_zxid(2, 0), Epoch(2)), 1),
        Notification(PeerState.FOLLOWING, Vote(PeerId(3), Zxid(-1), Epoch(0)), 1),
    ]


def _election_streams() -> list[bytes]:
    opening = encode_opening(2, "127.0.0.1:3888")
    frames = [encode_notification(each) for each in notifications()]
    return [bytes(8) + opening + b"".join(frames), bytes(8) + b"\0" * 7 + b"\2" + frames[0][:32] + frames[1]]


def _restore(snapshot: TreeSnapshot) -> DataTree | None:
    """Build a tree from a received snapshot, or return None if the snapshot is invalid."""
    try:
        tree = DataTree.from_snapshot(snapshot)
    except ValueError:
        return None
    for node in list(tree.nodes.values()):
        node.stat()
    return tree


def transaction(data: bytes) -> None:
    """Decode a transaction, or reject it as malformed.

    The hand-written and the generic codec return the same result and encode it to the same bytes. The transaction can
    be applied to a tree.
    """
    try:
        txn = Txn.decode(data)
    except MalformedRecord:
        with pytest.raises(MalformedRecord):
            decode_body(int.from_bytes(data[28:32], "big", signed=True), Reader(data, 32))
        return
    reader = Reader(data, 32)
    assert decode_body(txn.type, reader) == txn.body
    if reader.left >= 12:
        assert int.from_bytes(data[reader.pos + 4 : reader.pos + 12], "big") == txn.digest
    # Create a new object, which must be encoded. A decoded object would return the bytes from which it was decoded.
    fresh = Txn(txn.session_id, txn.cxid, txn.zxid, txn.time_ms, txn.type, txn.body, txn.digest)
    again = Txn.decode(fresh.encoded())
    assert again.body == txn.body and again.digest == txn.digest and again.type == txn.type
    if isinstance(txn.body, MultiTxn):
        for sub in txn.body.txns:
            sub.body()


def log(data: bytes) -> None:
    """Read a log up to its first error. Each transaction that was read encodes to the same bytes."""
    scanned = scan(data)
    assert len(scanned.txns) == len(scanned.ends)
    start = 16
    for txn, end in zip(scanned.txns, scanned.ends, strict=True):
        if end - 1 not in scanned.unclosed:
            assert frame_record(txn) == data[start:end]
        start = end
    if scanned.damage is not Damage.NONE:
        is_torn_tail(data, scanned.end)
        whole_record_after(data, scanned.end)


def _logs() -> list[bytes]:
    records = [frame_record(txn) for txn in transactions()]
    whole = LOG_HEADER + b"".join(records)
    return [whole, whole + bytes(64), whole[:-7], LOG_HEADER + records[0] + b"\0" * 40 + records[1]]


def snapshot(data: bytes) -> None:
    """Decode a serialized tree, split at any position, or reject it as malformed.

    A decoded tree encodes to bytes that decode to the same tree.
    """
    choices, stream = Choices(data[:8]), data[8:]
    read = []
    for cuts in ([stream], pieces(stream, choices)):
        decoder = TreeDecoder()
        try:
            for cut in cuts:
                decoder.feed(cut)
            read.append((decoder.done, decoder.sessions, decoder.nodes.data_bytes if decoder.done else 0,
                         list(decoder.nodes), decoder.rest if decoder.done else b""))  # fmt: skip
        except MalformedRecord:
            read.append(MalformedRecord)
    assert read[0] == read[1]
    if decoder.done and read[0] is not MalformedRecord:
        found = decoder.snapshot(5, 0)
        again = TreeDecoder()
        for chunk in encode_tree(found):
            again.feed(chunk)
        assert again.done and list(again.nodes) == list(decoder.nodes) and again.sessions == decoder.sessions
        assert again.nodes.data_bytes == decoder.nodes.data_bytes
        _restore(found)


QUORUM_LOGIN = QuorumSasl(
    users={"zk": "sesame"}, user="zk", password="sesame", learner_required=True, server_required=True
)


def quorum_sasl(data: bytes) -> None:
    """Run SASL between two servers: it is rejected or needs more input, and no secret is in the output."""
    choices, stream = Choices(data[:8]), data[8:]
    for side in (LearnerSide(QUORUM_LOGIN, "other"), ServerSide(QUORUM_LOGIN, "other")):
        try:
            for cut in pieces(stream, choices):
                assert not side.feed(cut).done, "random bytes must not authenticate"
        except SaslError as bad:
            assert "sesame" not in str(bad)


def _sasl_streams() -> list[bytes]:
    learner, server = LearnerSide(QUORUM_LOGIN, "c"), ServerSide(QUORUM_LOGIN, "nonce")
    challenge = server.feed(learner.first_message()).send
    response = learner.feed(challenge).send
    parts = learner.first_message(), challenge, response, learner.first_message() + response, packet(-1, None)
    return [bytes(8) + part for part in parts]


PEER_TARGETS: dict[str, Target] = {
    "from-leader": Target(_quorum(True), lambda: _streams(True)),
    "from-learner": Target(_quorum(False), lambda: _streams(False)),
    "election": Target(election, _election_streams),
    "quorum-sasl": Target(quorum_sasl, _sasl_streams),
    "transaction": Target(transaction, lambda: [txn.encoded() for txn in transactions()]),
    "log": Target(log, _logs),
    "snapshot": Target(snapshot, lambda: [bytes(8) + b"".join(encode_tree(small_snapshot())) + b"rest"]),
}
