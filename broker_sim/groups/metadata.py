"""One group of the classic protocol: its state, members and protocol (Kafka's GroupMetadata and MemberMetadata).

Methods neither wait nor write to the log. `zabka.broker_sim.groups.membership` calls them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.offsets import GroupOffsets
from zabka.broker_sim.groups.records import OffsetAndMetadata, StoredGroup, StoredMember
from zabka.ensemble.ports import Timer
from zabka.journal.cause import UNKNOWN, Cause
from zabka.journal.events import TopicPartition
from zabka.kafka.client.consumer_protocol import (
    NO_GENERATION,
    PROTOCOL_TYPE,
    BadConsumerProtocol,
    decode_subscription,
)

_GENERATION_MAX = 2**31 - 1
"""The highest generation number that fits into records and responses. It is followed by generation 1."""


class GroupState(StrEnum):
    """State of a group, under the names that Kafka's tools show."""

    EMPTY = "Empty"
    """No members. The group exists until its offsets have expired."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits until all members have joined again."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All members have joined. The group waits for the leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """The group was removed, or another broker coordinates it."""


PREVIOUS: Mapping[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.DEAD: tuple(GroupState),
}
"""The valid predecessors of each state."""

Protocols = tuple[tuple[str, bytes], ...]
"""Pairs of protocol name and metadata, in the member's order of preference."""


class JoinedMember(NamedTuple):
    """A member in the JoinGroup response to the group's leader."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """Result of JoinGroup."""

    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncResult(NamedTuple):
    """Result of SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, eq=False)
class Member:
    """A member of a group, and its requests that wait for a response."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join_answer: Callable[[JoinResult], None] | None = None
    sync_answer: Callable[[SyncResult], None] | None = None
    is_new: bool = False
    """Whether the member has not completed a rebalance yet.

    A new member's session can expire while it waits for the rebalance.
    """
    session_ends_ms: int = 0
    session_timer: Timer | None = None
    timer_due_ms: int = 0

    @property
    def is_static(self) -> bool:
        """Whether the member has a group.instance.id."""
        return self.group_instance_id is not None

    @property
    def awaits_answer(self) -> bool:
        """Whether the member's JoinGroup is waiting for a rebalance, so that the member need not send heartbeats."""
        return self.join_answer is not None or self.sync_answer is not None

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol that the member supports."""
        return next(metadata for name, metadata in self.protocols if name == protocol_name)

    def vote(self, candidates: Collection[str]) -> str:
        """Return which of the candidate protocols the member prefers. The member must support at least one of them."""
        return next(name for name, _ in self.protocols if name in candidates)

    def answer_join(self, result: JoinResult) -> None:
        """Respond to the member's JoinGroup if it is waiting."""
        answer, self.join_answer = self.join_answer, None
        if answer is not None:
            answer(result)

    def answer_sync(self, result: SyncResult) -> bool:
        """Respond to the member's SyncGroup if it is waiting. Return whether the member was waiting."""
        answer, self.sync_answer = self.sync_answer, None
        if answer is None:
            return False
        answer(result)
        return True

    def end_session(self) -> None:
        """Stop the member's session timer."""
        if self.session_timer is not None:
            self.session_timer.cancel()
            self.session_timer = None


class Group:
    """A group's state, members and offsets.

    `now_ms` is always wall-clock time, because it is stored in records and offsets expire by it.
    """

    __slots__ = (
        "generation_id",
        "group_id",
        "journalled",
        "leader_id",
        "members",
        "new_member_added",
        "offsets",
        "pending_members",
        "pending_sync",
        "protocol_name",
        "protocol_type",
        "rebalance",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "supported",
        "sync_timer",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms: int | None = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids of static members, keyed by group.instance.id."""
        self.pending_members: dict[str, Timer] = {}
        """Member ids that were returned with MEMBER_ID_REQUIRED, until the client joins with them."""
        self.pending_sync: dict[str, None] = {}
        """Members that have joined this generation but have not sent SyncGroup yet."""
        self.supported: dict[str, int] = {}
        """Number of members that support each protocol. With it, a join does not have to visit all members."""
        self.offsets = GroupOffsets()
        self.subscribed_topics: tuple[str, ...] | None = None
        """The topics to which members are subscribed; None if unknown."""
        self.new_member_added = False
        self.journalled: Cause = UNKNOWN
        """Reference to the journal event of the last change."""
        self.rebalance: DelayedJoin | None = None
        self.sync_timer: Timer | None = None

    # ---- state -------------------------------------------------------------------------------------------------

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Enter a state and record the time."""
        assert self.state in PREVIOUS[state], f"group {self.group_id}: {self.state} to {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin in the current state."""
        return self.state in PREVIOUS[GroupState.PREPARING_REBALANCE]

    @property
    def is_consumer_group(self) -> bool:
        """Whether the group's protocol type is "consumer"."""
        return self.protocol_type == PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to the topic; also True if the subscriptions are unknown."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    # ---- members -----------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first member becomes the leader."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, "a static member joined twice"
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.forget_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id.

        If the member was the leader, the member that joined first becomes the leader.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            member.end_session()
            self._count_protocols(member, -1)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.forget_pending(member_id)
        self.pending_sync.pop(member_id, None)

    def forget_pending(self, member_id: str) -> None:
        """Remove a pending member id, because a client has used it or can no longer use it."""
        timer = self.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def replace_static_member(self, group_instance_id: str, old_member_id: str, new_member_id: str) -> Member:
        """Change the member id of a static member. Requests that wait under the old id are fenced."""
        member = self.members.pop(old_member_id)
        member.answer_join(JoinResult(ErrorCode.fenced_instance_id, old_member_id))
        member.answer_sync(SyncResult(ErrorCode.fenced_instance_id))
        member.member_id = new_member_id
        self.members[new_member_id] = member
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        # No client can send SyncGroup with the old id any more, so stop waiting for it. Kafka keeps the old id in this
        # map, so there the group rebalances when the SyncGroup does not arrive.
        self.pending_sync.pop(old_member_id, None)
        self.static_members[group_instance_id] = new_member_id
        return member

    def elect_joined_leader(self) -> bool:
        """Elect a joined member if the current leader has not joined. Return False if no member has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_answer is not None:
            return True
        joined = next((member for member in self.members.values() if member.join_answer is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    @property
    def awaiting_join(self) -> int:
        """Number of members that wait for the rebalance."""
        return sum(member.join_answer is not None for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        """Whether all members have joined again and every pending member id has been used."""
        return not self.pending_members and all(member.join_answer is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # ---- protocols ---------------------------------------------------------------------------------------------

    def _count_protocols(self, member: Member, change: int) -> None:
        for name in dict.fromkeys(name for name, _ in member.protocols):
            self.supported[name] = self.supported.get(name, 0) + change
            if not self.supported[name]:
                del self.supported[name]

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        """Set the protocols that a member supports."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a client that supports these protocols could be a member of the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self.supported.get(name, 0) == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer among the protocols that all members support.

        At least one protocol must be supported by all members.
        """
        candidates = {name for name, count in self.supported.items() if count == len(self.members)}
        votes = [member.vote(candidates) for member in self.members.values()]
        counts = Counter(votes)
        return max(counts, key=counts.__getitem__)

    def next_generation(self, now_ms: int) -> None:
        """Begin the next generation with the joined members. It may have no members."""
        self.generation_id = self.generation_id % _GENERATION_MAX + 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._find_subscribed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_sync.clear()

    def _find_subscribed_topics(self) -> tuple[str, ...] | None:
        if not self.is_consumer_group:
            return None
        if not self.members:
            return ()
        if self.protocol_name is None:
            return None
        topics: dict[str, None] = {}
        try:
            for member in self.members.values():
                topics.update(dict.fromkeys(decode_subscription(member.metadata(self.protocol_name))))
        except BadConsumerProtocol:
            return None
        return tuple(topics)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return every member with its metadata for the selected protocol, to be sent to the leader."""
        name = self.protocol_name
        assert name is not None
        return tuple(JoinedMember(m.member_id, m.group_instance_id, m.metadata(name)) for m in self.members.values())

    # ---- offsets -----------------------------------------------------------------------------------------------

    def remove_expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Remove offsets older than offsets.retention.minutes (KIP-211).

        In an empty group, the retention begins when the group became empty. In a group that only stores offsets, it
        begins at the commit. In a stable consumer group, only offsets of topics without a subscriber expire; their
        retention begins at the commit.
        """

        def since_commit(committed: OffsetAndMetadata) -> int:
            return committed.commit_timestamp_ms

        def since_empty(committed: OffsetAndMetadata) -> int:
            return committed.commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms

        if self.protocol_type is None:
            return self.offsets.remove_expired(now_ms, retention_ms, since_commit, ())
        if self.state is GroupState.EMPTY:
            return self.offsets.remove_expired(now_ms, retention_ms, since_empty, ())
        if self.is_consumer_group and self.state is GroupState.STABLE and self.subscribed_topics is not None:
            return self.offsets.remove_expired(now_ms, retention_ms, since_commit, self.subscribed_topics)
        return []

    # ---- its record --------------------------------------------------------------------------------------------

    def to_stored(self, assignment: Mapping[str, bytes]) -> StoredGroup:
        """Return the group's metadata record with this assignment."""
        name = self.protocol_name
        return StoredGroup(
            self.protocol_type or "",
            self.generation_id,
            name,
            self.leader_id,
            self.state_timestamp_ms,
            tuple(
                StoredMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=b"" if name is None else member.metadata(name),
                    assignment=assignment[member.member_id],
                )
                for member in self.members.values()
            ),
        )


@dataclass(slots=True, eq=False)
class DelayedJoin:
    """The phase of a rebalance in which the coordinator waits for all known members to join.

    With `is_initial`, the coordinator instead waits a fixed time for more members.
    """

    is_initial: bool
    delay_ms: int
    remaining_ms: int = 0
    timer: Timer | None = None


def group_from_stored(group_id: str, stored: StoredGroup, now_ms: int) -> Group:
    """Return the group that a metadata record describes. Its state is Stable, or Empty if it has no members."""
    group = Group(group_id, now_ms)
    for row in stored.members:
        protocols = ((stored.protocol_name or "", row.subscription),)
        member = Member(
            member_id=row.member_id,
            group_instance_id=row.group_instance_id,
            client_id=row.client_id,
            client_host=row.client_host,
            rebalance_timeout_ms=row.rebalance_timeout_ms,
            session_timeout_ms=row.session_timeout_ms,
            protocols=protocols,
            assignment=row.assignment,
        )
        group.add(member, stored.protocol_type)
    group.state = GroupState.STABLE if stored.members else GroupState.EMPTY
    group.state_timestamp_ms = stored.state_timestamp_ms
    group.protocol_type = stored.protocol_type or None
    group.protocol_name = stored.protocol_name
    group.generation_id = stored.generation_id
    group.leader_id = stored.leader_id
    group.subscribed_topics = group._find_subscribed_topics()
    return group
