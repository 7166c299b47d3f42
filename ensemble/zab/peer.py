"""One ensemble server as a state machine: election, then the role of a leader or a learner, for one application.

The driver (on asyncio or in the simulated world) calls the handlers and executes the effects that they return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from zabka.ensemble.auth.schemes import AuthId
from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, Zxid, epoch_of
from zabka.ensemble.ports import Instant, Random
from zabka.ensemble.records import ClientMessage
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.application import LAPSING_TIMER, LOCAL_SESSIONS_TIMER, Application, EnsembleConfig
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.effects import Effect, Halt, Recovered, SendNotification
from zabka.ensemble.zab.election import Election
from zabka.ensemble.zab.leader import Leader
from zabka.ensemble.zab.learner import Learner
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import Notification, Packet, PeerState, Vote
from zabka.ensemble.zab.quorum import QuorumSystem
from zabka.ensemble.zab.role import Phase
from zabka.ensemble.zab.sync import follows

READ_ONLY_TIMER = "peer.read_only"
READ_ONLY_GRACE_MS = 2000
"""Minimum time without a leader until this server accepts clients for reads (QuorumPeer.run)."""
PARKED_LINKS_MAX = 64
PARKED_PACKETS_MAX = 4


class LearnerStatus(msgspec.Struct, frozen=True):
    """State of a learner, as known to its leader."""

    peer_id: PeerId
    observer: bool
    synced: bool
    acked_zxid: Zxid


class PeerStatus(msgspec.Struct, frozen=True):
    """A peer's state for reports (`mntr`, the API, tests).

    `outstanding` counts proposals that are not committed yet.
    """

    peer_id: PeerId
    state: PeerState
    phase: Phase
    leader_id: PeerId
    round: int
    accepted_epoch: Epoch
    current_epoch: Epoch
    last_zxid: Zxid
    last_committed: Zxid
    serving: bool
    outstanding: int
    pending_syncs: int
    learners: tuple[LearnerStatus, ...]
    read_only: bool = False
    source_id: PeerId | None = None
    """Peer that sends a learner its history: its leader, or a follower that accepts observers."""
    leads_only: bool = False
    """Whether this peer leads and does not accept clients itself (leaderServes=no)."""

    @property
    def serves_clients(self) -> bool:
        """Whether this peer accepts clients, at least read-only."""
        return self.read_only or (self.serving and not self.leads_only)

    @property
    def isro(self) -> str:
        """Return the reply to `isro`, with which clients search for a server with a leader (IsroCommand).

        The reply is `rw`, `ro`, or `null` if this server does not accept clients.
        """
        if self.read_only:
            return "ro"
        return "rw" if self.serves_clients else "null"


class Peer:
    """An ensemble server without I/O; its handlers return effects for the driver."""

    def __init__(
        self,
        config: EnsembleConfig,
        application: Application,
        recovered: Recovered,
        random: Random,
        *,
        cumulative: bool = True,
    ) -> None:
        self._core = Core(config, application, recovered, random, cumulative)
        self._application = application
        self._recovered: Recovered | None = recovered
        self._election = Election(self._core)
        self._vote = Vote(self._core.my_id, Zxid(0), Epoch(0))
        self._lost_leader: PeerId | None = None
        self._masters_tried = 0
        self._observed: Vote | None = None
        self._parked: dict[LinkId, list[Packet]] = {}
        self._halted = False
        self._read_only = False

    def hand_effects_to(self, outlet: Callable[[list[Effect]], None]) -> None:
        """Set a function that receives the first effects of a long turn before the turn ends.

        This call is optional. After it, a handler returns only the remaining effects, which must be executed after the
        first ones.
        """
        self._core.outlet = outlet

    # -- reports ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> PeerState:
        """State of this peer: LOOKING, FOLLOWING, LEADING or OBSERVING."""
        role = self._core.role
        return PeerState.LOOKING if role is None else role.state

    @property
    def phase(self) -> Phase:
        """Phase of this peer: election, discovery, synchronisation or broadcast."""
        role = self._core.role
        return Phase.ELECTION if role is None else role.phase

    @property
    def outstanding(self) -> int:
        """Number of transactions that are logged here, or about to be logged, and are not committed yet."""
        return len(self._core.pending)

    @property
    def quorum(self) -> QuorumSystem:
        """The quorum system that this peer uses for epochs and acknowledgements."""
        return self._core.quorum

    @property
    def accepted_epoch(self) -> Epoch:
        """The highest epoch that this peer has accepted."""
        return self._core.accepted_epoch

    @property
    def current_epoch(self) -> Epoch:
        """The last epoch whose initial history this peer has adopted."""
        return self._core.current_epoch

    @property
    def last_zxid(self) -> Zxid:
        """Zxid of the last logged transaction."""
        return self._core.last_logged

    @property
    def leader_id(self) -> PeerId:
        """Id of the leader that this peer follows; its own id when leading, -1 when LOOKING."""
        role = self._core.role
        return PeerId(-1) if role is None else role.leader_id

    @property
    def membership(self) -> Membership:
        """The ensemble's active membership."""
        return self._core.reconfiguration.current

    @property
    def reconfig_enabled(self) -> bool:
        """Whether the membership can change while the ensemble runs (reconfigEnabled)."""
        return self._core.reconfiguration.enabled

    @property
    def round(self) -> int:
        """The election round (electionEpoch)."""
        return self._election.round

    def status(self) -> PeerStatus:
        """The peer's state, epochs, zxids and role in one object."""
        core, role = self._core, self._core.role
        learners: tuple[LearnerStatus, ...] = ()
        pending_syncs = 0
        known = []
        if isinstance(role, Leader):
            pending_syncs, known = role.pending_syncs, role.known_learners()
        elif isinstance(role, Learner):
            known = role.observers
        if known:
            learners = tuple(LearnerStatus(peer.peer_id, peer.observer, peer.synced, peer.acked) for peer in known)
        return PeerStatus(
            peer_id=core.my_id,
            state=self.state,
            phase=self.phase,
            leader_id=self.leader_id,
            round=self.round,
            accepted_epoch=core.accepted_epoch,
            current_epoch=core.current_epoch,
            last_zxid=core.last_logged,
            last_committed=core.last_committed,
            serving=core.serving,
            outstanding=len(core.pending),
            pending_syncs=pending_syncs,
            learners=learners,
            read_only=self._read_only,
            source_id=role.source_id if isinstance(role, Learner) else None,
            leads_only=isinstance(role, Leader) and not core.config.leader_serves,
        )

    @property
    def syncs_sent(self) -> tuple[int, int]:
        """Number of learners that received a snapshot from this peer, and number that received only transactions."""
        return self._core.snaps_sent, self._core.diffs_sent

    @property
    def rare_syncs(self) -> tuple[int, int]:
        """Number of learners that received a DIFF from the log on disk, and number that had to wait.

        A learner has to wait if it may have committed more than this peer.
        """
        return self._core.log_diffs_sent, self._core.syncs_put_off

    @property
    def quits_over_voters(self) -> int:
        """Number of times that this peer gave up leading before it had a quorum, because of a LOOKING voter."""
        return self._core.quits_over_voters

    def proposal_sizes(self) -> tuple[int, int, int]:
        """Sizes of transactions in bytes: the last one proposed in this term, the largest and the smallest in memory.

        A size is -1 if there is no such transaction. The sizes are computed on demand, so that writes are not slower.
        """
        core = self._core
        sizes = [len(txn.encoded()) for txn in core.committed_log if epoch_of(txn.zxid) == core.current_epoch]
        return (sizes[-1], max(sizes), min(sizes)) if sizes else (-1, -1, -1)

    # -- handlers that the driver calls -----------------------------------------------------------------------------

    def on_start(self, now: Instant) -> list[Effect]:
        """Start: load the state that was read from the disk, and begin an election."""
        core = self._core
        core.now = now
        recovered, self._recovered = self._recovered, None
        assert recovered is not None, "a peer starts once"
        problem = why_unusable(recovered)
        if problem is not None:
            self._halted = True
            return [Halt(problem)]
        core.load(recovered)
        core.reconfiguration.restore_current()
        self._look()
        return self._finish()

    def on_notification(self, now: Instant, src: PeerId, notification: Notification) -> list[Effect]:
        """Process an election notification from another peer."""
        self._core.now = now
        if src == self._core.my_id or self._halted:
            return []
        role = self._core.role
        if role is None:
            if self._election.looking:
                self._election.on_notification(src, notification)
        elif notification.state is PeerState.LOOKING:
            self._election.on_sign_of_life(src)
            self._answer(src)
            outvoted = role.state is PeerState.LEADING and self._election.recount(src, notification)
            role.on_looking(src, notification.round, outvoted)
            if outvoted and self._core.leaving is not None:
                self._election.go_on()
        return self._finish()

    def on_oracle(self, now: Instant, agrees: bool) -> list[Effect]:
        """Process the oracle's decision whether this server, one of two voters, can continue without the other one."""
        self._core.now = now
        if not self._halted:
            self._core.reconfiguration.set_oracle(agrees)
            self._election.on_quorum_changed()
        return self._finish()

    def on_voter_unreachable(self, now: Instant, voter: PeerId) -> list[Effect]:
        """Stop waiting in elections for this voter, whose election port cannot be reached (calling this is
        optional).
        """
        self._core.now = now
        if not self._halted:
            self._election.on_unreachable(voter)
        return self._finish()

    def on_link_up(self, now: Instant, link: LinkId, to: PeerId) -> list[Effect]:
        """Handle an established link that OpenLink had requested."""
        self._core.now = now
        if self._core.role is None:
            self._core.close(link, "no longer wanted")
        else:
            self._core.role.on_link_up(link, to)
        return self._finish()

    def on_link_accepted(self, now: Instant, link: LinkId) -> list[Effect]:
        """Handle a learner's connection to this peer's quorum port."""
        self._core.now = now
        role = self._core.role
        if role is not None:
            role.on_link_accepted(link)
        elif len(self._parked) >= PARKED_LINKS_MAX or self._halted:
            self._core.close(link, "too many learners wait for an election")
        else:
            # Other peers may finish an election before this one. Keep the links that they open until this peer has
            # decided.
            self._parked[link] = []
        return self._finish()

    def on_link_failed(self, now: Instant, to: PeerId) -> list[Effect]:
        """Handle a link that OpenLink had requested and that could not be opened."""
        self._core.now = now
        if self._core.role is not None:
            self._core.role.on_link_failed(to)
        return self._finish()

    def on_link_down(self, now: Instant, link: LinkId) -> list[Effect]:
        """Handle a link that broke or was closed by the other side."""
        self._core.now = now
        self._parked.pop(link, None)
        if self._core.role is not None:
            self._core.role.on_link_down(link)
        return self._finish()

    def on_packets(self, now: Instant, link: LinkId, packets: Sequence[Packet]) -> list[Effect]:
        """Process packets that arrived together on one link, in one turn with one barrier.

        After a packet that closes the link or ends the role, the rest is ignored. An empty sequence means that a part
        of a large packet has arrived, which shows that the other side is alive.
        """
        core = self._core
        core.now = now
        if core.role is not None:
            core.role.on_packets(link, packets)
        elif link in self._parked:
            self._parked[link].extend(packets)
            if len(self._parked[link]) > PARKED_PACKETS_MAX:
                del self._parked[link]
                core.close(link, "too much said before the election's end")
        return self._finish()

    def on_timer(self, now: Instant, name: str) -> list[Effect]:
        """Handle an expired timer."""
        self._core.now = now
        if name == LOCAL_SESSIONS_TIMER:
            self._core.perform(self._application.expire_local_sessions(now))
        elif name == LAPSING_TIMER:
            self._core.perform(self._application.delete_lapsed(now))
        elif name == READ_ONLY_TIMER:
            self._serve_read_only()
        elif self._core.role is None:
            self._election.on_timer(name)
        else:
            self._core.role.on_timer(name)
        return self._finish()

    def on_durable(self, now: Instant, token: int) -> list[Effect]:
        """Handle a barrier that has become durable; everything queued before it is durable too."""
        self._core.now = now
        self._core.on_durable(token)
        return self._finish()

    def on_recovered(self, now: Instant, recovered: Recovered) -> list[Effect]:
        """Handle the end of a truncation; `recovered` is the state that the disk contains now."""
        core = self._core
        core.now = now
        assert core.awaiting_recovery, "nobody asked for a truncation"
        problem = why_unusable(recovered)
        if problem is not None:
            self._halted = True
            return [Halt(problem)]
        core.load(recovered)
        if core.role is not None:
            core.role.on_recovered()
        else:
            self._look()
        return self._finish()

    def on_snapshot_spoiled(self, now: Instant) -> list[Effect]:
        """Make a new snapshot due, because the newest one is damaged. Drivers need not call this.

        The snapshot is written when this peer accepts clients.
        """
        self._core.now = now
        self._core.make_snapshot_due()
        return self._finish()

    def on_log_read(self, now: Instant, link: LinkId, after: Zxid, txns: Sequence[Txn] | None) -> list[Effect]:
        """Process the transactions that were read for a ReadLog effect."""
        self._core.now = now
        if self._core.role is not None:
            self._core.role.on_log_read(link, after, txns)
        return self._finish()

    def on_client_connected(
        self, now: Instant, connection: ConnectionId, identities: tuple[AuthId, ...] = ()
    ) -> list[Effect]:
        """Handle a new client connection; see `Application`."""
        self._core.now = now
        self._core.perform(self._application.on_client_connected(now, connection, identities))
        return self._finish()

    def on_clients(self, now: Instant, messages: Sequence[tuple[ConnectionId, ClientMessage]]) -> list[Effect]:
        """Process frames of clients that arrived together, in order, in one turn with one barrier for all writes."""
        core = self._core
        core.now = now
        on_client = self._application.on_client
        for connection, message in messages:
            core.perform(on_client(now, connection, message))
            if core.leaving is not None:
                break  # all client connections are being closed
        return self._finish()

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        """Handle a closed client connection."""
        self._core.now = now
        self._core.perform(self._application.on_client_closed(now, connection))
        return self._finish()

    # -- transitions -----------------------------------------------------------------------------------------------

    def _finish(self) -> list[Effect]:
        """End the turn: change the role if a handler has decided this, then return the effects."""
        core, election = self._core, self._election
        while core.leaving is not None or election.decided is not None:
            if core.leaving is not None:
                self._leave()
            elif election.decided is not None:
                self._take_role(election.decided)
        return core.end_turn(election.round)

    def _leave(self) -> None:
        """End the current role: return to LOOKING, or follow the designated successor.

        Writes that are still in the disk queue cause no problem: the queue is in order, and the state in memory already
        includes their results.
        """
        core = self._core
        reason, role, successor = core.leaving, core.role, core.successor
        assert reason is not None and role is not None
        role.stop(reason)
        self._lost_leader = role.source_id if isinstance(role, Learner) else None
        core.role = None
        if core.serving:
            core.serving = False
            core.perform(self._application.stop_serving(core.now))
        if core.apply_pending() and not core.awaiting_recovery:
            role.on_tree_differs()
        core.leaving = core.successor = None
        if core.awaiting_recovery:
            return
        if successor is not None and not (successor == core.my_id and core.in_doubt):
            self._election.pass_over()
            self._take_role(Vote(successor, core.last_logged, core.current_epoch), handed_over=True)
        else:
            self._look()

    def _look(self) -> None:
        core = self._core
        if core.config.read_only_mode:
            core.set_timer(READ_ONLY_TIMER, max(READ_ONLY_GRACE_MS, core.config.tick_time_ms))
        self._election.start(core.last_logged, core.current_epoch, self._lost_leader)

    def _serve_read_only(self) -> None:
        """Accept clients for reads after some time without a leader, so that the minority in a partition still serves
        reads.

        This affects only clients. In ZooKeeper a read-only server changed the history that it offers to other servers
        (ZOOKEEPER-3526).
        """
        core = self._core
        if core.role is None and not core.awaiting_recovery and not self._read_only:
            self._read_only = True
            core.perform(self._application.start_read_only(core.now))

    def _end_read_only(self) -> None:
        core = self._core
        if core.config.read_only_mode:
            core.cancel_timer(READ_ONLY_TIMER)
        if self._read_only:
            self._read_only = False
            core.perform(self._application.stop_serving(core.now))

    def _take_role(self, vote: Vote, *, handed_over: bool = False) -> None:
        core = self._core
        self._end_read_only()
        self._election.decided = None
        self._vote = vote
        core.round = self._election.round
        parked, self._parked = self._parked, {}
        if vote.leader == core.my_id:
            core.role = leader = Leader(core)
            leader.start()
            for link, packets in parked.items():
                leader.on_link_accepted(link)
                leader.on_packets(link, packets)
            return
        for link in parked:
            core.close(link, "this peer does not lead")
        source = self._source_of(vote.leader)
        # If this vote equals the previous one, accept any epoch, because followers may never announce the leader's new
        # epoch in their votes.
        leads_until = vote.peer_epoch if source != vote.leader and vote != self._observed else None
        self._observed = vote
        core.role = Learner(core, vote.leader, source, handed_over=handed_over, leads_until=leads_until)
        core.role.start()

    def _source_of(self, leader: PeerId) -> PeerId:
        """Return the peer from which this peer learns as a learner of this leader.

        Usually this is the leader. If observers use followers to reduce the leader's load, the leader does not accept
        observers, and an observer tries one follower after another until one accepts it (QuorumPeer.findLearnerMaster).
        """
        core = self._core
        if not (core.config.observes_followers and core.reconfiguration.observes):
            return leader
        followers = [voter for voter in core.reconfiguration.current.voters if voter != leader]
        if not followers:
            return leader
        if not self._masters_tried:
            self._masters_tried = core.random.randrange(1, 1 + len(followers))
        self._masters_tried += 1
        return PeerId(followers[self._masters_tried % len(followers)])

    def _answer(self, to: PeerId) -> None:
        """Send this peer's vote for its leader to a LOOKING peer.

        Once the new epoch is active, the vote contains the new epoch (ZK-1732).
        """
        role, vote = self._core.role, self._vote
        assert role is not None
        if role.phase is Phase.BROADCAST:
            vote = Vote(vote.leader, vote.zxid, self._core.current_epoch)
        note = Notification(role.state, vote, self._election.round, self._core.reconfiguration.text)
        self._core.out.append(SendNotification(to, note))


def why_unusable(recovered: Recovered) -> str | None:
    """Return why the epochs and the log read from a peer's disk are unusable, or None if they are usable."""
    if recovered.accepted_epoch < recovered.current_epoch:
        return (
            f"acceptedEpoch {recovered.accepted_epoch} is less than currentEpoch {recovered.current_epoch}: "
            "this data directory is damaged or mixed up"
        )
    last = recovered.snapshot.zxid if recovered.snapshot is not None else 0
    for txn in recovered.txns:
        if not follows(last, txn.zxid):
            return f"transaction 0x{txn.zxid:x} follows 0x{last:x} in the log: transactions in between are missing"
        last = txn.zxid
    # The last zxid can have a higher epoch than currentEpoch, if a synchronisation wrote the history but the peer
    # crashed before it wrote the epoch. The peer did not count for that epoch, so accept this. An epoch above
    # acceptedEpoch is damage.
    if epoch_of(last) > recovered.accepted_epoch:
        return f"the log reaches epoch {epoch_of(last)}, but acceptedEpoch is {recovered.accepted_epoch}"
    return None
