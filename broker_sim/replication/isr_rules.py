"""The rules of the ISR: which followers are caught up, can join and must leave, and which offset is committed.

Each rule is one function here, and one test in `tests/broker_sim/replication/test_isr_rules.py`. A leader applies them
in `zabka.broker_sim.replication.partition` to its state of the followers (`FollowerState`). Proposed changes are
handled in `zabka.broker_sim.replication.isr`. Sources: Kafka's cluster/Partition.scala and cluster/Replica.scala. If
Kafka has changed a rule, its old form is next to the new one; `zabka.controller.historical` names the old forms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from zabka.broker_sim.replication.follower_state import UNKNOWN_EPOCH, FollowerState
from zabka.controller.historical import NO_HISTORY, Historical
from zabka.journal.events import ReplicaStanding

# ---- when a follower was last caught up ----------------------------------------------------------------------


def note_fetch(follower: FollowerState, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
    """Record a fetch at `fetch_offset`, which is the end of the follower's log.

    If a follower fetches at an offset that was the leader's log end at its previous fetch, it was caught up at that
    time, although the leader has more records now. Without this rule, a follower would fall behind merely because new
    records keep arriving.
    """
    if fetch_offset >= leader_end_offset:
        follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
    elif fetch_offset >= follower.last_fetch_leader_end_offset:
        follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
    follower.end_offset = fetch_offset
    follower.last_fetch_leader_end_offset = max(leader_end_offset, follower.last_fetch_leader_end_offset)
    follower.last_fetch_ms = now_ms


def note_still_level(follower: FollowerState, now_ms: int) -> None:
    """Record that the follower fetched at the leader's log end again."""
    follower.last_caught_up_ms = follower.last_fetch_ms = now_ms


def begin_leader_epoch(
    follower: FollowerState, now_ms: int, leader_end_offset: int, newly_leader: bool, in_sync: bool
) -> None:
    """Begin a leader epoch.

    A new leader knows nothing about its followers' logs, but gives members of the ISR a full lag period to fetch. A
    leader that continues keeps its state of the followers.
    """
    follower.last_caught_up_ms = now_ms if in_sync else FollowerState.NEVER
    if newly_leader:
        follower.forget()
    else:
        follower.last_fetch_leader_end_offset = leader_end_offset if in_sync else 0
        follower.last_fetch_ms = now_ms if in_sync else FollowerState.NEVER


# ---- decisions that follow from it ----------------------------------------------------------------------------


class IsrRules:
    """The ISR rules of one broker.

    `lag_max_ms` is replica.lag.time.max.ms, and `historical` are the old rules that are enabled.
    """

    __slots__ = ("_commits_under_min_isr", "_joins_before_epoch_start", "_lag_max_ms", "_leaves_out_member_epochs")

    def __init__(self, lag_max_ms: int, historical: frozenset[Historical] = NO_HISTORY) -> None:
        self._lag_max_ms = lag_max_ms
        self._joins_before_epoch_start = Historical.NO_EPOCH_START_CHECK in historical
        self._commits_under_min_isr = Historical.HIGH_WATERMARK_UNDER_MIN_ISR in historical
        self._leaves_out_member_epochs = Historical.NO_MEMBER_EPOCHS in historical

    def is_caught_up(self, follower: FollowerState, leader_end_offset: int, now_ms: int) -> bool:
        """Return whether the follower is caught up now, or was within the last replica.lag.time.max.ms.

        An idle follower that has every record never lags.
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
        """Return the members that must leave the ISR: not the leader, and not caught up or no longer a replica."""
        return tuple(
            broker
            for broker in isr
            if broker != leader_id
            and not (broker in followers and self.is_caught_up(followers[broker], leader_end_offset, now_ms))
        )

    def standing(
        self, follower: FollowerState, leader_end_offset: int, high_watermark: int, now_ms: int
    ) -> ReplicaStanding:
        """Return the inputs of a decision about that follower, for the journal."""
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
        """Return whether the committed ISR has the min.insync.replicas members that a commit needs (KAFKA-15583).

        Kafka did not check this before 3.7.
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
        """Return the offset that has been reached by every replica that a commit waits for.

        A commit waits for the members of the ISR, the replicas that a pending change adds, and live followers that are
        caught up, since they can join at any moment.
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
        """Return the broker epoch of a member in a proposed ISR; -1 if unknown.

        With it, the controller can reject a member that has restarted since (KIP-903). Leaders before KIP-903 always
        sent -1.
        """
        if follower is None or self._leaves_out_member_epochs:
            return UNKNOWN_EPOCH
        return follower.broker_epoch
