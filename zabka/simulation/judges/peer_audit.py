"""Checks of one peer's messages against the disks, at the time of sending (`zabka.simulation.judges.rules`).

Violations are journalled as `invariant_violated`, where the watchdog finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zabka.ensemble.ids import ConnectionId, zxid_text
from zabka.ensemble.records import ServerMessage
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.effects import SaveSnapshot
from zabka.ensemble.zab.messages import Ack, AckEpoch, LeaderInfo, Packet
from zabka.journal.events import InvariantViolated, LearnerSynced
from zabka.simulation.judges.committed_membership import CommittedMembership
from zabka.simulation.judges.heard_sessions import HeardSessions, Hearing
from zabka.simulation.judges.rules import DurableState, broken_rule, is_prefix
from zabka.simulation.network.network import Endpoint
from zabka.simulation.nodes.peer_node import PeerNode, PeerProcess
from zabka.simulation.record import Record

_PROMISES = (AckEpoch, LeaderInfo, Ack)
ACKNOWLEDGEMENTS = "acknowledgement rules"
QUORUMS = "a quorum's disks hold what is committed"
SNAPSHOTS = "snapshots hold committed transactions"
PROCESS_CONSISTENCY = "processConsistency"


class EnsembleJudges:
    """State that all audits share; `committed` receives each transaction when the first peer applies it."""

    def __init__(
        self,
        peers: Mapping[int, PeerNode],
        record: Record,
        membership: CommittedMembership,
        committed: Callable[[Txn], None],
        emit: Callable[[InvariantViolated], object],
    ) -> None:
        self.peers = peers
        self.record = record
        self.membership = membership
        self.committed = committed
        self.sessions = HeardSessions(record.judged, emit)
        record.listeners.append(self.sessions.journalled)


class PeerAudit:
    """Observes one process (`Witness`, `zabka.simulation.nodes`) and compares it with the disks of all peers."""

    __slots__ = ("_hearing", "_judges", "_process")

    def __init__(self, process: PeerProcess, judges: EnsembleJudges) -> None:
        self._process = process
        self._judges = judges
        self._hearing = Hearing(process.node.config.my_id)

    def sends(self, packets: Sequence[Packet]) -> None:
        """Check packets that the peer sends."""
        for packet in packets:
            if isinstance(packet, _PROMISES):
                self._judges.record.judged.note(ACKNOWLEDGEMENTS)
                process = self._process
                broken = broken_rule(packet, process.node.disk, process.peer.accepted_epoch)
                if broken is not None:
                    self._violated(ACKNOWLEDGEMENTS, broken)

    def tells_leader(self, ours: Endpoint, packets: Sequence[Packet]) -> None:
        """Handle packets to the leader: pings among them report sessions."""
        self._judges.sessions.sent(self._hearing, ours, packets)

    def hears_learner(self, theirs: Endpoint, packets: Sequence[Packet]) -> None:
        """Handle packets that have arrived from a learner."""
        self._judges.sessions.arrived(self._hearing.peer_id, theirs, packets)

    def hears_client(self, connection: ConnectionId) -> None:
        """Handle a message that has arrived from a client."""
        self._judges.sessions.heard(self._hearing, connection, self._process.site.scheduler.now_us)

    def answers(self, connection: ConnectionId, message: ServerMessage) -> None:
        """Handle a reply to a client, which may name its session."""
        self._judges.sessions.answered(self._hearing, connection, message)

    def applies(self, txn: Txn) -> None:
        """Check a transaction that is applied: if this peer is the first to apply it, a quorum's disks must hold it."""
        judges = self._judges
        if txn.zxid > judges.record.last_committed:
            judges.record.judged.note(QUORUMS)
            disks: dict[int, DurableState] = {peer: node.disk for peer, node in judges.peers.items()}
            broken = judges.membership.without_quorum(txn, disks)
            if broken is not None:
                self._violated(QUORUMS, broken)
            judges.committed(txn)

    def saves(self, effect: SaveSnapshot) -> None:
        """Check a snapshot that the peer saves of its own state: all of it must be committed (ZOOKEEPER-1549)."""
        if effect.replaces_history:
            return
        record = self._judges.record
        record.judged.note(SNAPSHOTS)
        if effect.snapshot.zxid > record.last_committed:
            committed = zxid_text(record.last_committed)
            self._violated(SNAPSHOTS, f"a snapshot of {zxid_text(effect.snapshot.zxid)}, committed is {committed}")

    def synced(self, event: LearnerSynced) -> None:
        """Check a learner that has acknowledged NEWLEADER: its history must be the leader's (processConsistency)."""
        process = self._process
        leader = self._judges.peers.get(event.leader_id)
        if leader is None or leader.peer is None or leader.peer.current_epoch != event.epoch:
            return
        self._judges.record.judged.note(PROCESS_CONSISTENCY)
        if not is_prefix(process.node.disk.history(), leader.disk.history()):
            self._violated(PROCESS_CONSISTENCY, f"its history is not {leader.name}'s in epoch {event.epoch}")

    def _violated(self, invariant: str, detail: str) -> None:
        self._process.emit(InvariantViolated(invariant, detail))
