"""The name and description of each message between peers. The names are those in ZooKeeper's Leader.java."""

from __future__ import annotations

import pytest

from tests.ensemble.zab.zab_solo import tree, txn
from zabka.ensemble.ids import Epoch, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import CloseSessionTxn, CreateSessionTxn, DeleteTxn, ErrorTxn, MultiTxn, SubTxn, Txn
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
from zabka.ensemble.zab.packet_names import notification_content, packet_contents, txn_subject
from zabka.journal.messages import LISTED_MAX

Z = make_zxid(3, 0x1A)
OF_TXN = {"zxid": "0x10000001a", "session": "0x1", "op": "setData", "path": "/"}
CONTENTS: list[tuple[Packet, str, str, dict[str, object]]] = [
    (FollowerInfo(Epoch(4), PeerId(2)), "discovery", "FOLLOWERINFO", {"peer": 2, "epoch": 4}),
    (FollowerInfo(Epoch(4), PeerId(2), observer=True), "discovery", "OBSERVERINFO", {"peer": 2, "epoch": 4}),
    (LeaderInfo(Epoch(5)), "discovery", "LEADERINFO", {"epoch": 5}),
    (AckEpoch(Z, 3), "discovery", "ACKEPOCH", {"epoch": 3, "zxid": "0x30000001a"}),
    (Diff(Z), "synchronisation", "DIFF", {"zxid": "0x30000001a"}),
    (Trunc(Z), "synchronisation", "TRUNC", {"zxid": "0x30000001a"}),
    (Snap(Z, tree(txn(1, 1))), "synchronisation", "SNAP", {"zxid": "0x30000001a"}),
    (NewLeader(make_zxid(5, 0)), "synchronisation", "NEWLEADER", {"epoch": 5}),
    (UpToDate(), "synchronisation", "UPTODATE", {}),
    (Ack(make_zxid(5, 0)), "synchronisation", "ACK", {"epoch": 5}),
    (Ack(Z), "broadcast", "ACK", {"zxid": "0x30000001a"}),
    (Ack(Z, cumulative=True), "broadcast", "ACK", {"zxid": "0x30000001a", "cumulative": True}),
    (Commit(Z), "broadcast", "COMMIT", {"zxid": "0x30000001a"}),
    (Commit(Z, cumulative=True), "broadcast", "COMMIT", {"zxid": "0x30000001a", "cumulative": True}),
    (CommitAndActivate(Z, PeerId(2)), "broadcast", "COMMITANDACTIVATE", {"zxid": "0x30000001a", "designated": 2}),
    (Inform(txn(1, 0x1A)), "broadcast", "INFORM", OF_TXN),
    (InformAndActivate(txn(1, 0x1A), PeerId(2)), "broadcast", "INFORMANDACTIVATE", OF_TXN),
    (Ping(Z, ((SessionId(1), 4000), (SessionId(2), 4000))), "ping", "PING", {"sessions": 2}),
    (Revalidate(SessionId(0x1F), 4000), "session", "REVALIDATE", {"session": "0x1f", "timeout_ms": 4000}),
    (
        Revalidate(SessionId(0x1F), 4000, False), "session", "REVALIDATE",
        {"session": "0x1f", "timeout_ms": 4000, "valid": False},
    ),
    (
        ForwardedRequest(SessionId(0x1F), 7, OpCode.GET_DATA, b""), "broadcast", "REQUEST",
        {"session": "0x1f", "xid": 7, "op": "getData"},
    ),
    (SyncRequest(SessionId(0x1F), 7, "/a"), "broadcast", "SYNC", {"session": "0x1f", "xid": 7, "path": "/a"}),
]  # fmt: skip


@pytest.mark.parametrize(("packet", "phase", "name", "subject"), CONTENTS)
def test_each_packet_is_shown_with_zookeepers_name_and_subject(
    packet: Packet, phase: str, name: str, subject: dict[str, object]
) -> None:
    (content,) = packet_contents(packet)
    assert (content.group, content.kind, content.subject) == (phase, name, subject)


def test_batched_proposals_are_shown_as_separate_messages() -> None:
    contents = list(packet_contents(Proposal([txn(1, 1), txn(1, 2)])))
    assert [(content.group, content.kind, content.subject["zxid"]) for content in contents] == [
        ("broadcast", "PROPOSAL", "0x100000001"),
        ("broadcast", "PROPOSAL", "0x100000002"),
    ]


@pytest.mark.parametrize(
    ("op", "body", "subject"),
    [
        (OpCode.DELETE, DeleteTxn("/a"), {"op": "delete", "path": "/a"}),
        (OpCode.ERROR, ErrorTxn(-101), {"op": "error"}),
        (OpCode.CREATE_SESSION, CreateSessionTxn(4000), {"op": "createSession"}),
        (OpCode.CLOSE_SESSION, CloseSessionTxn(["/a", "/b"]), {"op": "closeSession", "names": ["/a", "/b"]}),
        (
            OpCode.MULTI,
            MultiTxn([SubTxn(OpCode.DELETE, DeleteTxn("/a").encode()), SubTxn(OpCode.ERROR, ErrorTxn(0).encode())]),
            {"op": "multi", "names": ["delete /a", "error"]},
        ),
    ],
)
def test_transaction_is_described_with_the_znodes_it_changes(
    op: OpCode, body: object, subject: dict[str, object]
) -> None:
    whole = Txn(SessionId(0x1F), 1, Z, 0, op, body)  # type: ignore[arg-type]
    assert txn_subject(whole) == {"zxid": "0x30000001a", "session": "0x1f", **subject}


def test_long_znode_list_in_a_message_is_shortened_and_counted() -> None:
    paths = [f"/{n}" for n in range(LISTED_MAX + 1)]
    body = CloseSessionTxn(paths)
    subject = txn_subject(Txn(SessionId(1), 1, Z, 0, OpCode.CLOSE_SESSION, body))
    assert (subject["names"], subject["count"]) == (paths[:-1], LISTED_MAX + 1)


def test_notification_is_shown_with_sender_state_and_vote() -> None:
    content = notification_content(Notification(PeerState.LEADING, Vote(PeerId(3), Zxid(0x1A), Epoch(5)), 7))
    assert (content.group, content.kind) == ("election", "Notification")
    assert content.subject == {"state": "LEADING", "round": 7, "vote": 3, "zxid": "0x1a", "epoch": 5}
