"""One peer's words compared with the disks, as it says them (`simulation.rules`).

What does not hold goes to the journal as `invariant_violated`, where the watchdog finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ensemble.ids import Zxid, zxid_text
from ensemble.zab.effects import SaveSnapshot
from ensemble.zab.messages import Ack, AckEpoch, LeaderInfo, Packet
from journal.events import InvariantViolated, LearnerSynced
from simulation.judges.rules import DurableState, broken_rule, is_prefix, without_quorum

if TYPE_CHECKING:
    from simulation.nodes.peer_node import PeerProcess

_PROMISES = (AckEpoch, LeaderInfo, Ack)


class Audit:
    """Looks over the shoulder of one process."""

    __slots__ = ("_process",)

    def __init__(self, process: PeerProcess) -> None:
        self._process = process

    def sends(self, packets: Sequence[Packet]) -> None:
        """Packets leave: may they?"""
        for packet in packets:
            if isinstance(packet, _PROMISES):
                process = self._process
                broken = broken_rule(packet, process.node.disk, process.peer.accepted_epoch)
                if broken is not None:
                    self._violated("acknowledgement rules", broken)

    def commits(self, zxid: Zxid) -> None:
        """A transaction that nobody had applied as committed is applied here: do a quorum's disks hold it?"""
        process = self._process
        disks: dict[int, DurableState] = {peer: node.disk for peer, node in process.world.peers.items()}
        broken = without_quorum(zxid, process.peer.quorum, disks)
        if broken is not None:
            self._violated("acknowledgement rules", broken)

    def saves(self, effect: SaveSnapshot) -> None:
        """A snapshot of its own is on the way to the disk: is all of it committed (ZOOKEEPER-1549)?"""
        committed = self._process.world.record.last_committed
        if not effect.replaces_history and effect.snapshot.zxid > committed:
            detail = f"a snapshot of {zxid_text(effect.snapshot.zxid)}, committed is {zxid_text(committed)}"
            self._violated("snapshots hold committed transactions", detail)

    def synced(self, event: LearnerSynced) -> None:
        """A learner has acknowledged NEWLEADER: is its history the leader's (processConsistency)?"""
        process = self._process
        leader = process.world.peers.get(event.leader_id)
        if leader is None or leader.peer is None or leader.peer.current_epoch != event.epoch:
            return
        if not is_prefix(process.node.disk.history(), leader.disk.history()):
            self._violated("processConsistency", f"its history is not {leader.name}'s in epoch {event.epoch}")

    def _violated(self, invariant: str, detail: str) -> None:
        self._process.emit(InvariantViolated(invariant, detail))
