"""Processes requests to the group coordinator for groups of the classic protocol.

Source: kafka.coordinator.group.GroupCoordinator. Every request first checks that this broker coordinates the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.config import GroupConfig
from zabka.broker_sim.groups.membership import GroupMembership, current_member_error
from zabka.broker_sim.groups.metadata import Group, GroupState, JoinResult, Member, SyncResult
from zabka.broker_sim.groups.reasons import DELETED, OFFSETS_DELETED, Reason
from zabka.broker_sim.groups.records import NO_LEADER_EPOCH, OffsetAndMetadata
from zabka.broker_sim.groups.requests import Joining, Leaving, Syncing
from zabka.broker_sim.groups.store import GroupStore
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.ensemble.ports import Future, Runtime, Timer
from zabka.journal.events import GroupChanged, TopicPartition
from zabka.kafka.client.consumer_protocol import NO_MEMBER
from zabka.kafka.ports import Emit

T = TypeVar("T")

NO_OFFSET = -1


class Committing(NamedTuple):
    """An OffsetCommit request. The generation is -1 if the consumer is not a member of a group."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


class CommittingInTransaction(NamedTuple):
    """A TxnOffsetCommit request: the offsets to commit, and the transaction's producer."""

    commit: Committing
    transactional_id: str
    producer_id: int
    producer_epoch: int
    knows_abortable: bool
    """Whether the client supports the error TRANSACTION_ABORTABLE."""


class CommittedOffset(NamedTuple):
    """Response of OffsetFetch for one partition. The offset is -1 if none was committed."""

    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.none


class GroupSummary(NamedTuple):
    """A group in the response of DescribeGroups."""

    error: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[Member, ...] = ()


class GroupCoordinator:
    """Coordinates the groups whose partition of `__consumer_offsets` this broker leads.

    Call `start()` before the broker registers, `roles_changed()` after every change of its leaderships, and `close()`
    at the end.
    """

    def __init__(self, config: GroupConfig, replicas: ReplicaManager, runtime: Runtime, emit: Emit) -> None:
        self.config = config
        self._runtime = runtime
        self._broker_id = replicas.broker_id
        self._emit = emit
        self._membership = GroupMembership(config, lambda: self.store, runtime, self._journal_group)
        self.store = GroupStore(
            config,
            replicas,
            runtime,
            emit,
            changed=self._journal_group,
            loaded=self._membership.loaded,
            unloaded=self._membership.unloaded,
        )
        self._is_active = False
        self._expiry: Timer | None = None

    # ---- lifecycle ---------------------------------------------------------------------------------------------

    def start(self, partition_count: int | None) -> None:
        """Start the coordinator.

        `partition_count` is the partition count of `__consumer_offsets`, or None if that topic does not exist yet.
        """
        if partition_count is not None:
            self.store.partition_count = partition_count
        if not self._is_active:
            self._is_active = True
            self._expire()

    def close(self) -> None:
        """Stop coordinating groups, and respond to the waiting requests."""
        self._is_active = False
        if self._expiry is not None:
            self._expiry.cancel()
        self.store.close()
        for group in list(self.store.groups.values()):
            self._membership.stop(group, ErrorCode.not_coordinator)

    def _expire(self) -> None:
        self._expiry = self._runtime.call_later(self.config.offsets_retention_check_interval_ms, self._expire)
        self.store.expire()

    def _journal_group(self, group: Group, why: Reason) -> None:
        group.journalled = self._emit(
            GroupChanged(
                broker_id=self._broker_id,
                group_id=group.group_id,
                state=str(group.state),
                generation_id=group.generation_id,
                leader_id=group.leader_id or "",
                members=list(group.members),
                after=why.after,
                member_id=why.member_id,
                client_id=why.client_id,
                timeout_ms=why.timeout_ms,
                caused_by=why.caused_by,
            )
        )

    def roles_changed(self) -> None:
        """Update which partitions of `__consumer_offsets` this broker leads."""
        if self._is_active:
            self.store.roles_changed()

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the offsets committed for deleted topics."""
        if partitions:
            self.store.forget(partitions)

    def _refusal(self, group_id: str | None, may_be_empty: bool = False) -> ErrorCode:
        """Return the error if this broker cannot process requests about the group now.

        Reasons are that another broker is the coordinator, or that the group is still being loaded.
        """
        if group_id is None or not (group_id or may_be_empty):
            return ErrorCode.invalid_group_id
        if not self._is_active:
            return ErrorCode.coordinator_not_available
        if self.store.is_loading(group_id):
            return ErrorCode.coordinator_load_in_progress
        return ErrorCode.none if self.store.owns(group_id) else ErrorCode.not_coordinator

    # ---- membership --------------------------------------------------------------------------------------------

    async def join(self, joining: Joining) -> JoinResult:
        """Process JoinGroup. Return once the rebalance is complete."""
        refusal = self._refusal(joining.group_id)
        if refusal is not ErrorCode.none:
            return JoinResult(refusal, joining.member_id)
        config = self.config
        if not config.group_min_session_timeout_ms <= joining.session_timeout_ms <= config.group_max_session_timeout_ms:
            return JoinResult(ErrorCode.invalid_session_timeout, joining.member_id)
        if joining.member_id == NO_MEMBER:
            group = self.store.get_or_create(joining.group_id)
        elif (known := self.store.groups.get(joining.group_id)) is not None:
            group = known
        else:
            return JoinResult(ErrorCode.unknown_member_id, joining.member_id)
        answer: Future[JoinResult] = self._runtime.future()
        self._membership.join(group, joining, _once(answer))
        result: JoinResult = await answer
        return result

    async def sync(self, syncing: Syncing) -> SyncResult:
        """Process SyncGroup. Return once the leader's assignment is stored."""
        refusal = self._refusal(syncing.group_id)
        if refusal is ErrorCode.coordinator_load_in_progress:
            # The client must rejoin. Older clients do not know COORDINATOR_LOAD_IN_PROGRESS in a SyncGroup response.
            refusal = ErrorCode.rebalance_in_progress
        if refusal is not ErrorCode.none:
            return SyncResult(refusal)
        group = self.store.groups.get(syncing.group_id)
        if group is None:
            return SyncResult(ErrorCode.unknown_member_id)
        answer: Future[SyncResult] = self._runtime.future()
        self._membership.sync(group, syncing, _once(answer))
        result: SyncResult = await answer
        return result

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """Process Heartbeat. Return no error while the group is being loaded."""
        refusal = self._refusal(group_id)
        if refusal is ErrorCode.coordinator_load_in_progress:
            return ErrorCode.none
        if refusal is not ErrorCode.none:
            return refusal
        group = self.store.groups.get(group_id)
        if group is None:
            return ErrorCode.unknown_member_id
        return self._membership.heartbeat(group, member_id, group_instance_id, generation_id)

    def leave(self, group_id: str, members: Sequence[Leaving]) -> tuple[ErrorCode, list[ErrorCode]]:
        """Process LeaveGroup. Return an error for the whole request or, if there is none, one error code per member."""
        refusal = self._refusal(group_id)
        if refusal is not ErrorCode.none:
            return refusal, []
        group = self.store.groups.get(group_id)
        if group is None:
            return ErrorCode.none, [ErrorCode.unknown_member_id for _ in members]
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available, []
        return ErrorCode.none, [self._membership.leave(group, member) for member in members]

    # ---- offsets -----------------------------------------------------------------------------------------------

    async def commit(self, committing: Committing) -> Mapping[TopicPartition, ErrorCode]:
        """Process OffsetCommit. Return once the ISR has replicated the offsets."""
        refusal = self._refusal(committing.group_id, may_be_empty=True)
        group = self.store.groups.get(committing.group_id)
        if refusal is ErrorCode.none and group is None:
            if committing.generation_id >= 0:
                refusal = ErrorCode.illegal_generation
            else:
                group = self.store.get_or_create(committing.group_id)
        if refusal is ErrorCode.none and group is not None:
            refusal = self._commit_refusal(group, committing)
        if refusal is not ErrorCode.none or group is None:
            return dict.fromkeys(committing.offsets, refusal)
        member = group.members.get(committing.member_id)
        if group.state is not GroupState.EMPTY and member is not None:
            self._membership.sessions.renew(group, member)
        return await self.store.store_offsets(group, committing.offsets)

    async def commit_in_transaction(self, asked: CommittingInTransaction) -> Mapping[TopicPartition, ErrorCode]:
        """Process TxnOffsetCommit. Return once the ISR has replicated the offsets.

        The offsets are pending until the transaction ends. Since version 3, the generation, member and instance of the
        consumer are checked (KIP-447).
        """
        commit = asked.commit
        refusal = self._refusal(commit.group_id)
        if refusal is ErrorCode.none:
            refusal, guard = await self.store.verify_transaction(
                commit.group_id, asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.knows_abortable
            )
            # During the verification, another broker may have become the group's coordinator.
            refusal = self._refusal(commit.group_id) if refusal is ErrorCode.none else refusal
            if refusal is ErrorCode.none:
                group = self.store.get_or_create(commit.group_id)
                refusal = self._commit_refusal(group, commit, in_transaction=True)
            if refusal is ErrorCode.none:
                return await self.store.store_transactional_offsets(
                    group, asked.producer_id, asked.producer_epoch, commit.offsets, guard
                )
        return dict.fromkeys(commit.offsets, refusal)

    def transaction_completed(self, producer_id: int, numbers: Iterable[int], is_commit: bool) -> None:
        """Complete the pending offset commits of a transaction whose markers have been written.

        `numbers` are the partitions of `__consumer_offsets` to which the markers were written.
        """
        self.store.end_transaction(producer_id, numbers, is_commit)

    @staticmethod
    def _commit_refusal(group: Group, committing: Committing, in_transaction: bool = False) -> ErrorCode:
        _, member_id, instance_id, generation_id, _ = committing
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if generation_id < 0 and group.state is GroupState.EMPTY:
            # The request is from an administrator, or from a consumer that uses the group only to store its offsets.
            return ErrorCode.none
        if generation_id < 0 and member_id == NO_MEMBER and instance_id is None:
            # TxnOffsetCommit of older producers contains no member id.
            return ErrorCode.none if in_transaction else ErrorCode.unknown_member_id
        error = current_member_error(group, member_id, instance_id)
        if error is not ErrorCode.none:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        completing = group.state is GroupState.COMPLETING_REBALANCE and not in_transaction
        return ErrorCode.rebalance_in_progress if completing else ErrorCode.none

    def fetch_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition] | None, require_stable: bool
    ) -> tuple[ErrorCode, dict[TopicPartition, CommittedOffset]]:
        """Process OffsetFetch for one group. `partitions` is None for all partitions with an offset.

        With `require_stable`, an offset whose commit is pending has the error UNSTABLE_OFFSET_COMMIT.
        """
        refusal = self._refusal(group_id, may_be_empty=True)
        if refusal is not ErrorCode.none:
            return refusal, {}
        group = self.store.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return ErrorCode.none, {partition: CommittedOffset() for partition in partitions or ()}
        found = {}
        for partition in group.offsets.partitions() if partitions is None else partitions:
            if require_stable and group.offsets.is_pending(partition):
                found[partition] = CommittedOffset(error=ErrorCode.unstable_offset_commit)
                continue
            committed = group.offsets.get(partition)
            if committed is None:
                found[partition] = CommittedOffset()
            else:
                found[partition] = CommittedOffset(committed.offset, committed.leader_epoch, committed.metadata)
        return ErrorCode.none, found

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        """Process OffsetDelete. Return an error for the whole request or, if there is none, one error code per
        partition.
        """
        refusal = self._refusal(group_id)
        if refusal is not ErrorCode.none:
            return refusal, {}
        group = self.store.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return self._missing(group_id), {}
        errors = dict.fromkeys(partitions, ErrorCode.none)
        if group.state is not GroupState.EMPTY:
            if not group.is_consumer_group:
                return ErrorCode.non_empty_group, {}
            for topic_partition in partitions:
                if group.is_subscribed_to(topic_partition.topic):
                    errors[topic_partition] = ErrorCode.group_subscribed_to_topic
        free = [topic_partition for topic_partition, error in errors.items() if error is ErrorCode.none]
        if free:
            self.store.clean_up([group], lambda group: group.offsets.remove(free), OFFSETS_DELETED)
        return ErrorCode.none, errors

    # ---- administration ----------------------------------------------------------------------------------------

    def _missing(self, group_id: str) -> ErrorCode:
        gone = self.store.does_not_exist(group_id)
        return ErrorCode.group_id_not_found if gone else ErrorCode.not_coordinator

    def groups(self) -> tuple[ErrorCode, list[Group]]:
        """Process ListGroups. Return every group coordinated by this broker, and an error if some may still be
        loading.
        """
        if not self._is_active:
            return ErrorCode.coordinator_not_available, []
        loading = self.store.is_loading_any
        error = ErrorCode.coordinator_load_in_progress if loading else ErrorCode.none
        return error, list(self.store.groups.values())

    def describe(self, group_id: str) -> GroupSummary:
        """Process DescribeGroups for one group. The state of a group that does not exist is Dead."""
        refusal = self._refusal(group_id, may_be_empty=True)
        if refusal is not ErrorCode.none:
            return GroupSummary(refusal)
        group = self.store.groups.get(group_id)
        if group is None:
            return GroupSummary(ErrorCode.none, GroupState.DEAD)
        protocol = group.protocol_name if group.state is GroupState.STABLE else None
        members = tuple(group.members.values())
        return GroupSummary(ErrorCode.none, group.state, group.protocol_type or "", protocol or "", members)

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        """Process DeleteGroups. Groups that still have members are not deleted."""
        errors: dict[str, ErrorCode] = {}
        for group_id in group_ids:
            errors[group_id] = self._refusal(group_id, may_be_empty=True)
            if errors[group_id] is not ErrorCode.none:
                continue
            group = self.store.groups.get(group_id)
            if group is None or group.state is GroupState.DEAD:
                errors[group_id] = self._missing(group_id)
            elif group.state is not GroupState.EMPTY:
                errors[group_id] = ErrorCode.non_empty_group
            else:
                group.transition_to(GroupState.DEAD, self._runtime.now().wall_ms)
                self._membership.stop(group, ErrorCode.coordinator_not_available)
                self.store.clean_up([group], lambda group: group.offsets.remove_all(), DELETED)
        return errors


def _once(answer: Future[T]) -> Callable[[T], None]:
    """Return a callback that sets a future's result unless the future is already done.

    The future is done earlier if the client has stopped waiting.
    """

    def finish(result: T) -> None:
        if not answer.done():
            answer.set_result(result)

    return finish
