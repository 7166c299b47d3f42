"""The sessions of group members: who has not been heard from for session.timeout.ms is out.

A member has one timer at most, however often it is heard from: the timer looks at the clock when it is due.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.broker_sim.groups.metadata import Group, GroupState, Member
from zabka.ensemble.ports import Runtime

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""How long a new member's JoinGroup waits: until it is answered the member cannot send heartbeats."""


class MemberSessions:
    """Watches over the members of all groups; `ended` is told whose session is over."""

    def __init__(self, runtime: Runtime, ended: Callable[[Group, Member], None]) -> None:
        self._runtime = runtime
        self._ended = ended

    def heard_from(self, group: Group, member: Member) -> None:
        """The member lives: its session begins anew."""
        self.expect(group, member, member.session_timeout_ms)

    def expect(self, group: Group, member: Member, timeout_ms: int) -> None:
        """The member is to be heard from within so long."""
        now_ms = self._runtime.now().mono_ms
        member.session_ends_ms = now_ms + timeout_ms
        # A timer that is due earlier looks at the clock again then; one that is due later would come too late.
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
