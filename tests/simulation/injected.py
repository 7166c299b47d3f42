"""Injected bugs. Each context manager breaks one rule of the protocol, to prove that the checkers detect it.

While the context is open, the rule is broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tests.simulation.injecting import InjectedBug, broken
from zabka.broker_sim.groups import store
from zabka.broker_sim.groups.log import GroupLog
from zabka.broker_sim.logs.log_manager import LogManager
from zabka.broker_sim.logs.producer_state import ProducerStates
from zabka.broker_sim.replication import fetch_answers
from zabka.broker_sim.replication.partition import Partition
from zabka.controller import alter_partition, election, failover, partition_state_machine, partition_store
from zabka.controller.context import ControllerContext
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import Zxid
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.outcomes import Applied
from zabka.ensemble.zab import learner_sync, sync
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.quorum import Quorum
from zabka.kafka.zk import coordination


@contextmanager
def commit_on_a_minority() -> Iterator[None]:
    """Injected bug: the leader commits transactions that only one voter has logged."""

    def reached(self: Quorum, marks: dict[Any, int]) -> int:
        return max(marks.get(voter, -1) for voter in self.voters)

    with broken(Quorum, reached=reached):
        yield


@contextmanager
def ack_before_fsync() -> Iterator[None]:
    """Injected bug: a peer treats its log as durable as soon as it has started to write to disk."""
    close_batches = Core._close_batches

    def hasty(self: Core) -> None:
        if self._barrier_due:
            self._note_logged(self.last_logged)
        close_batches(self)

    with broken(Core, _close_batches=hasty):
        yield


@contextmanager
def no_truncation_on_sync() -> Iterator[None]:
    """Injected bug: a learner with a longer log is not truncated, so it keeps transactions that its leader does not
    have.
    """
    plan = sync.plan_sync

    def lenient(learner_zxid: Zxid, last_processed: Zxid, committed_log: Any) -> Any:
        planned = plan(learner_zxid, last_processed, committed_log)
        if planned.mode is sync.SyncMode.TRUNC:
            return sync.SyncPlan(sync.SyncMode.DIFF, planned.zxid, planned.txns)
        return planned

    with broken(learner_sync, plan_sync=lenient):
        yield


@contextmanager
def unfenced_controller_writes() -> Iterator[None]:
    """Injected bug: the controller writes without checking /controller_epoch."""

    def request(self: coordination.FencedWriter, group: Any) -> Any:
        async def unchecked() -> Any:
            results = await self.zk.service.multi(list(group))
            return [coordination.OpResult(coordination.ErrorCode.OK), *results]

        return unchecked

    with broken(coordination.FencedWriter, _request=request):
        yield


@contextmanager
def isr_change_without_version_check() -> Iterator[None]:
    """Injected bug: AlterPartition is accepted with any partition epoch, and any version of the state znode is
    overwritten.
    """
    check = alter_partition._check

    def trusting(term: Any, sender: int, partition: Any, requested: Any, version: int) -> Any:
        current = term.context.leadership.get(partition)
        if current is not None and requested.partition_epoch < current.partition_epoch:
            requested = _With(requested, partition_epoch=current.partition_epoch)
        return check(term, sender, partition, requested, version)

    set_data = partition_store.SetData

    def any_version(path: str, data: bytes, version: int) -> Any:
        return set_data(path, data, -1)

    with broken(alter_partition, _check=trusting), broken(partition_store, SetData=any_version):
        yield


class _With:
    """Wrapper of an object, with some attributes replaced."""

    def __init__(self, original: Any, **replaced: Any) -> None:
        self._original = original
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


@contextmanager
def high_watermark_is_the_leaders_log_end() -> Iterator[None]:
    """Injected bug: a leader treats records that no other replica has as committed."""

    def advance(self: Partition) -> bool:
        if not self.is_leader or self.log.end_offset <= self.log.high_watermark:
            return False
        self.set_high_watermark(self.log.end_offset)
        self.host.wake(self.topic_partition)
        return True

    with broken(Partition, maybe_advance_high_watermark=advance):
        yield


@contextmanager
def no_truncation_on_fetch() -> Iterator[None]:
    """Injected bug: a leader never reports to a follower that the logs of the two diverge."""
    with broken(fetch_answers, _diverging=lambda partition, wanted: (0, None)):
        yield


@contextmanager
def unclean_elections_called_clean() -> Iterator[None]:
    """Injected bug: any live replica is elected leader, and the election is not reported as unclean."""

    def any_live(state: Any, assignment: Any, live: Any, *, unclean: bool) -> Any:
        for broker_id in assignment:
            if broker_id in live:
                return election._lead(state, broker_id, [broker_id])
        return None

    announce = partition_store.PartitionStore.announce_leader

    def called_clean(*told: Any, unclean: bool = False) -> None:
        announce(*told, unclean=False)

    with (
        broken(partition_state_machine, leader_for_offline=any_live),
        broken(partition_store.PartitionStore, announce_leader=called_clean),
    ):
        yield


@contextmanager
def closed_sessions_keep_their_ephemerals() -> Iterator[None]:
    """Injected bug: when a session ends, its ephemeral znodes are not deleted."""

    def close(self: DataTree, txn: Any, kind: int, body: Any, with_stats: bool) -> Any:
        self.sessions.pop(txn.session_id, None)
        return Applied(kind, ErrorCode.OK, "")

    with broken(DataTree, _close_session=close):
        yield


@contextmanager
def session_ends_fire_no_child_watches() -> Iterator[None]:
    """Injected bug: when a session ends, the watches for children of its ephemerals' parents do not fire."""
    close_session = DataTree._close_session

    def close(self: DataTree, txn: Any, kind: int, body: Any, with_stats: bool) -> Any:
        applied = close_session(self, txn, kind, body, with_stats)
        self.changes = [msgspec.structs.replace(change, parent=None) for change in self.changes]
        return applied

    with broken(DataTree, _close_session=close):
        yield


@contextmanager
def unseen_bounces_are_not_fenced() -> Iterator[None]:
    """Injected bug: a new controller does not increase the leader epoch of a leader that restarted unnoticed.

    The leader therefore continues, as with Kafka's controller.
    """

    async def nothing(term: Any, states: Any) -> Any:
        return None

    with broken(failover, fence_bounced=nothing):
        yield


@contextmanager
def controllers_do_not_note_shutdowns() -> Iterator[None]:
    """Injected bug: a controller does not remember that a broker is shutting down.

    The controller moves the broker's leaderships, but otherwise treats the broker as if it were not shutting down.
    """
    begin = ControllerContext.__init__

    class Forgetful(set[int]):
        def add(self, _: int) -> None:
            return

    def forgetful(self: ControllerContext, epoch: int, epoch_zk_version: int) -> None:
        begin(self, epoch, epoch_zk_version)
        self.shutting_down = Forgetful()

    with broken(ControllerContext, __init__=forgetful):
        yield


@contextmanager
def producers_survive_a_truncation() -> Iterator[None]:
    """Injected bug: a truncated log keeps the producer state from before the truncation."""
    with broken(ProducerStates, truncate=lambda self, offset: True):
        yield


@contextmanager
def coordinators_do_not_read_their_log() -> Iterator[None]:
    """Injected bug: a coordinator does not load its groups.

    The new leader of a __consumer_offsets partition handles requests for these groups immediately.
    """

    async def nothing(*_: Any) -> GroupLog:
        return GroupLog()

    with broken(store, read_group_log=nothing):
        yield


@contextmanager
def replicas_of_deleted_topics_stay() -> Iterator[None]:
    """Injected bug: a broker replies to StopReplica that it has deleted the replica, but keeps the files."""
    with broken(LogManager, delete=lambda self, name: None):
        yield


INJECTED: dict[str, InjectedBug] = {
    "producers survive a truncation": InjectedBug(producers_survive_a_truncation, ("producer states equal the log",)),
    "replicas of deleted topics stay": InjectedBug(replicas_of_deleted_topics_stay, ("still has",)),
    "coordinators do not read their log": InjectedBug(
        coordinators_do_not_read_their_log, ("coordinators answer after they have read their log",)
    ),
    "controllers do not note shutdowns": InjectedBug(controllers_do_not_note_shutdowns, ("LeavingBrokersStayOut",)),
    "no epoch check on controller writes": InjectedBug(
        unfenced_controller_writes, ("controller epochs rise and fence",)
    ),
    "commit on a minority": InjectedBug(commit_on_a_minority, ("committed and durable only on",)),
    "ack before fsync": InjectedBug(ack_before_fsync, ("acknowledged and not durable",)),
    "no truncation on sync": InjectedBug(no_truncation_on_sync, ("processConsistency",)),
    "ISR change without the version check": InjectedBug(isr_change_without_version_check, ("StrongIsr",)),
    "high watermark is the leader's log end": InjectedBug(
        high_watermark_is_the_leaders_log_end, ("ValidHighWatermark",)
    ),
    "no truncation on fetch": InjectedBug(no_truncation_on_fetch, ("StrongIsr",)),
    "unclean elections called clean": InjectedBug(
        unclean_elections_called_clean, ("only unclean elections leave the ISR",)
    ),
    "unseen bounces are not fenced": InjectedBug(
        unseen_bounces_are_not_fenced, ("one leader per partition and leader epoch",)
    ),
    "session ends fire no child watches": InjectedBug(
        session_ends_fire_no_child_watches, ("did not send CHILDREN_CHANGED",)
    ),
    "closed sessions keep their ephemerals": InjectedBug(
        closed_sessions_keep_their_ephemerals, ("tree digest agrees with the leader's",)
    ),
}
