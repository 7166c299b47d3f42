"""One peer's words compared with the disks, as it says them (`simulation.judges.rules`).

What does not hold goes to the journal as `invariant_violated`, where the watchdog finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ensemble.ids import Zxid, zxid_text
from ensemble.txn import Txn
from ensemble.zab.effects import SaveSnapshot
from ensemble.zab.messages import Ack, AckEpoch, LeaderInfo, Packet
from journal.events import InvariantViolated, LearnerSynced
from simulation.judges.rules import DurableState, broken_rule, is_prefix, without_quorum
from simulation.nodes.peer_node import PeerNode, PeerProcess
from simulation.record import Record

_PROMISES = (AckEpoch, LeaderInfo, Ack)


class PeerAudit:
    """Looks over the shoulder of one process (`simulation.nodes.peer_node.Witness`), with every peer's disk in sight.
    Transactions that nobody had applied as committed before are handed on to `committed`."""

    __slots__ = ("_committed", "_peers", "_process", "_record")

    def __init__(
        self,
        process: PeerProcess,
        peers: Mapping[int, PeerNode],
        record: Record,
        committed: Callable[[Txn], None],
    ) -> None:
        self._process = process
        self._peers = peers
        self._record = record
        self._committed = committed

    def sends(self, packets: Sequence[Packet]) -> None:
        """Packets leave: may they?"""
        for packet in packets:
            if isinstance(packet, _PROMISES):
                process = self._process
                broken = broken_rule(packet, process.node.disk, process.peer.accepted_epoch)
                if broken is not None:
                    self._violated("acknowledgement rules", broken)

    def applies(self, txn: Txn) -> None:
        """A transaction is applied: if nobody had applied it as committed, do a quorum's disks hold it?"""
        if txn.zxid > self._record.last_committed:
            disks: dict[int, DurableState] = {peer: node.disk for peer, node in self._peers.items()}
            broken = without_quorum(Zxid(txn.zxid), self._process.peer.quorum, disks)
            if broken is not None:
                self._violated("acknowledgement rules", broken)
            self._committed(txn)

    def saves(self, effect: SaveSnapshot) -> None:
        """A snapshot of its own is on the way to the disk: is all of it committed (ZOOKEEPER-1549)?"""
        committed = self._record.last_committed
        if not effect.replaces_history and effect.snapshot.zxid > committed:
            detail = f"a snapshot of {zxid_text(effect.snapshot.zxid)}, committed is {zxid_text(committed)}"
            self._violated("snapshots hold committed transactions", detail)

    def synced(self, event: LearnerSynced) -> None:
        """A learner has acknowledged NEWLEADER: is its history the leader's (processConsistency)?"""
        process = self._process
        leader = self._peers.get(event.leader_id)
        if leader is None or leader.peer is None or leader.peer.current_epoch != event.epoch:
            return
        if not is_prefix(process.node.disk.history(), leader.disk.history()):
            self._violated("processConsistency", f"its history is not {leader.name}'s in epoch {event.epoch}")

    def _violated(self, invariant: str, detail: str) -> None:
        self._process.emit(InvariantViolated(invariant, detail))
