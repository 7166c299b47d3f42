"""The reason why a consumer group changed, for its journal event."""

from __future__ import annotations

from typing import NamedTuple

from zabka.broker_sim.groups.metadata import Member
from zabka.journal.cause import Cause, election_cause, request_cause, timer_cause
from zabka.journal.events import TopicPartition


class Reason(NamedTuple):
    """The reason for a change of a group: a text for `GroupChanged.after`, the causing event, and the member."""

    after: str
    caused_by: Cause
    member_id: str = ""
    client_id: str = ""
    timeout_ms: int = 0
    """The member's session timeout, if its session timed out."""

    def about(self, member: Member) -> Reason:
        """Return this reason with the member that it is about."""
        return self._replace(member_id=member.member_id, client_id=member.client_id)


JOINED = Reason("member joined", request_cause("JoinGroup"))
STATIC_JOINED_AGAIN = Reason("static member joined again", request_cause("JoinGroup"))
PROTOCOLS_CHANGED = Reason("member changed its subscription", request_cause("JoinGroup"))
LEADER_JOINED_AGAIN = Reason("leader joined again", request_cause("JoinGroup"))
NOT_STORED = Reason("assignment not stored", request_cause("SyncGroup"))
LEFT = Reason("member left", request_cause("LeaveGroup"))
SYNC_OVERDUE = Reason("members did not fetch their assignment", timer_cause("pending-sync"))
DELETED = Reason("group deleted", request_cause("DeleteGroups"))
OFFSETS_DELETED = Reason("offsets deleted", request_cause("OffsetDelete"))
TOPICS_DELETED = Reason("offsets deleted", request_cause("UpdateMetadata"))
EXPIRED = Reason("offsets expired", timer_cause("offsets-retention"))


def session_timed_out(member: Member) -> Reason:
    """Return the reason for the removal of a member that sent no request within its session timeout."""
    timed_out = Reason("session timed out", timer_cause("group-session"), timeout_ms=member.session_timeout_ms)
    return timed_out.about(member)


def all_joined(prepared: Cause) -> Reason:
    """Return the reason for a new generation. `prepared` refers to the event that started the rebalance."""
    return Reason("all members joined", prepared)


def joins_overdue(prepared: Cause) -> Reason:
    """Return the reason for a new generation that leaves out the members that did not join in time."""
    return Reason("rebalance timed out", prepared)


def assigned(completed: Cause) -> Reason:
    """Return the reason why a group is stable. `completed` refers to the event that started the generation."""
    return Reason("assignment stored", completed)


def taken_over(partition: TopicPartition, leader_epoch: int) -> Reason:
    """Return the reason for a group that a new coordinator has loaded.

    The reason's cause is the leader election of the `__consumer_offsets` partition.
    """
    return Reason("loaded", election_cause(partition, leader_epoch))


def too_large(read: Cause) -> Reason:
    """Return the reason for a rebalance of a loaded group with more members than group.max.size."""
    return Reason("more members than group.max.size", read)
