"""The ISR rules: which followers are caught up, can join and must leave, and which offset is committed.

Each rule is one function in this module, and one test in `tests/broker_sim/replication/test_isr_rules.py`. A leader
(`zabka.broker_sim.replication.partition`) applies them to its state about each follower (`FollowerState`).
`zabka.broker_sim.replication.isr` contains the state of proposed changes. Sources: Kafka's cluster/Partition.scala and
cluster/Replica.scala. If Kafka has changed a rule, the historical rule is next to the current one;
`zabka.controller.historical` names the historical rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from zabka.broker_sim.replication.follower_state import UNKNOWN_EPOCH, FollowerState
from zabka.controller.historical import NO_HISTORY, Historical
from zabka.journal.events import ReplicaStanding

# ---- when a follower was last caught up ----------------------------------------------------------------------


def note_fetch(follower: FollowerState, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
    """Record a fetch at `fetch_offset`, which is the end of the follower's log.

    If this offset was the leader's log end at the follower's previous fetch, the follower was caught up at that time,
    although the leader has more records now. Without this rule, a follower would fall behind merely because new records
    keep arriving.
    """
    if fetch_offset >= leader_end_offset:
        follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
    elif fetch_offset >= follower.last_fetch_leader_end_offset:
        follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
    follower.end_offset = fetch_offset
    follower.last_fetch_leader_end_offset = max(leader_end_offset, follower.last_fetch_leader_end_offset)
    follower.last_fetch_ms = now_ms


def note_still_level(follower: FollowerState, now_ms: int) -> None:
    """Record that the follower has fetched at the leader's log end again, so that it is caught up now."""
    follower.last_caught_up_ms = follower.last_fetch_ms = now_ms


def begin_leader_epoch(
    follower: FollowerState, now_ms: int, leader_end_offset: int, newly_leader: bool, in_sync: bool
) -> None:
    """Update a leader's state about a follower at the beginning of a leader epoch.

    A new leader knows nothing about its followers' logs, but gives members of the ISR a full lag period in which to
    fetch. A leader that stays leader keeps its state about the followers.
    """
    follower.last_caught_up_ms = now_ms if in_sync else FollowerState.NEVER
    if newly_leader:
        follower.forget()
    else:
        follower.last_fetch_leader_end_offset = leader_end_offset if in_sync else 0
        follower.last_fetch_ms = now_ms if in_sync else FollowerState.NEVER


# ---- decisions based on this state ---------------------------------------------------------------------------


class IsrRules:
    """The ISR rules that a broker uses.

    `lag_max_ms` is replica.lag.time.max.ms, and `historical` are the enabled historical rules.
    """

    __slots__ = ("_commits_under_min_isr", "_joins_before_epoch_start", "_lag_max_ms", "_leaves_out_member_epochs")

    def __init__(self, lag_max_ms: int, historical: frozenset[Historical] = NO_HISTORY) -> None:
        self._lag_max_ms = lag_max_ms
        self._joins_before_epoch_start = Historical.NO_EPOCH_START_CHECK in historical
        self._commits_under_min_isr = Historical.HIGH_WATERMARK_UNDER_MIN_ISR in historical
        self._leaves_out_member_epochs = Historical.NO_MEMBER_EPOCHS in historical

    def is_caught_up(self, follower: FollowerState, leader_end_offset: int, now_ms: int) -> bool:
        """Return whether the follower is caught up now, or was caught up within the last replica.lag.time.max.ms.

        A follower that has every record never lags, even if there are no new records.
        """
        return follower.end_offset == leader_end_offset or now_ms - follower.last_caught_up_ms <= self._lag_max_ms

    def may_join(
        self, follower: FollowerState, high_watermark: int, epoch_start: int, is_alive: Callable[[int], bool]
    ) -> bool:
        """Return whether a live follower can join the ISR.

        The follower needs all committed records, and all records before the start offset of the leader's epoch
        (KAFKA-7128). Before Kafka 2.1, the committed records were enough.
        """
        needed = high_watermark if self._joins_before_epoch_start else max(high_watermark, epoch_start)
        return follower.end_offset >= needed and is_alive(follower.broker_id)

    def lagging(
        self,
        isr: Sequence[int],
        leader_id: int,
        followers: Mapping[int, FollowerState],
        leader_end_offset: int,
        now_ms: int,
    ) -> tuple[int, ...]:
        """Return the ISR members that must leave, because they are not caught up or are no longer replicas.

        The leader is never among them.
        """
        return tuple(
            broker
            for broker in isr
            if broker != leader_id
            and not (broker in followers and self.is_caught_up(followers[broker], leader_end_offset, now_ms))
        )

    def standing(
        self, follower: FollowerState, leader_end_offset: int, high_watermark: int, now_ms: int
    ) -> ReplicaStanding:
        """Return, for the journal, the values on which a decision about a follower is based."""
        never = follower.last_caught_up_ms == FollowerState.NEVER
        return ReplicaStanding(
            replica=follower.broker_id,
            log_end_offset=follower.end_offset,
            leader_end_offset=leader_end_offset,
            high_watermark=high_watermark,
            caught_up_ms_ago=-1 if never else now_ms - follower.last_caught_up_ms,
            lag_time_max_ms=self._lag_max_ms,
        )

    def may_commit(self, isr_size: int, min_isr: int) -> bool:
        """Return whether the committed ISR has at least min.insync.replicas members, so that records can be committed.

        Kafka did not check this before 3.7 (KAFKA-15583).
        """
        return isr_size >= min_isr or self._commits_under_min_isr

    def commit_offset(
        self,
        followers: Mapping[int, FollowerState],
        maximal_isr: Collection[int],
        leader_end_offset: int,
        now_ms: int,
        is_alive: Callable[[int], bool],
    ) -> int:
        """Return the offset that every required replica has reached.

        The required replicas are the members of the ISR, the replicas that a pending change adds, and all live
        followers that are caught up, which can join the ISR at any moment.
        """
        mark = leader_end_offset
        for follower in followers.values():
            if follower.end_offset < mark and (
                follower.broker_id in maximal_isr
                or (self.is_caught_up(follower, leader_end_offset, now_ms) and is_alive(follower.broker_id))
            ):
                mark = follower.end_offset
        return mark

    def member_epoch(self, follower: FollowerState | None) -> int:
        """Return the broker epoch of a member for a proposed ISR; -1 if unknown.

        The controller compares this epoch to reject a member that has restarted in the meantime (KIP-903). Leaders
        before KIP-903 always sent -1.
        """
        if follower is None or self._leaves_out_member_epochs:
            return UNKNOWN_EPOCH
        return follower.broker_epoch
