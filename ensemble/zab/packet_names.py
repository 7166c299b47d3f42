"""Names and contents of the messages between peers, in ZooKeeper's terms (Leader.java), for display."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from zabka.ensemble.ids import counter_of, epoch_of, zxid_text
from zabka.ensemble.op_names import op_name
from zabka.ensemble.txn import CloseSessionTxn, MultiTxn, Txn
from zabka.ensemble.zab import messages
from zabka.journal.messages import Content, Subject, listed


def notification_content(notification: messages.Notification) -> Content:
    """Return the content of an election notification: the sender's state, its round and its vote."""
    vote = notification.vote
    return Content(
        "election",
        "Notification",
        {
            "state": notification.state.name,
            "round": notification.round,
            "vote": vote.leader,
            "zxid": zxid_text(vote.zxid),
            "epoch": vote.peer_epoch,
        },
    )


def txn_subject(txn: Txn) -> Subject:
    """Return the subject of a transaction: zxid, session, operation, and the znodes that it changes."""
    found: Subject = {"zxid": zxid_text(txn.zxid), "session": zxid_text(txn.session_id), "op": op_name(txn.type)}
    body = txn.body
    if isinstance(body, MultiTxn):
        found |= listed([f"{op_name(sub.type)} {getattr(sub.body(), 'path', '')}".strip() for sub in body.txns])
    elif isinstance(body, CloseSessionTxn):
        found |= listed(list(body.paths))
    elif (path := getattr(body, "path", None)) is not None:
        found["path"] = path
    return found


def packet_contents(packet: messages.Packet) -> Iterator[Content]:
    """Yield the contents of a packet on the quorum port; for a Proposal, one per transaction, as on the wire."""
    if isinstance(packet, messages.Proposal):
        for txn in packet.txns:
            yield Content("broadcast", "PROPOSAL", txn_subject(txn))
    else:
        yield _CONTENTS[type(packet)](packet)


def _follower_info(packet: messages.FollowerInfo) -> Content:
    kind = "OBSERVERINFO" if packet.observer else "FOLLOWERINFO"
    return Content("discovery", kind, {"peer": packet.peer_id, "epoch": packet.accepted_epoch})


def _ack(packet: messages.Ack) -> Content:
    if counter_of(packet.zxid) == 0:
        return Content("synchronisation", "ACK", {"epoch": epoch_of(packet.zxid)})
    return Content("broadcast", "ACK", _up_to(packet))


def _up_to(packet: messages.Ack | messages.Commit) -> Subject:
    found: Subject = {"zxid": zxid_text(packet.zxid)}
    if packet.cumulative:
        found["cumulative"] = True
    return found


def _zxid(packet: messages.Diff | messages.Trunc | messages.Snap) -> Subject:
    return {"zxid": zxid_text(packet.zxid)}


def _activate(packet: messages.CommitAndActivate) -> Content:
    return Content("broadcast", "COMMITANDACTIVATE", {"zxid": zxid_text(packet.zxid), "designated": packet.designated})


def _revalidate(packet: messages.Revalidate) -> Content:
    found: Subject = {"session": zxid_text(packet.session_id), "timeout_ms": packet.timeout_ms}
    if packet.valid is not None:
        found["valid"] = packet.valid
    return Content("session", "REVALIDATE", found)


def _request(packet: messages.ForwardedRequest) -> Content:
    found: Subject = {"session": zxid_text(packet.session_id), "xid": packet.cxid, "op": op_name(packet.op)}
    return Content("broadcast", "REQUEST", found)


def _sync(packet: messages.SyncRequest) -> Content:
    found: Subject = {"session": zxid_text(packet.session_id), "xid": packet.cxid, "path": packet.path}
    return Content("broadcast", "SYNC", found)


_CONTENTS: dict[type, Callable[[Any], Content]] = {
    messages.FollowerInfo: _follower_info,
    messages.LeaderInfo: lambda packet: Content("discovery", "LEADERINFO", {"epoch": packet.epoch}),
    messages.AckEpoch: lambda packet: Content(
        "discovery", "ACKEPOCH", {"epoch": packet.current_epoch, "zxid": zxid_text(packet.last_zxid)}
    ),
    messages.Diff: lambda packet: Content("synchronisation", "DIFF", _zxid(packet)),
    messages.Trunc: lambda packet: Content("synchronisation", "TRUNC", _zxid(packet)),
    messages.Snap: lambda packet: Content("synchronisation", "SNAP", _zxid(packet)),
    messages.NewLeader: lambda packet: Content("synchronisation", "NEWLEADER", {"epoch": epoch_of(packet.zxid)}),
    messages.UpToDate: lambda packet: Content("synchronisation", "UPTODATE", {}),
    messages.Ack: _ack,
    messages.Commit: lambda packet: Content("broadcast", "COMMIT", _up_to(packet)),
    messages.CommitAndActivate: _activate,
    messages.Inform: lambda packet: Content("broadcast", "INFORM", txn_subject(packet.txn)),
    messages.InformAndActivate: lambda packet: Content("broadcast", "INFORMANDACTIVATE", txn_subject(packet.txn)),
    messages.Ping: lambda packet: Content("ping", "PING", {"sessions": len(packet.touched)}),
    messages.Revalidate: _revalidate,
    messages.ForwardedRequest: _request,
    messages.SyncRequest: _sync,
}
