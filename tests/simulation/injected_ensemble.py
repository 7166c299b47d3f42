"""Injected bugs of the ensemble: known bugs of ZooKeeper, and one bug for each rule that the protocol depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.simulation.injecting import InjectedBug, broken
from zabka.ensemble.ids import Zxid
from zabka.ensemble.tree import answer_queues
from zabka.ensemble.tree.commits import Commits
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.service import Service
from zabka.ensemble.tree.sessions import SessionTracker
from zabka.ensemble.txnlog import recovery
from zabka.ensemble.txnlog.files import SNAPSHOT_PREFIX
from zabka.ensemble.zab import leader
from zabka.ensemble.zab.broadcast import Broadcast
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.effects import Effect, Emit, SaveAcceptedEpoch, SaveCurrentEpoch, SaveSnapshot
from zabka.ensemble.zab.election import RESEND_MIN_MS, Election
from zabka.ensemble.zab.following import Following
from zabka.ensemble.zab.leader import Leader
from zabka.ensemble.zab.leader_acks import CommonLog, LeaderAcks
from zabka.ensemble.zab.learner import Learner, LearnerStep
from zabka.ensemble.zab.learner_link import LearnerLink
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import NewLeader
from zabka.ensemble.zab.quorum import Quorum
from zabka.journal.events import EpochAccepted


@contextmanager
def acknowledge_before_it_is_durable() -> Iterator[None]:
    """Injected bug: ACKEPOCH and LEADERINFO are sent before acceptedEpoch is on disk."""

    def save(self: Core, epoch: Any, then: Callable[[], None]) -> None:
        self.accepted_epoch = epoch
        self.out.append(SaveAcceptedEpoch(epoch))
        self.out.append(Emit(EpochAccepted(epoch)))
        then()

    with broken(Core, save_accepted_epoch=save):
        yield


@contextmanager
def newleader_acknowledged_before_the_epoch() -> Iterator[None]:
    """Injected bug: NEWLEADER is acknowledged before currentEpoch is on disk."""

    def hasty(self: Learner) -> None:
        assert self._epoch is not None
        self._core.current_epoch = self._epoch
        self._core.out.append(SaveCurrentEpoch(self._epoch))
        self._epoch_durable()

    with broken(Learner, _history_durable=hasty):
        yield


@contextmanager
def newleader_acknowledged_before_the_history() -> Iterator[None]:
    """Injected bug: the epoch is written and acknowledged before its history (ZOOKEEPER-4643, 4785)."""
    on_newleader = Learner._on_newleader

    def epoch_first(self: Learner, packet: NewLeader) -> None:
        out = self._core.out
        before = len(out)
        on_newleader(self, packet)
        if self._step is LearnerStep.ADOPTING and self._epoch is not None:
            history = out[before:]
            del out[before:]
            self._core.save_current_epoch(self._epoch, self._epoch_durable)
            out += history

    with broken(Learner, _on_newleader=epoch_first, _history_durable=lambda self: None):
        yield


@contextmanager
def snapshots_of_what_is_not_committed() -> Iterator[None]:
    """Injected bug: snapshots contain uncommitted transactions (ZOOKEEPER-1549).

    A peer writes a snapshot when it becomes leader, and a truncation does not delete later snapshots.
    """
    start, remove_all = Leader.start, recovery.remove_all

    def snapshot_first(self: Leader) -> None:
        self._core.out.append(SaveSnapshot(self._core.application.snapshot(), replaces_history=False))
        start(self)

    def keep_snapshots(paths: list[Path], *more: Any) -> None:
        remove_all([path for path in paths if not path.name.startswith(SNAPSHOT_PREFIX)], *more)

    with broken(Leader, start=snapshot_first), broken(recovery, remove_all=keep_snapshots):
        yield


@contextmanager
def votes_with_what_memory_knows() -> Iterator[None]:
    """Injected bug: a peer votes without its logged, uncommitted transactions (ZOOKEEPER-2845).

    The peer forgets these transactions when it leaves its role, but they remain in its log.
    """

    def forget(self: Core) -> None:
        self.pending.clear()
        self._unlogged.clear()
        self.last_logged = self.application.last_applied

    with broken(Core, apply_pending=forget):
        yield


@contextmanager
def leader_counts_itself_before_its_fsync() -> Iterator[None]:
    """Injected bug: a leader counts its own log as durable as soon as it has sent the proposal."""
    propose = Broadcast.propose

    def hasty(self: Broadcast, request: Any, origin: Any) -> None:
        propose(self, request, origin)
        self._logged[self._core.my_id] = self._last_proposed

    with broken(Broadcast, propose=hasty):
        yield


@contextmanager
def established_without_a_quorum() -> Iterator[None]:
    """Injected bug: any single voter is a quorum, even the leader alone."""
    with broken(Quorum, contains=lambda self, peers: any(voter in peers for voter in self.voters)):
        yield


@contextmanager
def sync_answered_by_the_leader_alone() -> Iterator[None]:
    """Injected bug: a leader replies to a sync when no proposal is outstanding, without contacting a quorum.

    This is ZOOKEEPER-1675.
    """

    def at_once(self: Broadcast) -> int:
        return self._syncs.round + 1

    with broken(Broadcast, _answered_round=at_once):
        yield


@contextmanager
def session_owner_not_checked() -> Iterator[None]:
    """Injected bug: requests for a session are accepted from any server (the opposite of ZOOKEEPER-710)."""

    def anyone(self: SessionTracker, session_id: Any, owner: Any) -> bool:
        return True

    def anyone_alive(self: SessionTracker, session_id: Any, owner: Any) -> bool | None:
        session = self._sessions.get(session_id)
        return None if session is None or session.closing else True

    with broken(SessionTracker, owned_by=anyone), broken(SessionTracker, standing=anyone_alive):
        yield


@contextmanager
def watches_fire_late() -> Iterator[None]:
    """Injected bug: a watch event is sent with the next change, not with the change that fired the watch."""
    fire = Commits._fire_watches

    def late(self: Any, zxid: Any, effects: list[Effect]) -> None:
        due: list[Effect] = []
        fire(self, zxid, due)
        effects.extend(LATE.pop(id(self), []))
        LATE[id(self)] = due

    LATE: dict[int, list[Effect]] = {}
    with broken(Commits, _fire_watches=late):
        yield


@contextmanager
def watches_lost_on_reconnection() -> Iterator[None]:
    """Injected bug: the server replies to setWatches, but sets no watch."""
    with broken(answer_queues, rearm=lambda tree, watches, connection, request: []):
        yield


@contextmanager
def served_before_uptodate() -> Iterator[None]:
    """Injected bug: a follower applies every proposal, committed or not."""
    log, apply_up_to = Following.log, Core.apply_up_to

    def eager(self: Following, txns: Any) -> None:
        log(self, txns)
        apply_up_to(self._core, txns[-1].zxid)

    with broken(Following, log=eager), broken(Following, _on_commit=lambda self, commit: None):
        yield


@contextmanager
def pending_proposals_not_given_to_a_newcomer() -> Iterator[None]:
    """Injected bug: a learner receives the committed transactions, but not the pending proposals (ZOOKEEPER-3104)."""
    begin_forwarding = leader.begin_forwarding

    def forgetful(core: Core, peer: LearnerLink, newleader_zxid: Zxid, membership: Membership) -> None:
        pending, core.pending = core.pending, type(core.pending)()
        begin_forwarding(core, peer, newleader_zxid, membership)
        core.pending = pending

    with broken(leader, begin_forwarding=forgetful):
        yield


@contextmanager
def zxids_go_on_across_epochs() -> Iterator[None]:
    """Injected bug: a new leader continues the zxid sequence of the old epoch.

    Its first proposal gets the zxid after the last logged one. This violates ZAB's Integrity property.
    """
    adopt = Leader._adopt_with_quorum

    def continuing(self: Leader) -> None:
        before = self.phase
        adopt(self)
        if self.phase is not before and self._core.last_logged:
            self._broadcast._last_proposed = self._core.last_logged

    with broken(Leader, _adopt_with_quorum=continuing):
        yield


@contextmanager
def replay_of_what_the_snapshot_holds() -> Iterator[None]:
    """Injected bug: a snapshot has an earlier zxid than its last transaction (ZOOKEEPER-3145).

    So the next start applies this transaction again.
    """
    take_snapshot = Core._take_snapshot

    def fuzzy(self: Core) -> None:
        before = len(self.out)
        take_snapshot(self)
        older = next((txn.zxid for txn in list(self.committed_log)[-2:-1]), None)
        for index, effect in enumerate(self.out[before:], before):
            if isinstance(effect, SaveSnapshot) and older is not None:
                relabelled = msgspec.structs.replace(effect.snapshot, zxid=older)
                self.out[index] = SaveSnapshot(relabelled, replaces_history=False)

    with broken(Core, _take_snapshot=fuzzy):
        yield


@contextmanager
def a_leader_never_steps_down() -> Iterator[None]:
    """Injected bug: a leader that has lost its quorum continues to lead."""
    leave = Core.leave

    def stay(self: Core, reason: str, *more: Any) -> None:
        if "quorum of" not in reason:
            leave(self, reason, *more)

    with broken(Core, leave=stay):
        yield


@contextmanager
def votes_are_sent_once() -> Iterator[None]:
    """Injected bug: a vote that was lost is not sent again."""
    with broken(Election, _broadcast=_only_at_first(Election._broadcast)):
        yield


def _only_at_first(broadcast: Callable[[Election], None]) -> Callable[[Election], None]:
    def once(self: Election) -> None:
        if self._resend_ms == RESEND_MIN_MS and not self._received:
            broadcast(self)

    return once


@contextmanager
def ephemerals_forgotten_in_snapshots() -> Iterator[None]:
    """Injected bug: a tree loaded from a snapshot does not know which sessions own ephemerals (ZOOKEEPER-3144)."""
    load = DataTree.from_snapshot.__func__  # type: ignore[attr-defined]

    def ownerless(cls: Any, snapshot: Any) -> Any:
        tree = load(cls, snapshot)
        tree.ephemerals.clear()
        return tree

    with broken(DataTree, from_snapshot=classmethod(ownerless)):
        yield


@contextmanager
def epochs_do_not_rise() -> Iterator[None]:
    """Injected bug: a leader uses the highest accepted epoch again, instead of the next one."""
    open_epoch = Leader._open_epoch_with_quorum

    def same(self: Leader) -> None:
        core = self._core
        if self._epoch is None and core.quorum.contains(self._accepted_epochs) and core.accepted_epoch:
            self._epoch = max(self._accepted_epochs.values())
            core.accepted_epoch = self._epoch
            core.barrier(self._offer_to_all)
        else:
            open_epoch(self)

    with broken(Leader, _open_epoch_with_quorum=same):
        yield


@contextmanager
def leader_acknowledges_before_its_fsync() -> Iterator[None]:
    """Injected bug: a leader tells its learners that its log is durable as soon as it has sent the proposal."""
    propose = Broadcast.propose

    def hasty(self: Broadcast, requests: Any, origin: Any) -> None:
        propose(self, requests, origin)
        if self._core.pending:
            self.acks.send_durable(self._last_proposed, self._links.values())

    with broken(Broadcast, propose=hasty):
        yield


@contextmanager
def committed_by_the_leaders_log_alone() -> Iterator[None]:
    """Injected bug: a follower commits when its leader's log is durable, without waiting for its own log."""
    with broken(CommonLog, chosen_zxid=property(lambda self: self.leaders)):
        yield


@contextmanager
def who_comes_back_ahead_is_cut_back() -> Iterator[None]:
    """Injected bug: a leader truncates a returning follower to the leader's own last commit.

    The follower may have committed more than that.
    """
    with broken(LeaderAcks, is_ahead=lambda self, peer, last_committed: False):
        yield


@contextmanager
def answers_overtake_the_commits_they_rely_on() -> Iterator[None]:
    """Injected bug: a follower with a slow log receives the reply to a sync before the commits that the sync waits
    for.
    """
    with broken(Broadcast, _answer=lambda self, origin, answer: self._core.send(origin, answer)):
        yield


@contextmanager
def servers_without_a_leader_serve_on() -> Iterator[None]:
    """Injected bug: a server that has lost its leader does not disconnect its clients, and replies to reads."""

    def stop_serving(self: Service, now: Any) -> list[Effect]:
        self._state.proposer = self._containers = None
        self._state.tree.foreseen = {}
        return []

    with broken(Service, stop_serving=stop_serving):
        yield


INJECTED: dict[str, InjectedBug] = {
    "a promise before it is durable": InjectedBug(acknowledge_before_it_is_durable, ("acceptedEpoch on disk is",)),
    "NEWLEADER acknowledged before the epoch": InjectedBug(
        newleader_acknowledged_before_the_epoch, ("NEWLEADER acknowledged in epoch",)
    ),
    "NEWLEADER acknowledged before the history": InjectedBug(
        newleader_acknowledged_before_the_history, ("committed and durable only on",)
    ),
    "snapshots of what is not committed": InjectedBug(
        snapshots_of_what_is_not_committed, ("snapshots hold committed transactions",)
    ),
    "votes with what memory knows": InjectedBug(
        votes_with_what_memory_knows, ("reports acknowledgement rules: ACKEPOCH names", "TotalOrder")
    ),
    "leader counts itself before its fsync": InjectedBug(
        leader_counts_itself_before_its_fsync, ("committed and durable only on",)
    ),
    "leader acknowledges before its fsync": InjectedBug(
        leader_acknowledges_before_its_fsync, ("acknowledged and not durable",)
    ),
    "committed by the leader's log alone": InjectedBug(
        committed_by_the_leaders_log_alone, ("committed and durable only on",)
    ),
    "who comes back ahead is cut back": InjectedBug(who_comes_back_ahead_is_cut_back, ("committedLogDurability",)),
    "answers overtake the commits they rely on": InjectedBug(
        answers_overtake_the_commits_they_rely_on, ("tree of 2 is ''",)
    ),
    "established without a quorum": InjectedBug(
        established_without_a_quorum, ("one ZAB leader per epoch", "Leadership: epoch")
    ),
    "sync answered by the leader alone": InjectedBug(sync_answered_by_the_leader_alone, ("answered of 0 is '3'",)),
    "session owner not checked": InjectedBug(session_owner_not_checked, ("get /x answered 'late'",)),
    "watches fire late": InjectedBug(watches_fire_late, ("before the watch told of it",)),
    "watches lost on reconnection": InjectedBug(watches_lost_on_reconnection, ("before the watch told of it",)),
    "applied before it is committed": InjectedBug(served_before_uptodate, ("committed and durable only on",)),
    "pending proposals not given to a newcomer": InjectedBug(
        pending_proposals_not_given_to_a_newcomer, ("messageIllegal",)
    ),
    "zxids go on across epochs": InjectedBug(
        zxids_go_on_across_epochs, ("Integrity", "commits are in zxid order, without gaps")
    ),
    "replay of what the snapshot holds": InjectedBug(replay_of_what_the_snapshot_holds, ("committed prefixes agree",)),
    "a leader never steps down": InjectedBug(a_leader_never_steps_down, ("liveness: a watch that fires",)),
    "votes are sent once": InjectedBug(votes_are_sent_once, ("liveness: a serving ensemble",)),
    "ephemerals forgotten in snapshots": InjectedBug(ephemerals_forgotten_in_snapshots, ("outlives its session",)),
    "servers without a leader serve on": InjectedBug(
        servers_without_a_leader_serve_on, ("servers answer only while they serve",)
    ),
    "epochs do not rise": InjectedBug(epochs_do_not_rise, ("gap in history",)),
}
