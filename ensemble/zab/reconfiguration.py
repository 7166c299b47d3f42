"""What a peer knows of the ensemble's membership: the one in force, the last one seen, and the quorums that follow
(QuorumPeer.processReconfig, setLastSeenQuorumVerifier).

A reconfiguration is proposed like any transaction.  From its proposal until it is in force every decision needs a
quorum of both memberships.  A peer that logs it has first put it on disk as the last one seen; one that learns that it
is committed (from its leader, or from another peer during an election) puts it into force.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Protocol

from zabka.ensemble.ids import PeerId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.ensemble.zab.application import Application, EnsembleConfig
from zabka.ensemble.zab.effects import Effect, SaveMembership, SaveNextMembership, UseMembership
from zabka.ensemble.zab.membership import BadMembership, Membership
from zabka.ensemble.zab.quorum import JointQuorum, QuorumSystem, SurvivorQuorum
from zabka.ensemble.zab.role import Role
from zabka.journal.cause import Cause, request_cause
from zabka.journal.events import Event, MembershipActivated


class MemberCore(Protocol):
    """What the memberships of a peer need of that peer (`zabka.ensemble.zab.core.Core`)."""

    my_id: PeerId
    now: Instant
    out: list[Effect]
    application: Application
    role: Role | None

    def to_disk(self, effect: Effect) -> None:
        """Queue an effect for the disk, behind all that was queued before."""
        ...

    def emit(self, event: Event) -> None:
        """Write to the journal."""
        ...

    def leave(self, reason: str, cause: Cause) -> None:
        """Give up the role at the end of this turn."""
        ...


def membership_of(config: EnsembleConfig) -> Membership:
    """The membership that a peer starts with.  Raises BadMembership."""
    if config.membership:
        return Membership.parse(config.membership)
    voters, observers = ([PeerId(i) for i in sorted(ids)] for ids in (config.voters, config.observers))
    return Membership(0, tuple(voters), tuple(observers))


def membership_in(txn: Txn) -> Membership:
    """What a reconfiguration proposes.  Raises BadMembership."""
    if not isinstance(txn.body, SetDataTxn):
        raise BadMembership(f"{txn!r} is no reconfiguration")
    try:
        return _led((txn.body.data or b"").decode())
    except UnicodeDecodeError:
        raise BadMembership("a membership that is no text") from None


def _led(text: str) -> Membership:
    """A membership that somebody else sent: one without a voter could never decide anything.  Raises BadMembership."""
    membership = Membership.parse(text)
    if not membership.voters:
        raise BadMembership("a membership without a voter")
    return membership


class Reconfiguration:
    """A peer's memberships.  Where reconfiguration is not enabled, the first one stays for good."""

    def __init__(self, core: MemberCore, config: EnsembleConfig) -> None:
        self._core = core
        self.enabled = config.reconfig_enabled
        self.current = membership_of(config)
        self.last_seen = self.current
        if self.enabled and config.next_membership:
            following = Membership.parse(config.next_membership)
            if following.version > self.current.version:
                self.last_seen = following
        self._has_oracle = config.has_oracle
        self._oracle_agrees = False
        self.quorum = self._quorum()
        self.text = self.current.text

    def _quorum(self) -> QuorumSystem:
        if self.under_way and not self._same_quorums():
            return JointQuorum(self.current.quorum, self.last_seen.quorum)
        if self._oracle_agrees and self._asks_oracle and self.votes:
            return SurvivorQuorum(self.current.quorum, self._core.my_id)
        return self.current.quorum

    @property
    def _asks_oracle(self) -> bool:
        return self._has_oracle and len(self.current.voters) == 2 and not self.current.groups

    def hear_oracle(self, agrees: bool) -> None:
        """The oracle says whether this server, one of two, may go on without the other."""
        self._oracle_agrees = agrees
        self.quorum = self._quorum()

    def _same_quorums(self) -> bool:
        one, other = self.current, self.last_seen
        return (one.voters, one.groups, one.weights) == (other.voters, other.groups, other.weights)

    @property
    def under_way(self) -> bool:
        """Was a membership seen that is not in force yet?"""
        return self.last_seen.version > self.current.version

    @property
    def votes(self) -> bool:
        """Is this peer a voter of the membership in force?"""
        return self._core.my_id in self.current.voters

    @property
    def observes(self) -> bool:
        """Is this peer an observer?  One that is no member at all follows without a vote, until it is made one."""
        return self._core.my_id in self.current.observers

    def expects(self, peer: PeerId) -> bool:
        """Return whether a leader needs this learner in its epoch: it is a member, or can become one by reconfig."""
        return self.enabled or peer in self.current.voters or peer in self.current.observers

    def is_proposed_only(self, peer: PeerId) -> bool:
        """Is it a voter of the membership that is proposed, and not of the one in force?  What it has beyond a leader
        of a quorum of those in force is not committed: until a change is in force everything needs such a quorum, and
        whoever logs anything behind that has put it in force, and follows no leader who has not."""
        return self.under_way and peer in self.last_seen.voters and peer not in self.current.voters

    def backs(self, peers: Container[PeerId]) -> bool:
        """Do enough of them follow a leader for this peer to try it?  A quorum of either membership will do: to follow
        promises nothing, and one that was proposed in vain, of which this peer may be half, must not keep it out.
        Where an oracle has not chosen this peer, a leader that it may have chosen will do."""
        if self._asks_oracle and not self._oracle_agrees and any(voter in peers for voter in self.current.voters):
            return True
        return self.current.quorum.contains(peers) or (self.under_way and self.last_seen.quorum.contains(peers))

    def restore_current(self) -> None:
        """The peer starts: whoever runs it knows the membership in force, but not the one that was proposed."""
        if self.under_way:
            self._core.out.append(UseMembership(self.current, self.last_seen))

    def proposed(self, txn: Txn) -> None:
        """A reconfiguration is about to be logged here."""
        if not self.enabled:
            return
        membership = self.read(txn)
        if membership is not None and membership.version > self.last_seen.version:
            self.see(membership)

    def read(self, txn: Txn) -> Membership | None:
        """What a reconfiguration proposes; a leader whose text makes no sense here cannot be followed."""
        try:
            return membership_in(txn)
        except BadMembership as bad:
            self._core.leave(f"the leader's new membership cannot be read: {bad}", request_cause("reconfig"))
            return None

    def see(self, membership: Membership) -> None:
        """This is the last one seen; on disk before whatever is queued for it next.  A leader's word may also take back
        one that came to nothing."""
        if not self.enabled or membership.version == self.last_seen.version:
            return
        core = self._core
        self.last_seen = membership
        core.to_disk(SaveNextMembership(membership) if self.under_way else SaveMembership(self.current))
        self._changed()

    def see_text(self, text: str) -> None:
        """A new leader has sent the last membership it has seen, as text: that is the last one seen here, too."""
        if self.enabled and text:
            try:
                self.see(_led(text))
            except BadMembership as bad:
                self._core.leave(f"the leader's membership cannot be read: {bad}", request_cause("reconfig"))

    def activate(self, membership: Membership, designated: PeerId | None) -> bool:
        """A membership is in force.  Whether the peer's role or leader changes by it, so that it must begin anew; then
        it follows `designated`, or, where that is None, looks for a leader."""
        if not self.enabled or membership.version <= self.current.version:
            return False
        core = self._core
        before, observed = self.current, self.observes
        self.current = membership
        if membership.version > self.last_seen.version:
            self.last_seen = membership
        self.text = membership.text
        core.to_disk(SaveMembership(membership))
        self._changed()
        core.application.describe_membership(core.now, self.text, membership.version)
        core.emit(MembershipActivated(membership.version, list(membership.voters), list(membership.observers)))
        if before.same_servers(membership):
            return False
        leader_id = core.role.leader_id if core.role is not None else None
        if designated is not None:
            return self.observes != observed or designated != leader_id
        return self.observes != observed or leader_id is None or not _same_leader(before, membership, leader_id)

    def take_up(self, proposed: Iterable[Txn]) -> bool:
        """The leader that named the membership seen last is established: it is in force, unless it is among what is
        only `proposed`, for a ZooKeeper leader names that, too.  Says what `activate` does."""
        version = self.last_seen.version
        if any(txn.zxid == version and txn.type == OpCode.RECONFIG for txn in proposed):
            return False
        return self.activate(self.last_seen, None)

    def open_epoch(self, zxid: Zxid) -> None:
        """A new leader: a first membership, which everybody has from its own file, gets a version with the first epoch,
        so that it takes precedence over those of servers that want to join (ZOOKEEPER-1783)."""
        if self.enabled and self.current.version == 0 and not self.under_way and self.current.lines:
            self.see(self.current.with_version(zxid))

    def heard(self, text: str) -> bool:
        """A peer that is looking heard which membership is in force elsewhere; whether it took it over as newer."""
        if not self.enabled or not text or text == self.text:
            return False
        try:
            membership = Membership.parse(text)
        except BadMembership:
            return False
        if not membership.lines or membership.version <= self.current.version or not membership.voters:
            return False
        self.activate(membership, None)
        return True

    def _changed(self) -> None:
        self.quorum = self._quorum()
        self._core.out.append(UseMembership(self.current, self.last_seen))


def quorum_address(membership: Membership, peer: PeerId) -> tuple[str, int] | None:
    """Where a voter listens for learners; None where it is no voter, or has no address."""
    line = membership.lines.get(peer) if peer in membership.voters else None
    return (line.host, line.quorum_port) if line is not None else None


def _same_leader(before: Membership, after: Membership, leader: PeerId) -> bool:
    address = quorum_address(after, leader)
    return address is not None and address == quorum_address(before, leader)
