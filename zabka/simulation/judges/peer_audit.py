"""One peer's words compared with the disks, as it says them (`zabka.simulation.judges.rules`).

What does not hold goes to the journal as `invariant_violated`, where the watchdog finds it.
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
    """What the audits of all peers of one world share: `committed` hears of transactions that nobody had applied."""

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
    """Looks over one process's shoulder (`Witness`, `zabka.simulation.nodes`), with every peer's disk in sight."""

    __slots__ = ("_hearing", "_judges", "_process")

    def __init__(self, process: PeerProcess, judges: EnsembleJudges) -> None:
        self._process = process
        self._judges = judges
        self._hearing = Hearing(process.node.config.my_id)

    def sends(self, packets: Sequence[Packet]) -> None:
        """Packets leave: may they?"""
        for packet in packets:
            if isinstance(packet, _PROMISES):
                self._judges.record.judged.note(ACKNOWLEDGEMENTS)
                process = self._process
                broken = broken_rule(packet, process.node.disk, process.peer.accepted_epoch)
                if broken is not None:
                    self._violated(ACKNOWLEDGEMENTS, broken)

    def tells_leader(self, ours: Endpoint, packets: Sequence[Packet]) -> None:
        """Packets leave for the leader: among them may be word of sessions."""
        self._judges.sessions.sent(self._hearing, ours, packets)

    def hears_learner(self, theirs: Endpoint, packets: Sequence[Packet]) -> None:
        """A learner's packets have arrived."""
        self._judges.sessions.arrived(self._hearing.peer_id, theirs, packets)

    def hears_client(self, connection: ConnectionId) -> None:
        """A client's word has arrived."""
        self._judges.sessions.heard(self._hearing, connection, self._process.site.scheduler.now_us)

    def answers(self, connection: ConnectionId, message: ServerMessage) -> None:
        """A client is answered: which session is it?"""
        self._judges.sessions.answered(self._hearing, connection, message)

    def applies(self, txn: Txn) -> None:
        """A transaction is applied: if nobody had applied it as committed, do a quorum's disks hold it?"""
        judges = self._judges
        if txn.zxid > judges.record.last_committed:
            judges.record.judged.note(QUORUMS)
            disks: dict[int, DurableState] = {peer: node.disk for peer, node in judges.peers.items()}
            broken = judges.membership.without_quorum(txn, disks)
            if broken is not None:
                self._violated(QUORUMS, broken)
            judges.committed(txn)

    def saves(self, effect: SaveSnapshot) -> None:
        """A snapshot of its own is on the way to the disk: is all of it committed (ZOOKEEPER-1549)?"""
        if effect.replaces_history:
            return
        record = self._judges.record
        record.judged.note(SNAPSHOTS)
        if effect.snapshot.zxid > record.last_committed:
            committed = zxid_text(record.last_committed)
            self._violated(SNAPSHOTS, f"a snapshot of {zxid_text(effect.snapshot.zxid)}, committed is {committed}")

    def synced(self, event: LearnerSynced) -> None:
        """A learner has acknowledged NEWLEADER: is its history the leader's (processConsistency)?"""
        process = self._process
        leader = self._judges.peers.get(event.leader_id)
        if leader is None or leader.peer is None or leader.peer.current_epoch != event.epoch:
            return
        self._judges.record.judged.note(PROCESS_CONSISTENCY)
        if not is_prefix(process.node.disk.history(), leader.disk.history()):
            self._violated(PROCESS_CONSISTENCY, f"its history is not {leader.name}'s in epoch {event.epoch}")

    def _violated(self, invariant: str, detail: str) -> None:
        self._process.emit(InvariantViolated(invariant, detail))
