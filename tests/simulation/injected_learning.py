"""Injected bugs of elections, acknowledgements and synchronization. Each has a script of the outage library.

An ordinary start and an ordinary write cause no violation with any of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tests.simulation.injecting import broken
from zabka.ensemble.ids import Epoch, PeerId, Zxid, counter_of, epoch_of
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab import broadcast, learner_sync, peer, sync
from zabka.ensemble.zab.broadcast import Broadcast
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.effects import Recovered, SaveCurrentEpoch
from zabka.ensemble.zab.election import Election, Settled
from zabka.ensemble.zab.leader import Leader
from zabka.ensemble.zab.learner import Learner, LearnerStep
from zabka.ensemble.zab.learner_link import Step
from zabka.ensemble.zab.messages import Ack, AckEpoch, LeaderInfo, NewLeader, Snap
from zabka.ensemble.zab.sync import SyncMode, SyncPlan

# -- when epochs are acknowledged


@contextmanager
def current_epoch_with_the_accepted() -> Iterator[None]:
    """Injected bug: currentEpoch is written together with acceptedEpoch, before the epoch's history
    (ZOOKEEPER-4643).
    """
    save = Core.save_accepted_epoch

    def both(self: Core, epoch: Epoch, then: Callable[[], None]) -> None:
        self.to_disk(SaveCurrentEpoch(epoch))
        save(self, epoch, then)

    with broken(Core, save_accepted_epoch=both):
        yield


@contextmanager
def a_start_refuses_a_history_beyond_its_epoch() -> Iterator[None]:
    """Injected bug: a peer does not start if its history has a later epoch than currentEpoch (ZOOKEEPER-1653)."""
    unusable = peer.why_unusable

    def strict(recovered: Recovered) -> str | None:
        last = recovered.txns[-1].zxid if recovered.txns else recovered.snapshot.zxid if recovered.snapshot else 0
        if epoch_of(Zxid(last)) > recovered.current_epoch:
            return "the history is of a later epoch than currentEpoch"
        return unusable(recovered)

    with broken(peer, why_unusable=strict):
        yield


@contextmanager
def promised_on_its_way_to_the_disk() -> Iterator[None]:
    """Injected bug: a peer that has accepted the epoch acknowledges transactions before they are on disk
    (ZOOKEEPER-4882).
    """
    on_leader_info = Learner._on_leader_info

    def hasty(self: Learner, info: LeaderInfo) -> None:
        core = self._core
        if info.epoch != core.accepted_epoch:
            on_leader_info(self, info)
            return
        self._epoch, self._cumulative = info.epoch, info.cumulative and core.cumulative
        self._acknowledge_epoch(core.last_logged, -1)

    with broken(Learner, _on_leader_info=hasty):
        yield


@contextmanager
def the_disks_queue_is_forgotten_with_the_role() -> Iterator[None]:
    """Injected bug: a follower that leaves its leader ignores writes to disk that are in progress (ZOOKEEPER-4712).

    It treats only the part of its log that is on disk as its history.
    """
    stop = Learner.stop

    def forgetful(self: Learner, reason: str) -> None:
        stop(self, reason)
        core = self._core
        if core._unlogged:
            first = core._unlogged[0][0].zxid
            core.last_logged = Zxid(first - 1) if counter_of(Zxid(first)) > 1 else core.base

    with broken(Learner, stop=forgetful):
        yield


# -- elections


@contextmanager
def leaders_of_other_rounds_are_not_joined() -> Iterator[None]:
    """Injected bug: a LOOKING peer ignores peers whose election ended in another round (ZOOKEEPER-1732)."""
    on_settled = Election._on_settled

    def deaf(self: Election, src: PeerId, settled: Settled) -> None:
        if settled.round == self.round:
            on_settled(self, src, settled)

    with broken(Election, _on_settled=deaf):
        yield


@contextmanager
def the_counter_runs_on() -> Iterator[None]:
    """Injected bug: a leader does not check whether the counter in its zxids overflows (ZOOKEEPER-1277)."""

    def endless(self: Broadcast, requests: Sequence[Any], origin: Any) -> None:
        if self.open and self._core.leaving is None:
            self.acks.asked_by = origin
            self._propose_stretch(requests, origin)

    with broken(Broadcast, propose=endless):
        yield


@contextmanager
def a_leader_waits_for_whoever_looks_elsewhere() -> Iterator[None]:
    """Injected bug: a new leader waits until initLimit for voters that have voted for another leader
    (ZOOKEEPER-3109).
    """
    with broken(Leader, on_looking=lambda self, src, round, outvoted: None):
        yield


# -- what the leader sends


@contextmanager
def a_diff_over_what_the_leader_lacks() -> Iterator[None]:
    """Injected bug: a learner gets a DIFF although its leader does not have the learner's last transaction.

    This is ZOOKEEPER-1154. The DIFF contains the later transactions.
    """
    walk = sync._walk

    def over_it(learner_zxid: Zxid, last_processed: Zxid, committed_log: Sequence[Txn], new_epoch_zxid: bool) -> Any:
        planned = walk(learner_zxid, last_processed, committed_log, new_epoch_zxid)
        if planned.mode is SyncMode.SNAP:
            rest = [txn for txn in committed_log if txn.zxid > learner_zxid]
            return SyncPlan(SyncMode.DIFF, committed_log[-1].zxid, rest)
        return planned

    with broken(sync, _walk=over_it):
        yield


@contextmanager
def a_diff_across_the_gap() -> Iterator[None]:
    """Injected bug: a leader sends only the log in memory to a learner that lacks earlier transactions too.

    The learner then has a gap in its history (ZOOKEEPER-2418).
    """
    plan = sync.plan_sync

    def across(learner_zxid: Zxid, last_processed: Zxid, committed_log: Sequence[Txn]) -> SyncPlan:
        if committed_log and learner_zxid < committed_log[0].zxid:
            return SyncPlan(SyncMode.DIFF, committed_log[-1].zxid, list(committed_log))
        return plan(learner_zxid, last_processed, committed_log)

    with broken(learner_sync, plan_sync=across):
        yield


@contextmanager
def a_tree_alone_is_an_empty_diff() -> Iterator[None]:
    """Injected bug: a leader without transactions in memory sends an empty DIFF (ZOOKEEPER-4352)."""
    plan = sync.plan_sync

    def nothing(learner_zxid: Zxid, last_processed: Zxid, committed_log: Sequence[Txn]) -> SyncPlan:
        if not committed_log and learner_zxid < last_processed:
            return SyncPlan(SyncMode.DIFF, last_processed, [])
        return plan(learner_zxid, last_processed, committed_log)

    with broken(learner_sync, plan_sync=nothing):
        yield


@contextmanager
def proposals_pass_those_who_synchronise() -> Iterator[None]:
    """Injected bug: a learner does not get the proposals that are made during its synchronization (ZOOKEEPER-3104)."""
    with broken(broadcast, _SYNCING=Step.SYNCED):
        yield


@contextmanager
def who_comes_back_is_taken_for_up_to_date() -> Iterator[None]:
    """Injected bug: a leader assumes that a returning learner has all transactions sent to it in this epoch.

    It does not use the last transaction in the learner's log.
    """
    on_ack_epoch = Leader._on_ack_epoch

    def trusting(self: Leader, peer: Any, ack: AckEpoch) -> None:
        if self.established:
            ack = AckEpoch(self._core.last_committed, ack.current_epoch)
        on_ack_epoch(self, peer, ack)

    with broken(Leader, _on_ack_epoch=trusting):
        yield


# -- a peer's history in memory


@contextmanager
def what_a_synchronisation_brings_is_not_in_memory() -> Iterator[None]:
    """Injected bug: transactions committed during a synchronization are not in memory (ZOOKEEPER-4925).

    They are only in the log and the tree.
    """
    on_up_to_date, apply = Learner._on_up_to_date, Core._apply
    brought: dict[tuple[PeerId, Zxid], None] = {}

    def noted(self: Learner) -> None:
        brought.update(dict.fromkeys((self._core.my_id, txn.zxid) for txn in self._queued))
        on_up_to_date(self)

    def unremembered(self: Core, txns: Sequence[Txn]) -> Any:
        effects = apply(self, txns)
        kept = [txn for txn in self.committed_log if (self.my_id, txn.zxid) not in brought]
        self.committed_log = deque(kept, self.committed_log.maxlen)
        return effects

    with broken(Learner, _on_up_to_date=noted), broken(Core, _apply=unremembered):
        yield


@contextmanager
def what_a_role_leaves_pending_is_not_in_memory() -> Iterator[None]:
    """Injected bug: a peer that leaves its role does not add pending transactions to its memory (ZOOKEEPER-3526).

    It applies its whole log to the tree, but the history in memory is shorter.
    """
    apply_pending = Core.apply_pending

    def unremembered(self: Core) -> None:
        kept = self.committed_log.copy()
        apply_pending(self)
        if self.role is None:
            self.committed_log = kept

    with broken(Core, apply_pending=unremembered):
        yield


@contextmanager
def memory_survives_what_replaces_the_history() -> Iterator[None]:
    """Injected bug: a snapshot replaces log and tree, but not the transactions in memory (ZOOKEEPER-2846)."""
    replace = Core.replace

    def unforgetting(self: Core, snapshot: Any) -> None:
        kept = self.committed_log.copy()
        replace(self, snapshot)
        self.committed_log = kept

    with broken(Core, replace=unforgetting):
        yield


# -- how a learner handles these packets


@contextmanager
def the_history_is_logged_at_uptodate() -> Iterator[None]:
    """Injected bug: NEWLEADER is acknowledged before its transactions are logged (ZOOKEEPER-3911, 4646).

    They are only in memory, and are logged at UPTODATE.
    """
    on_newleader = Learner._on_newleader

    def later(self: Learner, packet: NewLeader) -> None:
        committed, self._committed = self._committed, 0
        on_newleader(self, packet)
        self._committed = committed

    with broken(Learner, _on_newleader=later):
        yield


@contextmanager
def a_snapshot_is_taken_over_at_once() -> Iterator[None]:
    """Injected bug: a leader's snapshot replaces log and tree when it arrives (ZOOKEEPER-3642).

    This happens even if the leader fails before it is established.
    """
    begin_sync = Learner._begin_sync

    def at_once(self: Learner, first: Any) -> None:
        begin_sync(self, first)
        if isinstance(first, Snap):
            self._core.replace(first.snapshot)
            self._snapshot = None

    with broken(Learner, _begin_sync=at_once):
        yield


@contextmanager
def what_follows_a_truncation_is_logged_at_once() -> Iterator[None]:
    """Injected bug: after a TRUNC, a learner logs transactions before NEWLEADER (ZOOKEEPER-5094).

    Only NEWLEADER completes the history.
    """
    queue = Learner._queue

    def at_once(self: Learner, txns: Sequence[Txn]) -> None:
        if self._mode is SyncMode.TRUNC and self._step is LearnerStep.RECEIVING:
            self._core.append(txns)
            self._last_queued = txns[-1].zxid
        else:
            queue(self, txns)

    with broken(Learner, _queue=at_once):
        yield


@contextmanager
def a_truncation_is_taken_for_done() -> Iterator[None]:
    """Injected bug: after a TRUNC, a learner continues before its disk has completed the truncation
    (ZOOKEEPER-3701).
    """

    def pretend(self: Learner, zxid: Zxid) -> None:
        self._mode = SyncMode.TRUNC
        self._last_queued = zxid
        self._go(LearnerStep.RECEIVING)

    with broken(Learner, _begin_truncation=pretend):
        yield


@contextmanager
def proposals_are_acknowledged_before_newleader() -> Iterator[None]:
    """Injected bug: at NEWLEADER, a learner also acknowledges uncommitted proposals (ZOOKEEPER-4685).

    It logs them as well.
    """
    on_newleader = Learner._on_newleader

    def eager(self: Learner, packet: NewLeader) -> None:
        on_newleader(self, packet)
        core, link = self._core, self._link
        queued, self._queued = list(self._queued), deque()
        if queued and link is not None:
            core.append(queued)
            core.apply_pending()
            core.barrier(lambda: core.send(link, Ack(queued[-1].zxid, cumulative=True)))

    with broken(Learner, _on_newleader=eager):
        yield


@contextmanager
def proposals_before_newleader_are_forgotten() -> Iterator[None]:
    """Injected bug: transactions proposed before NEWLEADER and committed after it are lost (ZOOKEEPER-4394)."""
    on_newleader = Learner._on_newleader

    def forgetful(self: Learner, packet: NewLeader) -> None:
        on_newleader(self, packet)
        self._queued.clear()

    with broken(Learner, _on_newleader=forgetful):
        yield


INJECTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "currentEpoch with the promise": current_epoch_with_the_accepted,
    "a start refuses a history beyond its epoch": a_start_refuses_a_history_beyond_its_epoch,
    "promised on its way to the disk": promised_on_its_way_to_the_disk,
    "the disk's queue is forgotten with the role": the_disks_queue_is_forgotten_with_the_role,
    "leaders of other rounds are not joined": leaders_of_other_rounds_are_not_joined,
    "the counter runs on": the_counter_runs_on,
    "a leader waits for whoever looks elsewhere": a_leader_waits_for_whoever_looks_elsewhere,
    "a DIFF over what the leader lacks": a_diff_over_what_the_leader_lacks,
    "a DIFF across the gap": a_diff_across_the_gap,
    "a tree alone is an empty DIFF": a_tree_alone_is_an_empty_diff,
    "proposals pass those who synchronise": proposals_pass_those_who_synchronise,
    "who comes back is taken for up to date": who_comes_back_is_taken_for_up_to_date,
    "what a synchronisation brings is not in memory": what_a_synchronisation_brings_is_not_in_memory,
    "what a role leaves pending is not in memory": what_a_role_leaves_pending_is_not_in_memory,
    "memory survives what replaces the history": memory_survives_what_replaces_the_history,
    "the history is logged at UPTODATE": the_history_is_logged_at_uptodate,
    "a snapshot is taken over at once": a_snapshot_is_taken_over_at_once,
    "what follows a truncation is logged at once": what_follows_a_truncation_is_logged_at_once,
    "a truncation is taken for done": a_truncation_is_taken_for_done,
    "proposals are acknowledged before NEWLEADER": proposals_are_acknowledged_before_newleader,
    "proposals before NEWLEADER are forgotten": proposals_before_newleader_are_forgotten,
}
"""Injected bugs, keyed by name. For each bug, `tests.simulation.scenarios.pairs` has a script that shows it."""
