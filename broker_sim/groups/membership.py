"""Joining, syncing, heartbeats and leaving of group members: the transition from one generation to the next.

Source: Kafka's GroupCoordinator, classic protocol. A rebalance waits until every known member has joined again, but at
most for the longest rebalance timeout of the members. The first rebalance of an empty group waits
group.initial.rebalance.delay.ms for more members.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.config import GroupConfig
from zabka.broker_sim.groups.metadata import (
    DelayedJoin,
    Group,
    GroupState,
    JoinResult,
    Member,
    SyncResult,
)
from zabka.broker_sim.groups.reasons import (
    JOINED,
    LEADER_JOINED_AGAIN,
    LEFT,
    NOT_STORED,
    PROTOCOLS_CHANGED,
    STATIC_JOINED_AGAIN,
    SYNC_OVERDUE,
    Reason,
    all_joined,
    assigned,
    joins_overdue,
    session_timed_out,
    too_large,
)
from zabka.broker_sim.groups.requests import Joining, Leaving, Syncing
from zabka.broker_sim.groups.store import GroupStore
from zabka.ensemble.ports import Runtime
from zabka.kafka.client.consumer_protocol import NO_MEMBER
from zabka.kafka.wire.primitives import TEXT_BYTES_MAX

_PREPARING, _COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE
_EMPTY, _STABLE, _DEAD = GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD

AnswerJoin = Callable[[JoinResult], None]
AnswerSync = Callable[[SyncResult], None]
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""Maximum time that a new member's JoinGroup can wait for the rebalance. Until the response, the member cannot send
heartbeats.
"""


class MemberSessions:
    """Session timeouts of the members of all groups. Calls `ended` with each expired member.

    A session expires if the member sends no request for session.timeout.ms. However often a member sends requests, it
    has at most one timer: when the timer fires, it checks whether the deadline has moved.
    """

    def __init__(self, runtime: Runtime, ended: Callable[[Group, Member], None]) -> None:
        self._runtime = runtime
        self._ended = ended

    def renew(self, group: Group, member: Member) -> None:
        """Restart the member's session timeout after a request."""
        self.expect(group, member, member.session_timeout_ms)

    def expect(self, group: Group, member: Member, timeout_ms: int) -> None:
        """Expire the member's session if the member sends no request within this time."""
        now_ms = self._runtime.now().mono_ms
        member.session_ends_ms = now_ms + timeout_ms
        # A timer that fires before the new deadline checks the deadline again, so keep it. Replace a timer that fires
        # later.
        if member.session_timer is not None and member.timer_due_ms > member.session_ends_ms:
            member.end_session()
        if member.session_timer is None:
            self._arm(group, member, timeout_ms)

    def _arm(self, group: Group, member: Member, delay_ms: int) -> None:
        member.timer_due_ms = self._runtime.now().mono_ms + delay_ms
        member.session_timer = self._runtime.call_later(delay_ms, lambda: self._due(group, member))

    def _due(self, group: Group, member: Member) -> None:
        member.session_timer = None
        if group.state is GroupState.DEAD or group.members.get(member.member_id) is not member:
            return
        left_ms = member.session_ends_ms - self._runtime.now().mono_ms
        if left_ms > 0:
            self._arm(group, member, left_ms)
        elif member.is_new or not member.awaits_answer:
            self._ended(group, member)


def current_member_error(group: Group, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """Return OK if this is a member of the group with its current member id, else the error code."""
    if group_instance_id is not None:
        current = group.static_members.get(group_instance_id)
        if current is None:
            return ErrorCode.unknown_member_id
        if current != member_id:
            return ErrorCode.fenced_instance_id
    return ErrorCode.none if member_id in group.members else ErrorCode.unknown_member_id


class GroupMembership:
    """Changes the membership of a store's groups. Callbacks send the responses to waiting requests."""

    def __init__(
        self,
        config: GroupConfig,
        store: Callable[[], GroupStore],
        runtime: Runtime,
        changed: Callable[[Group, Reason], None],
    ) -> None:
        """`changed` is called with the reason after every state change of a group."""
        self._config = config
        self._store = store
        self._runtime = runtime
        self._changed = changed
        self.sessions = MemberSessions(
            runtime, lambda group, member: self._remove_member(group, member, session_timed_out(member))
        )

    def _now_ms(self) -> int:
        return self._runtime.now().wall_ms

    # ---- JoinGroup ---------------------------------------------------------------------------------------------

    def join(self, group: Group, joining: Joining, answer: AnswerJoin) -> None:
        """Process a JoinGroup request."""
        if not self._has_room(group, joining.member_id):
            group.remove(joining.member_id)
            answer(JoinResult(ErrorCode.group_max_size_reached, NO_MEMBER))
        elif group.state is _DEAD:
            answer(JoinResult(ErrorCode.coordinator_not_available, joining.member_id))
        elif not group.supports(joining.protocol_type, joining.protocols):
            answer(JoinResult(ErrorCode.inconsistent_group_protocol, joining.member_id))
        elif joining.member_id == NO_MEMBER:
            self._join_new(group, joining, answer)
        elif joining.member_id in group.pending_members and joining.group_instance_id is not None:
            # The member id was assigned to a dynamic member. In Kafka this is an IllegalStateException.
            answer(JoinResult(ErrorCode.unknown_server_error, joining.member_id))
        elif joining.member_id in group.pending_members:
            self._add_member(group, joining, joining.member_id, answer)
        else:
            self._join_again(group, joining, answer)
        self._complete_join_if_all_joined(group)

    def _has_room(self, group: Group, member_id: str) -> bool:
        size_max = self._config.group_max_size
        if group.state is _PREPARING:
            member = group.members.get(member_id)
            # Count only the waiting members, so that the members in excess of group.max.size that join last are
            # rejected.
            waits = member is not None and member.join_answer is not None
            return waits or len(group.members) < size_max or group.awaiting_join < size_max
        if group.state in (_COMPLETING, _STABLE):
            return member_id in group.members or len(group.members) < size_max
        return True

    def _join_new(self, group: Group, joining: Joining, answer: AnswerJoin) -> None:
        instance_id = joining.group_instance_id
        new_id = f"{joining.client_id if instance_id is None else instance_id}-{self._random_uuid()}"
        if len(new_id.encode()) > TEXT_BYTES_MAX:
            # The member id is too long both for a response and for the group's record. Kafka detects this when it
            # writes the response.
            answer(JoinResult(ErrorCode.unknown_server_error, NO_MEMBER))
        elif instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is None:
                self._add_member(group, joining, new_id, answer)
            else:
                self._replace_static(group, joining, old_id, new_id, answer)
        elif joining.requires_known_member_id:
            group.pending_members[new_id] = self._runtime.call_later(
                joining.session_timeout_ms, lambda: self._forget_pending(group, new_id)
            )
            answer(JoinResult(ErrorCode.member_id_required, new_id))
        else:
            self._add_member(group, joining, new_id, answer)

    def _random_uuid(self) -> str:
        bits = self._runtime.random.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def _join_again(self, group: Group, joining: Joining, answer: AnswerJoin) -> None:
        error = current_member_error(group, joining.member_id, joining.group_instance_id)
        if error is ErrorCode.none and group.state is _EMPTY:
            error = ErrorCode.unknown_member_id
        if error is not ErrorCode.none:
            answer(JoinResult(error, joining.member_id))
            return
        member = group.members[joining.member_id]
        unchanged = member.protocols == joining.protocols
        leads = group.leader_id == member.member_id
        if group.state is _COMPLETING and unchanged:
            # The member sends JoinGroup again, because it did not receive the first response.
            answer(self._joined(group, member))
        elif group.state is _STABLE and unchanged and not leads:
            answer(self._joined(group, member))
        else:
            # If the member's protocols are unchanged, only the leader's request starts a rebalance: the leader may have
            # noticed changes of the topics.
            self._update_member(group, member, joining, answer)
            reason = LEADER_JOINED_AGAIN if unchanged else PROTOCOLS_CHANGED
            self._prepare_if_possible(group, reason.about(member))

    def _joined(self, group: Group, member: Member) -> JoinResult:
        leads = group.leader_id == member.member_id
        return JoinResult(
            ErrorCode.none,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader_id or "",
            members=group.joined_members() if leads else (),
        )

    @staticmethod
    def _update_member(group: Group, member: Member, joining: Joining, answer: AnswerJoin) -> None:
        group.set_protocols(member, joining.protocols)
        member.rebalance_timeout_ms = joining.rebalance_timeout_ms
        member.session_timeout_ms = joining.session_timeout_ms
        # The member has sent JoinGroup again, most likely on a new connection. Fail the earlier request.
        member.answer_join(JoinResult(ErrorCode.rebalance_in_progress, member.member_id))
        member.join_answer = answer

    def _add_member(self, group: Group, joining: Joining, member_id: str, answer: AnswerJoin) -> None:
        member = Member(
            member_id=member_id,
            group_instance_id=joining.group_instance_id,
            client_id=joining.client_id,
            client_host=joining.client_host,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            session_timeout_ms=joining.session_timeout_ms,
            protocols=joining.protocols,
            join_answer=answer,
            is_new=True,
        )
        if group.state is _PREPARING and group.generation_id == 0:
            group.new_member_added = True
        group.add(member, joining.protocol_type)
        self.sessions.expect(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._prepare_if_possible(group, JOINED.about(member))

    # ---- static members ----------------------------------------------------------------------------------------

    def _replace_static(self, group: Group, joining: Joining, old_id: str, new_id: str, answer: AnswerJoin) -> None:
        """Replace the member id of a static member after its client has restarted.

        In a stable group, the static member keeps its assignment (KIP-345).
        """
        instance_id = joining.group_instance_id
        assert instance_id is not None
        leader_before = group.leader_id
        member = group.replace_static_member(instance_id, old_id, new_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self.sessions.renew(group, member)
        self._update_member(group, member, joining, answer)
        if group.state is _STABLE:
            if group.select_protocol() != group.protocol_name:
                self._prepare_if_possible(group, STATIC_JOINED_AGAIN.about(member))
                return
            assignment = {each.member_id: each.assignment for each in group.members.values()}
            stored = self._store().store_group(group, assignment)
            generation_id = group.generation_id

            async def finish() -> None:
                error = await stored
                went_on = group.state is not _STABLE or group.generation_id != generation_id
                if went_on or group.members.get(new_id) is not member:
                    # Do nothing. Either a rebalance has started, which responds to the member and stores the new id, or
                    # the member was replaced again. (If the store failed, Kafka restores the old id, and so fences the
                    # live member.)
                    return
                if error is ErrorCode.none:
                    member.answer_join(self._back_again(group, member, joining.can_skip_assignment, leader_before))
                    return
                protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
                group.set_protocols(member, protocols)
                self._undo_replacement(group, member, old_id, error, leader_before)

            self._runtime.spawn(finish(), f"store group {group.group_id}")
        elif group.state is _COMPLETING:
            # The leader may be computing an assignment for the old member id, so rebalance.
            self._prepare(group, STATIC_JOINED_AGAIN.about(member))

    def _undo_replacement(
        self, group: Group, member: Member, old_id: str, error: ErrorCode, leader_before: str | None
    ) -> None:
        member.answer_join(
            JoinResult(
                error,
                NO_MEMBER,
                group.generation_id,
                group.protocol_type,
                group.protocol_name,
                leader_before or "",
            )
        )
        assert member.group_instance_id is not None
        group.replace_static_member(member.group_instance_id, member.member_id, old_id)
        self.sessions.renew(group, member)

    def _back_again(
        self, group: Group, member: Member, can_skip_assignment: bool, leader_before: str | None
    ) -> JoinResult:
        joined = self._joined(group, member)
        if can_skip_assignment:
            return joined._replace(skip_assignment=group.leader_id == member.member_id)
        # Return the leader's old id as leader: otherwise an older client would become leader and compute an
        # assignment that is ignored.
        return joined._replace(leader_id=leader_before or "", members=())

    # ---- the rebalance -----------------------------------------------------------------------------------------

    def _prepare_if_possible(self, group: Group, reason: Reason) -> None:
        if group.can_rebalance:
            self._prepare(group, reason)

    def _prepare(self, group: Group, reason: Reason) -> None:
        """Begin a rebalance. Members that wait for an assignment must join again."""
        if group.state is _COMPLETING:
            self._propagate_error(group, ErrorCode.rebalance_in_progress)
        group.pending_sync.clear()
        self._stop_waiting_for_sync(group)
        if group.state is _EMPTY:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            delayed = DelayedJoin(True, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        else:
            delayed = DelayedJoin(False, group.rebalance_timeout_ms)
        group.transition_to(_PREPARING, self._now_ms())
        self._changed(group, reason)
        self._await_joins(group, delayed)

    def _await_joins(self, group: Group, delayed: DelayedJoin) -> None:
        group.rebalance = delayed
        delay_ms = max(1, delayed.delay_ms)
        delayed.timer = self._runtime.call_later(delay_ms, lambda: self._join_delay_over(group, delayed))
        self._complete_join_if_all_joined(group)

    def _complete_join_if_all_joined(self, group: Group, removed: Reason | None = None) -> None:
        delayed = group.rebalance
        if delayed is not None and not delayed.is_initial and group.state is _PREPARING and group.all_have_joined:
            if delayed.timer is not None:
                delayed.timer.cancel()
            group.rebalance = None
            # If the last member was removed during the rebalance, its removal is the reason why the group is empty.
            is_empty = removed is not None and not group.members
            self._complete_join(group, removed if removed and is_empty else all_joined(group.journalled))

    def _join_delay_over(self, group: Group, delayed: DelayedJoin) -> None:
        if group.rebalance is not delayed:
            return
        group.rebalance = None
        if delayed.is_initial and group.new_member_added and delayed.remaining_ms:
            group.new_member_added = False
            delay_ms = min(self._config.group_initial_rebalance_delay_ms, delayed.remaining_ms)
            remaining_ms = max(delayed.remaining_ms - delayed.delay_ms, 0)
            self._await_joins(group, DelayedJoin(True, delay_ms, remaining_ms))
        else:
            reason = all_joined if delayed.is_initial else joins_overdue
            self._complete_join(group, reason(group.journalled))

    def _complete_join(self, group: Group, reason: Reason) -> None:
        """Begin the next generation with the members that have joined.

        Dynamic members that have not joined are removed; static members are not.
        """
        for member in [m for m in group.members.values() if m.join_answer is None and not m.is_static]:
            group.remove(member.member_id)
        if group.state is _DEAD:
            return
        if group.members and not group.elect_joined_leader():
            # No member has joined again. Wait until the members' sessions expire.
            self._await_joins(group, DelayedJoin(False, group.rebalance_timeout_ms))
            return
        group.next_generation(self._now_ms())
        self._changed(group, reason)
        if group.state is _EMPTY:
            # If this record cannot be stored, the next coordinator may load the previous generation for a while,
            # although its members no longer exist.
            self._runtime.spawn(_ignored(self._store().store_group(group, {})), f"store group {group.group_id}")
            return
        for member in list(group.members.values()):
            member.answer_join(self._joined(group, member))
            self.sessions.renew(group, member)
            member.is_new = False
            group.pending_sync[member.member_id] = None
        generation_id = group.generation_id
        group.sync_timer = self._runtime.call_later(
            group.rebalance_timeout_ms, lambda: self._sync_overdue(group, generation_id)
        )

    # ---- SyncGroup ---------------------------------------------------------------------------------------------

    def sync(self, group: Group, syncing: Syncing, answer: AnswerSync) -> None:
        """Process a SyncGroup request."""
        error = self._sync_error(group, syncing)
        if error is not ErrorCode.none:
            answer(SyncResult(error))
            return
        member = group.members[syncing.member_id]
        if group.state is _STABLE:
            self._has_synced(group, member)
            answer(SyncResult(ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment))
            self.sessions.renew(group, member)
            return
        member.answer_sync(SyncResult(ErrorCode.rebalance_in_progress))
        member.sync_answer = answer
        self._has_synced(group, member)
        if group.leader_id == member.member_id:
            self._store_assignment(group, syncing.assignments)

    @staticmethod
    def _sync_error(group: Group, syncing: Syncing) -> ErrorCode:
        if group.state is _DEAD:
            return ErrorCode.coordinator_not_available
        error = current_member_error(group, syncing.member_id, syncing.group_instance_id)
        if error is not ErrorCode.none:
            return error
        if syncing.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        if syncing.protocol_type is not None and syncing.protocol_type != group.protocol_type:
            return ErrorCode.inconsistent_group_protocol
        if syncing.protocol_name is not None and syncing.protocol_name != group.protocol_name:
            return ErrorCode.inconsistent_group_protocol
        if group.state is _EMPTY:
            return ErrorCode.unknown_member_id
        return ErrorCode.rebalance_in_progress if group.state is _PREPARING else ErrorCode.none

    def _store_assignment(self, group: Group, given: Mapping[str, bytes]) -> None:
        """Store the leader's assignment before any member receives it.

        A member that the leader omitted gets an empty assignment.
        """
        assignment = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation_id = group.generation_id
        stored = self._store().store_group(group, assignment)

        async def finish() -> None:
            error = await stored
            if group.state is not _COMPLETING or group.generation_id != generation_id:
                return
            if error is not ErrorCode.none:
                self._propagate_error(group, error)
                self._prepare_if_possible(group, NOT_STORED)
                return
            for member in group.members.values():
                member.assignment = assignment[member.member_id]
            self._propagate(group, ErrorCode.none)
            group.transition_to(_STABLE, self._now_ms())
            self._changed(group, assigned(group.journalled))

        self._runtime.spawn(finish(), f"store group {group.group_id}")

    def _propagate_error(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error)

    def _propagate(self, group: Group, error: ErrorCode) -> None:
        protocol_type = protocol_name = None
        if error is ErrorCode.none:
            protocol_type, protocol_name = group.protocol_type, group.protocol_name
        for member in list(group.members.values()):
            if member.answer_sync(SyncResult(error, protocol_type, protocol_name, member.assignment)):
                self.sessions.renew(group, member)

    def _has_synced(self, group: Group, member: Member) -> None:
        group.pending_sync.pop(member.member_id, None)
        if not group.pending_sync:
            self._stop_waiting_for_sync(group)

    @staticmethod
    def _stop_waiting_for_sync(group: Group) -> None:
        if group.sync_timer is not None:
            group.sync_timer.cancel()
            group.sync_timer = None

    def _sync_overdue(self, group: Group, generation_id: int) -> None:
        """Remove members that joined but never requested their assignment (KAFKA-13435)."""
        group.sync_timer = None
        if generation_id != group.generation_id or group.state not in (_COMPLETING, _STABLE) or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            group.remove(member_id)
        self._prepare(group, SYNC_OVERDUE)

    # ---- heartbeats --------------------------------------------------------------------------------------------

    def heartbeat(self, group: Group, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """Process a Heartbeat request."""
        if group.state is _DEAD:
            return ErrorCode.coordinator_not_available
        error = current_member_error(group, member_id, group_instance_id)
        if error is not ErrorCode.none:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        if group.state is _EMPTY:
            return ErrorCode.unknown_member_id
        self.sessions.renew(group, group.members[member_id])
        return ErrorCode.rebalance_in_progress if group.state is _PREPARING else ErrorCode.none

    def _forget_pending(self, group: Group, member_id: str) -> None:
        group.remove(member_id)
        self._complete_join_if_all_joined(group)

    # ---- leaving -----------------------------------------------------------------------------------------------

    def leave(self, group: Group, leaving: Leaving) -> ErrorCode:
        """Remove one member, at its own request or at the request of an administrator."""
        member_id, instance_id = leaving
        if member_id == NO_MEMBER:
            current = None if instance_id is None else group.static_members.get(instance_id)
            if current is None:
                return ErrorCode.unknown_member_id
            member_id = current
        elif member_id in group.pending_members:
            self._forget_pending(group, member_id)
            return ErrorCode.none
        else:
            error = current_member_error(group, member_id, instance_id)
            if error is not ErrorCode.none:
                return error
        member = group.members[member_id]
        self._remove_member(group, member, LEFT.about(member))
        return ErrorCode.none

    def _remove_member(self, group: Group, member: Member, reason: Reason) -> None:
        member.answer_join(JoinResult(ErrorCode.unknown_member_id, NO_MEMBER))
        # Fail the pending SyncGroup. Kafka does not respond to it, so there the client waits for its
        # request.timeout.ms.
        member.answer_sync(SyncResult(ErrorCode.unknown_member_id))
        group.remove(member.member_id)
        if group.state in (_STABLE, _COMPLETING):
            self._prepare(group, reason)
        elif group.state is _PREPARING:
            self._complete_join_if_all_joined(group, reason)

    # ---- load and unload ---------------------------------------------------------------------------------------

    def loaded(self, group: Group, reason: Reason) -> None:
        """Start the session timeouts of a group that was loaded from the log. Rebalance the group if it is too
        large.
        """
        self._changed(group, reason)
        if len(group.members) > self._config.group_max_size:
            self._prepare(group, too_large(group.journalled))
        for member in list(group.members.values()):
            self.sessions.renew(group, member)

    def unloaded(self, group: Group) -> None:
        """Respond to the waiting clients of a group that another broker now coordinates, so that they find that
        broker.
        """
        group.transition_to(_DEAD, self._now_ms())
        self.stop(group, ErrorCode.not_coordinator)

    def stop(self, group: Group, error: ErrorCode) -> None:
        """Stop every timer of a group, and respond to all waiting requests with this error."""
        if group.rebalance is not None and group.rebalance.timer is not None:
            group.rebalance.timer.cancel()
        group.rebalance = None
        group.pending_sync.clear()
        self._stop_waiting_for_sync(group)
        for member_id in list(group.pending_members):
            group.forget_pending(member_id)
        for member in list(group.members.values()):
            member.end_session()
            member.answer_join(JoinResult(error, member.member_id))
            member.answer_sync(SyncResult(error))


async def _ignored(stored: Awaitable[ErrorCode]) -> None:
    await stored
