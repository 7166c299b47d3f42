"""Memberships that a peer knows: the active one and the last one seen, with their quorums.

Source: QuorumPeer.processReconfig, setLastSeenQuorumVerifier.

A reconfiguration is proposed like any transaction. From its proposal until it is active, every decision needs a quorum
of both memberships. Before a peer logs a reconfiguration, it stores the new membership on disk as the last one seen.
When a peer is notified of the commit (by its leader, or by another peer during an election), it activates the new
membership.
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
    """The part of `zabka.ensemble.zab.core.Core` that `Reconfiguration` uses."""

    my_id: PeerId
    now: Instant
    out: list[Effect]
    application: Application
    role: Role | None

    def to_disk(self, effect: Effect) -> None:
        """Queue a disk effect. It is executed after all disk effects that were queued before it."""
        ...

    def emit(self, event: Event) -> None:
        """Write an event to the journal."""
        ...

    def leave(self, reason: str, cause: Cause) -> None:
        """End this peer's current role (leader or learner) at the end of the current turn."""
        ...


def membership_of(config: EnsembleConfig) -> Membership:
    """Return the membership in a peer's initial configuration. Raises BadMembership."""
    if config.membership:
        return Membership.parse(config.membership)
    voters, observers = ([PeerId(i) for i in sorted(ids)] for ids in (config.voters, config.observers))
    return Membership(0, tuple(voters), tuple(observers))


def membership_in(txn: Txn) -> Membership:
    """Return the membership that a reconfiguration transaction proposes. Raises BadMembership."""
    if not isinstance(txn.body, SetDataTxn):
        raise BadMembership(f"{txn!r} is no reconfiguration")
    try:
        return _led((txn.body.data or b"").decode())
    except UnicodeDecodeError:
        raise BadMembership("a membership that is no text") from None


def _led(text: str) -> Membership:
    """Parse a membership received from a leader.

    Raises BadMembership, also for a membership without voters, which could never elect a leader.
    """
    membership = Membership.parse(text)
    if not membership.voters:
        raise BadMembership("a membership without a voter")
    return membership


class Reconfiguration:
    """The memberships that a peer knows. If reconfiguration is not enabled, the first membership never changes."""

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

    def set_oracle(self, agrees: bool) -> None:
        """Set the oracle's decision whether this server, one of two voters, can continue without the other one."""
        self._oracle_agrees = agrees
        self.quorum = self._quorum()

    def _same_quorums(self) -> bool:
        one, other = self.current, self.last_seen
        return (one.voters, one.groups, one.weights) == (other.voters, other.groups, other.weights)

    @property
    def under_way(self) -> bool:
        """Whether a membership has been proposed but is not active yet."""
        return self.last_seen.version > self.current.version

    @property
    def votes(self) -> bool:
        """Whether this peer is a voter in the active membership."""
        return self._core.my_id in self.current.voters

    @property
    def observes(self) -> bool:
        """Whether this peer is an observer in the active membership.

        A peer that is not a member follows as a participant without a vote until it becomes a member.
        """
        return self._core.my_id in self.current.observers

    def expects(self, peer: PeerId) -> bool:
        """Return whether the leader must take this learner's accepted epoch into account.

        True if the learner is a member, or can become one because reconfiguration is enabled.
        """
        return self.enabled or peer in self.current.voters or peer in self.current.observers

    def is_proposed_only(self, peer: PeerId) -> bool:
        """Return whether a peer is a voter in the proposed membership, but not in the active one.

        Until a change is active, every decision needs a quorum of the active membership. So if the history of a peer
        that is only a proposed voter is ahead of the history of a leader with this quorum, the peer's additional
        transactions are not committed. A peer that logs anything after a change has activated the change, and follows
        no leader that has not activated it.
        """
        return self.under_way and peer in self.last_seen.voters and peer not in self.current.voters

    def backs(self, peers: Container[PeerId]) -> bool:
        """Return whether enough of these peers follow a leader for this peer to try to follow that leader too.

        A quorum of either membership is sufficient: following is not binding, and this peer must not be excluded
        because it has seen a proposed membership that failed. If an oracle has not chosen this peer, it tries any
        leader that a voter follows, because the oracle may have chosen that leader.
        """
        if self._asks_oracle and not self._oracle_agrees and any(voter in peers for voter in self.current.voters):
            return True
        return self.current.quorum.contains(peers) or (self.under_way and self.last_seen.quorum.contains(peers))

    def restore_current(self) -> None:
        """At start, if a proposed membership is known, pass it to the driver, which knows only the active one."""
        if self.under_way:
            self._core.out.append(UseMembership(self.current, self.last_seen))

    def proposed(self, txn: Txn) -> None:
        """Handle a reconfiguration that is about to be logged here: store its membership as the last one seen."""
        if not self.enabled:
            return
        membership = self.read(txn)
        if membership is not None and membership.version > self.last_seen.version:
            self.see(membership)

    def read(self, txn: Txn) -> Membership | None:
        """Return the membership that a reconfiguration proposes; if it is invalid, leave the leader and return None."""
        try:
            return membership_in(txn)
        except BadMembership as bad:
            self._core.leave(f"the leader's new membership cannot be read: {bad}", request_cause("reconfig"))
            return None

    def see(self, membership: Membership) -> None:
        """Set the last seen membership, and queue it for the disk before all later disk effects.

        A leader's message may also restore the earlier membership, if the proposal of a new one failed.
        """
        if not self.enabled or membership.version == self.last_seen.version:
            return
        core = self._core
        self.last_seen = membership
        core.to_disk(SaveNextMembership(membership) if self.under_way else SaveMembership(self.current))
        self._changed()

    def see_text(self, text: str) -> None:
        """Set the last seen membership from the text in a new leader's NEWLEADER."""
        if self.enabled and text:
            try:
                self.see(_led(text))
            except BadMembership as bad:
                self._core.leave(f"the leader's membership cannot be read: {bad}", request_cause("reconfig"))

    def activate(self, membership: Membership, designated: PeerId | None) -> bool:
        """Activate a membership; return whether the peer's role or leader changes.

        If one of them changes, the peer must leave its role. It then follows `designated` or, if that is None, is
        LOOKING.
        """
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
        """Activate the last seen membership, because the leader that sent it is established.

        If one of the `proposed` transactions contains this membership, the membership is not committed yet: do not
        activate it (a ZooKeeper leader sends such a membership, too). Returns the result of `activate`.
        """
        version = self.last_seen.version
        if any(txn.zxid == version and txn.type == OpCode.RECONFIG for txn in proposed):
            return False
        return self.activate(self.last_seen, None)

    def open_epoch(self, zxid: Zxid) -> None:
        """Begin a new leader's epoch.

        If the membership comes from the servers' own files and so has version 0, set its version to `zxid`. It then
        takes precedence over the memberships of servers that want to join (ZOOKEEPER-1783).
        """
        if self.enabled and self.current.version == 0 and not self.under_way and self.current.lines:
            self.see(self.current.with_version(zxid))

    def learn_current(self, text: str) -> bool:
        """Activate another peer's active membership, received while LOOKING, if it is newer.

        Return whether it was activated.
        """
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
    """Return the address of a voter's quorum port, or None if the server has no vote or no address."""
    line = membership.lines.get(peer) if peer in membership.voters else None
    return (line.host, line.quorum_port) if line is not None else None


def _same_leader(before: Membership, after: Membership, leader: PeerId) -> bool:
    address = quorum_address(after, leader)
    return address is not None and address == quorum_address(before, leader)
