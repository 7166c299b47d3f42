"""The quorum and election ports use ZooKeeper's byte format. Any other bytes do not harm the server."""

from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ensemble.txnlog.test_formats import a_txn, some_snapshot
from zabka.ensemble.ids import Epoch, PeerId, SessionId, Zxid
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.records import OpCode
from zabka.ensemble.server.net.election_wire import (
    FrameReader,
    decode_notification,
    decode_opening,
    encode_notification,
    encode_opening,
)
from zabka.ensemble.server.net.quorum_wire import QuorumCodec
from zabka.ensemble.txn import SetDataTxn, Txn
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

CONFIG = "server.1=h:1:2:participant\nversion=0"
SESSION = SessionId(-7)
ZXID = Zxid(0x200000005)


def a_reconfiguration(zxid: Zxid) -> Txn:
    body = SetDataTxn("/zookeeper/config", CONFIG.encode(), -1)
    return Txn(SESSION, 7, zxid, 1000, OpCode.RECONFIG, body)


FROM_LEARNER: list[Packet] = [
    FollowerInfo(Epoch(3), PeerId(2)),
    FollowerInfo(Epoch(3), PeerId(2), 9, observer=True, cumulative=True),
    FollowerInfo(Epoch(3), PeerId(2), cumulative=True, heeds_acks=True),
    FollowerInfo(Epoch(3), PeerId(2), cumulative=True, heeds_acks=True, wants_snapshot=True),
    AckEpoch(ZXID, -1),
    Ack(ZXID),
    Ack(ZXID, cumulative=True),
    Ping(ZXID),
    Ping(ZXID, ((SESSION, 4000), (SessionId(1), 5000))),
    Revalidate(SESSION, 6000),
    ForwardedRequest(SESSION, 5, 1, b"body"),
    ForwardedRequest(SESSION, -5, -10, b"", (("digest", "u:x"), ("ip", "127.0.0.1"))),
    SyncRequest(SESSION, 8, "/ü"),
]
FROM_LEADER: list[Packet] = [
    LeaderInfo(Epoch(4)),
    LeaderInfo(Epoch(4), cumulative=True),
    Diff(ZXID),
    Trunc(ZXID),
    Snap(ZXID, some_snapshot(ZXID)),
    NewLeader(ZXID),
    NewLeader(ZXID, CONFIG),
    CommitAndActivate(ZXID, PeerId(2)),
    InformAndActivate(a_reconfiguration(ZXID), PeerId(2)),
    UpToDate(),
    Proposal([a_txn(ZXID)]),
    Commit(ZXID),
    Commit(ZXID, cumulative=True),
    Ack(ZXID, cumulative=True),
    Inform(a_txn(ZXID)),
    Ping(ZXID),
    Revalidate(SESSION, 0, True),
    Revalidate(SESSION, 0, True, ZXID),
    Revalidate(SESSION, 0, False),
]


def to_bytes(codec: QuorumCodec, packets: list[Packet]) -> bytes:
    out = b""
    for packet in packets:
        out += codec.encode(packet)
        if isinstance(packet, Snap):
            out += b"".join(codec.encode_stream(packet))
    return out


@pytest.mark.parametrize("step", [7, 1000, 1_000_000])
@pytest.mark.parametrize(("learner_sends", "packets"), [(True, FROM_LEARNER), (False, FROM_LEADER)])
def test_packets_are_decoded_from_chunks_of_any_size(learner_sends: bool, packets: list[Packet], step: int) -> None:
    sender = QuorumCodec(learner=learner_sends)
    receiver = QuorumCodec(learner=not learner_sends)
    raw = to_bytes(sender, packets)
    got = [packet for start in range(0, len(raw), step) for packet in receiver.feed(raw[start : start + step])]
    assert got == packets


def test_proposals_are_sent_singly_but_read_as_one_packet() -> None:
    leader, learner = QuorumCodec(learner=False), QuorumCodec(learner=True)
    txns = [a_txn(Zxid(ZXID + n)) for n in range(3)]
    raw = leader.encode(Proposal(txns))
    assert raw == b"".join(leader.encode(Proposal([txn])) for txn in txns)
    assert learner.feed(raw + leader.encode(Commit(ZXID)) + raw) == [Proposal(txns), Commit(ZXID), Proposal(txns)]
    cut = len(raw) - 1
    assert learner.feed(raw[:cut]) == [Proposal(txns[:2])]
    assert learner.feed(raw[cut:]) == [Proposal(txns[2:])]


@pytest.mark.parametrize("step", [1, 20, 21, 1_000_000])
def test_cumulative_acks_and_commits_keep_their_packet_order(step: int) -> None:
    leader, learner = QuorumCodec(learner=False), QuorumCodec(learner=True)
    txn = a_txn(Zxid(ZXID + 1))
    commit, ack = Commit(ZXID, cumulative=True), Ack(ZXID, cumulative=True)
    request = ForwardedRequest(SessionId(5), 1, OpCode.DELETE, b"x")
    for sender, receiver, packets in (
        (
            leader,
            learner,
            [commit, Proposal([txn]), commit, ack, commit, Commit(ZXID), Proposal([txn]), ack, UpToDate()],
        ),
        (learner, leader, [ack, request, ack, Ack(ZXID), ack, request]),
    ):
        raw = to_bytes(sender, packets)
        got = [packet for start in range(0, len(raw), step) for packet in receiver.feed(raw[start : start + step])]
        assert got == packets


@pytest.mark.parametrize("step", [1, 13, 1_000_000])
def test_forwarded_request_keeps_the_identities_of_its_client(step: int) -> None:
    """Requests sent over one quorum connection keep their identities, no matter in which chunks the leader receives
    them.

    Some requests have identities of their client, and some have none.
    """
    digest, ip = ("digest", "u:x"), ("ip", "127.0.0.1")
    auths: list[tuple[tuple[str, str], ...]] = [(ip,), (ip,), (), (ip, digest), (ip,), (), ()]
    asked: list[Packet] = [ForwardedRequest(SESSION, n, 5, b"body %d" % n, auth) for n, auth in enumerate(auths)]
    raw = to_bytes(QuorumCodec(learner=True), asked)
    leader = QuorumCodec(learner=False)
    assert [p for start in range(0, len(raw), step) for p in leader.feed(raw[start : start + step])] == asked


def test_proposal_with_another_zxid_than_its_txn_is_rejected() -> None:
    raw = bytearray(QuorumCodec(learner=False).encode(Proposal([a_txn(ZXID)])))
    raw[11] ^= 1
    with pytest.raises(MalformedRecord, match="holds transaction"):
        QuorumCodec(learner=True).feed(bytes(raw))


def test_sync_replies_are_matched_to_requests_in_order() -> None:
    learner, leader = QuorumCodec(learner=True), QuorumCodec(learner=False)
    asked: list[Packet] = [SyncRequest(SESSION, n, f"/{n}") for n in range(3)]
    assert leader.feed(to_bytes(learner, asked)) == asked
    answers = to_bytes(leader, asked)
    assert answers == struct.pack(">iqii", 7, 0, -1, -1) * 3
    assert learner.feed(answers) == asked
    with pytest.raises(MalformedRecord):
        learner.feed(struct.pack(">iqii", 7, 0, -1, -1))


def test_packet_bytes_equal_those_of_zookeeper() -> None:
    learner, leader = QuorumCodec(learner=True), QuorumCodec(learner=False)
    assert learner.encode(FollowerInfo(Epoch(1), PeerId(2))) == (
        struct.pack(">iqi", 11, 1 << 32, 20) + struct.pack(">qiq", 2, 0x10000, 0) + b"\xff\xff\xff\xff"
    )
    assert leader.encode(NewLeader(Zxid(2 << 32), CONFIG)) == (
        struct.pack(">iqi", 10, 2 << 32, len(CONFIG)) + CONFIG.encode() + b"\xff\xff\xff\xff"
    )
    assert leader.encode(CommitAndActivate(Zxid(5), PeerId(3))) == struct.pack(">iqiqi", 9, 5, 8, 3, -1)
    assert leader.encode(UpToDate()) == struct.pack(">iqii", 12, -1, -1, -1)
    # These fields must be empty, not null: a ZooKeeper leader fails on a null buffer in a ping, and on null identities
    # in a request.
    assert learner.encode(Ping(ZXID)) == struct.pack(">iqii", 5, ZXID, 0, -1)
    request = learner.encode(ForwardedRequest(SESSION, 5, 1, b"body"))
    assert request == struct.pack(">iqi", 1, -1, 20) + struct.pack(">qii", -7, 5, 1) + b"body" + bytes(4)


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack(">iqii", 99, 0, -1, -1),
        struct.pack(">iqi", 2, 0, 2**31 - 1) + bytes(8),
        struct.pack(">iqi", 2, 0, -2) + bytes(8),
        struct.pack(">iqii", 3, 0, -1, 2**31 - 1),
        struct.pack(">iqi", 2, 5, 4) + b"????" + b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_invalid_quorum_packets_are_protocol_errors(raw: bytes) -> None:
    for learner in (True, False):
        with pytest.raises(MalformedRecord):
            QuorumCodec(learner=learner).feed(raw)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_random_quorum_bytes_raise_only_protocol_errors(raw: bytes, learner: bool) -> None:
    codec = QuorumCodec(learner=learner)
    try:
        codec.feed(raw)
    except MalformedRecord:
        return


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(FROM_LEADER), st.data())
def test_damaged_packets_raise_only_protocol_errors(packet: Packet, data: st.DataObject) -> None:
    raw = bytearray(to_bytes(QuorumCodec(learner=False), [packet])[:4000])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        QuorumCodec(learner=True).feed(bytes(raw))
    except MalformedRecord:
        return


# ---- the election port ------------------------------------------------------------------------------------------

NOTE = Notification(PeerState.LEADING, Vote(PeerId(3), ZXID, Epoch(2)), 7, CONFIG)


def test_notification_with_a_membership_survives_a_round_trip() -> None:
    frame = encode_notification(NOTE)
    assert frame[4:] == struct.pack(">iqqqqii", 2, 3, ZXID, 7, 2, 2, len(CONFIG)) + CONFIG.encode()
    assert [decode_notification(body) for body in FrameReader().feed(frame)] == [NOTE]


def test_old_notifications_of_28_and_40_bytes_are_decoded() -> None:
    old = msgspec.structs.replace(NOTE, config="")
    assert decode_notification(struct.pack(">iqqq", 2, 3, ZXID, 7)) == old
    assert decode_notification(struct.pack(">iqqqqi", 2, 3, ZXID, 7, 2, 1)) == old


@pytest.mark.parametrize(
    "body",
    [b"", b"x" * 27, struct.pack(">iqqq", 9, 3, 1, 7), struct.pack(">iqqqqii", 2, 3, 1, 7, 2, 2, 5) + b"four"],
)
def test_invalid_notification_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_notification(body)


def test_opening_message_is_decoded_once_it_is_complete() -> None:
    raw = encode_opening(5, ["host:3888"])
    assert raw == struct.pack(">qqi", -65536, 5, 9) + b"host:3888"
    for cut in range(len(raw)):
        assert decode_opening(raw[:cut]) is None
    opening = decode_opening(raw + b"more")
    assert opening is not None
    assert (opening.peer_id, opening.address, opening.size) == (5, "host:3888", len(raw))
    assert decode_opening(struct.pack(">qqi", -65535, 5, 9) + b"a:1|b:2|c") is not None
    assert decode_opening(struct.pack(">q", 4)) == (4, "", 8)


@pytest.mark.parametrize(
    "raw", [struct.pack(">qqi", -1, 1, 1), struct.pack(">qqi", -65536, 1, 0), struct.pack(">qqi", -65536, 1, 3000)]
)
def test_invalid_opening_message_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_opening(raw)


def test_oversized_frame_length_is_malformed() -> None:
    for size in (0, -1, 1 << 30):
        with pytest.raises(MalformedRecord):
            FrameReader().feed(struct.pack(">i", size) + b"x")
