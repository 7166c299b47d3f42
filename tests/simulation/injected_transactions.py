"""Injected bugs of transactions: coordinator, markers, last stable offsets, group offsets, and fencing.

Each is found by one of the first seven seeds of scenario `chaos` with faults directly after decisions
(`injected_table.OF_TRANSACTIONS`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kio.schema.errors import ErrorCode

from tests.simulation.injecting import InjectedBug, broken
from zabka.broker_sim.groups.coordinator import GroupCoordinator
from zabka.broker_sim.groups.log import GroupLog
from zabka.broker_sim.groups.offsets import GroupOffsets
from zabka.broker_sim.logs.transaction_index import TransactionIndexes
from zabka.broker_sim.replication.partition import Partition
from zabka.broker_sim.transactions.coordinator import TransactionCoordinator
from zabka.broker_sim.transactions.markers import MarkerSender
from zabka.broker_sim.transactions.metadata import TransactionMetadata, TransactionState
from zabka.broker_sim.transactions.reasons import TIMED_OUT
from zabka.broker_sim.transactions.store import TransactionRefused, TransactionStore

AGREE = "all partitions of a transaction get the same marker"
FENCED = "fenced producers are not answered"
KEPT = "acknowledged commits of transactions are kept"
ON_DISKS = "acknowledged ends of transactions are in the logs of all in sync"
ONCE = "each input is counted once"
READ = "read_committed returns committed records only"
STABLE = "last stable offsets stay below open transactions"
TOGETHER = "offsets and output move together"
WHOLE = "transactions are all or nothing"


@contextmanager
def new_leader_forgets_open_transactions() -> Iterator[None]:
    """Injected bug: a broker that becomes leader treats all transactions in its log as decided."""
    make_leader = Partition.make_leader

    def forgetful(self: Partition, state: Any) -> bool:
        if not self.is_leader:
            self.log.producers._ongoing.clear()
        return make_leader(self, state)

    with broken(Partition, make_leader=forgetful):
        yield


@contextmanager
def new_coordinator_writes_one_marker() -> Iterator[None]:
    """Injected bug: a coordinator that loads a decided transaction writes the marker of the first partition only."""
    loaded = TransactionCoordinator._loaded

    def hasty(self: TransactionCoordinator, coordinated: Any) -> None:
        for partition in list(coordinated.metadata.partitions)[1:]:
            del coordinated.metadata.partitions[partition]
        loaded(self, coordinated)

    with broken(TransactionCoordinator, _loaded=hasty):
        yield


@contextmanager
def new_coordinator_decides_again() -> Iterator[None]:
    """Injected bug: a coordinator that loads a decided commit writes abort markers.

    It writes them to the partitions that have no commit marker yet.
    """
    loaded = TransactionCoordinator._loaded

    def aborting(self: TransactionCoordinator, coordinated: Any) -> None:
        if coordinated.metadata.state is TransactionState.PREPARE_COMMIT:
            coordinated.metadata.state = TransactionState.PREPARE_ABORT
        loaded(self, coordinated)

    with broken(TransactionCoordinator, _loaded=aborting):
        yield


@contextmanager
def timed_out_transaction_keeps_its_epoch() -> Iterator[None]:
    """Injected bug: a transaction that timed out is aborted without a new producer epoch.

    So its producer can continue.
    """

    def abort(self: TransactionCoordinator, coordinated: Any, fence: Any, why: Any) -> Any:
        metadata = coordinated.metadata
        metadata.fence_now(metadata.producer_epoch if why is TIMED_OUT else fence.producer_epoch)
        to = metadata.prepare_end(False, self._runtime.now().wall_ms)
        return self._decide(coordinated, to, why, fences=True)

    with broken(TransactionCoordinator, _abort_under=abort):
        yield


@contextmanager
def offsets_are_visible_before_the_marker() -> Iterator[None]:
    """Injected bug: offsets in a transaction count as committed as soon as they are stored."""
    stored = GroupOffsets.stored_in_transaction

    def visible(self: GroupOffsets, producer_id: int, topic_partition: Any, found: Any) -> None:
        stored(self, producer_id, topic_partition, found)
        self._stored[topic_partition] = found

    with broken(GroupOffsets, stored_in_transaction=visible):
        yield


@contextmanager
def offsets_of_aborted_transactions_stay() -> Iterator[None]:
    """Injected bug: an abort marker makes the offsets of its transaction visible."""
    end = GroupOffsets.end_transaction

    with broken(GroupOffsets, end_transaction=lambda self, producer_id, is_commit: end(self, producer_id, True)):
        yield


@contextmanager
def generation_of_a_commit_is_not_checked() -> Iterator[None]:
    """Injected bug: offsets in a transaction are accepted from a member with an old generation, as before KIP-447."""

    async def commit(self: GroupCoordinator, asked: Any) -> Any:
        commit = asked.commit
        refusal = self._refusal(commit.group_id)
        guard: Any = None
        if refusal is ErrorCode.none:
            refusal, guard = await self.store.verify_transaction(
                commit.group_id, asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.knows_abortable
            )
        if refusal is not ErrorCode.none or not self.store.owns(commit.group_id):
            return dict.fromkeys(commit.offsets, refusal or ErrorCode.not_coordinator)
        group = self.store.get_or_create(commit.group_id)
        return await self.store.store_transactional_offsets(
            group, asked.producer_id, asked.producer_epoch, commit.offsets, guard
        )

    with broken(GroupCoordinator, commit_in_transaction=commit):
        yield


@contextmanager
def new_group_coordinator_drops_pending_offsets() -> Iterator[None]:
    """Injected bug: a group coordinator that loads its log drops the offsets of open transactions."""
    groups = GroupLog.groups

    def forgetful(self: GroupLog, now_ms: int) -> Any:
        self._pending.clear()
        return groups(self, now_ms)

    with broken(GroupLog, groups=forgetful):
        yield


@contextmanager
def aborted_index_is_lost_on_restart() -> Iterator[None]:
    """Injected bug: a log that is opened again has no aborted transactions."""
    with broken(TransactionIndexes, restore=lambda self, files, entries: None):
        yield


@contextmanager
def end_is_not_fenced() -> Iterator[None]:
    """Injected bug: EndTxn is accepted from any producer with the transactional id, whatever its epoch."""
    end = TransactionCoordinator.end

    async def lenient(self: TransactionCoordinator, transactional_id: str, producer: Any, commits: bool) -> Any:
        with suppress(TransactionRefused):
            coordinated = self.store.find(transactional_id)
            if coordinated is not None:
                producer = producer._replace(producer_epoch=coordinated.metadata.producer_epoch)
        return await end(self, transactional_id, producer, commits)

    with broken(TransactionCoordinator, end=lenient):
        yield


@contextmanager
def end_is_answered_before_the_decision_is_stored() -> Iterator[None]:
    """Injected bug: EndTxn gets its response when the decision is appended, before it is replicated to the ISR."""
    decide = TransactionCoordinator._decide

    def hasty(self: TransactionCoordinator, coordinated: Any, to: Any, why: Any, *, fences: bool = False) -> Any:
        decide(self, coordinated, to, why, fences=fences)
        answer: Any = self._runtime.future()
        answer.set_result(ErrorCode.none)
        return answer

    with broken(TransactionCoordinator, _decide=hasty):
        yield


@contextmanager
def started_producer_keeps_the_open_transaction() -> Iterator[None]:
    """Injected bug: InitProducerId during a transaction increases the epoch without aborting the transaction."""
    prepare = TransactionCoordinator._prepare_init

    def lenient(self: TransactionCoordinator, metadata: TransactionMetadata, *given: Any) -> Any:
        if metadata.state is TransactionState.ONGOING and metadata.pending_state is None:
            metadata.state = TransactionState.COMPLETE_ABORT
            metadata.partitions.clear()
        return prepare(self, metadata, *given)

    with broken(TransactionCoordinator, _prepare_init=lenient):
        yield


@contextmanager
def transaction_completes_before_its_markers() -> Iterator[None]:
    """Injected bug: a coordinator completes a transaction when it has sent the markers, not when they are written."""
    send = MarkerSender.send

    def hasty(self: MarkerSender, pending: Any) -> None:
        send(self, pending)
        pending.coordinated.metadata.partitions.clear()
        self._complete_if_written(pending)

    with broken(MarkerSender, send=hasty):
        yield


@contextmanager
def failed_append_is_taken_for_stored() -> Iterator[None]:
    """Injected bug: a coordinator changes a transaction's state even if the new state could not be appended to its
    log.
    """
    appended = TransactionStore._appended

    async def hopeful(self: TransactionStore, coordinated: Any, to: Any, why: Any, rows: Any, *given: Any) -> None:
        async def ignoring() -> Any:
            return [row._replace(error=0) for row in await rows]

        await appended(self, coordinated, to, why, ignoring(), *given)

    with broken(TransactionStore, _appended=hopeful):
        yield


INJECTED: dict[str, InjectedBug] = {
    "new leader forgets open transactions": InjectedBug(new_leader_forgets_open_transactions, (STABLE,)),
    "new coordinator writes one marker": InjectedBug(
        new_coordinator_writes_one_marker, (AGREE, WHOLE, "markers for all")
    ),
    "new coordinator decides again": InjectedBug(new_coordinator_decides_again, (AGREE, WHOLE, KEPT)),
    "timed out transaction keeps its epoch": InjectedBug(
        timed_out_transaction_keeps_its_epoch, (AGREE, WHOLE, KEPT, FENCED)
    ),
    "offsets are visible before the marker": InjectedBug(offsets_are_visible_before_the_marker, (TOGETHER,)),
    "offsets of aborted transactions stay": InjectedBug(offsets_of_aborted_transactions_stay, (TOGETHER,)),
    "generation of a commit is not checked": InjectedBug(generation_of_a_commit_is_not_checked, (ONCE, TOGETHER)),
    "new group coordinator drops pending offsets": InjectedBug(
        new_group_coordinator_drops_pending_offsets, (ONCE, TOGETHER)
    ),
    "aborted index is lost on restart": InjectedBug(aborted_index_is_lost_on_restart, (READ,)),
    "end is not fenced": InjectedBug(end_is_not_fenced, (FENCED,)),
    "end is answered before the decision is stored": InjectedBug(
        end_is_answered_before_the_decision_is_stored, (ON_DISKS, KEPT, READ)
    ),
    "started producer keeps the open transaction": InjectedBug(
        started_producer_keeps_the_open_transaction, ("markers for all", READ, WHOLE)
    ),
    "transaction completes before its markers": InjectedBug(
        transaction_completes_before_its_markers, (FENCED, "markers for all", AGREE, WHOLE, KEPT)
    ),
    "failed append is taken for stored": InjectedBug(failed_append_is_taken_for_stored, (ON_DISKS, KEPT, AGREE, WHOLE)),
}
