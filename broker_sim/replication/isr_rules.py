"""The rules of the ISR: what counts as caught up, who may join, who has to leave, and what is committed.

Each rule is one function here, and one test in `tests/broker_sim/replication/test_isr_rules.py`.  A leader applies them
in `zabka.broker_sim.replication.partition`, from what it knows of its followers (`FollowerState`); what becomes of a
proposed change is `zabka.broker_sim.replication.isr`.  Sources: Kafka's cluster/Partition.scala and
cluster/Replica.scala. Rules that Kafka has changed keep their old form beside the new one;
`zabka.controller.historical` names those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from zabka.broker_sim.replication.follower_state import UNKNOWN_EPOCH, FollowerState
from zabka.controller.historical import NO_HISTORY, Historical
from zabka.journal.events import ReplicaStanding

# ---- when a follower was last level with its leader -----------------------------------------------------------


def note_fetch(follower: FollowerState, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
    """The follower asked for `fetch_offset`: its log ends there.

    A follower that asks for what the leader had at its fetch before was level at that time, though the leader has
    more by now; without that a follower would fall behind merely because new records keep coming.
    """
    if fetch_offset >= leader_end_offset:
        follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
    elif fetch_offset >= follower.last_fetch_leader_end_offset:
        follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
    follower.end_offset = fetch_offset
    follower.last_fetch_leader_end_offset = max(leader_end_offset, follower.last_fetch_leader_end_offset)
    follower.last_fetch_ms = now_ms


def note_still_level(follower: FollowerState, now_ms: int) -> None:
    """The follower asked again for what comes behind the leader's last record, as it did the time before."""
    follower.last_caught_up_ms = follower.last_fetch_ms = now_ms


def begin_leader_epoch(
    follower: FollowerState, now_ms: int, leader_end_offset: int, newly_leader: bool, in_sync: bool
) -> None:
    """A new leader epoch begins.  A new leader knows nothing of its followers' logs, but gives those in the ISR a
    full lag period to show up; a leader that stays one keeps what it knows."""
    follower.last_caught_up_ms = now_ms if in_sync else FollowerState.NEVER
    if newly_leader:
        follower.forget()
    else:
        follower.last_fetch_leader_end_offset = leader_end_offset if in_sync else 0
        follower.last_fetch_ms = now_ms if in_sync else FollowerState.NEVER


# ---- what follows from it -------------------------------------------------------------------------------------


class IsrRules:
    """The rules that one broker holds its followers to: `lag_max_ms` is replica.lag.time.max.ms, and `historical`
    are the old rules that are switched on."""

    __slots__ = ("_commits_under_min_isr", "_joins_before_epoch_start", "_lag_max_ms", "_leaves_out_member_epochs")

    def __init__(self, lag_max_ms: int, historical: frozenset[Historical] = NO_HISTORY) -> None:
        self._lag_max_ms = lag_max_ms
        self._joins_before_epoch_start = Historical.NO_EPOCH_START_CHECK in historical
        self._commits_under_min_isr = Historical.HIGH_WATERMARK_UNDER_MIN_ISR in historical
        self._leaves_out_member_epochs = Historical.NO_MEMBER_EPOCHS in historical

    def is_caught_up(self, follower: FollowerState, leader_end_offset: int, now_ms: int) -> bool:
        """Level now, or level within the last replica.lag.time.max.ms: an idle follower that has everything never
        lags."""
        return follower.end_offset == leader_end_offset or now_ms - follower.last_caught_up_ms <= self._lag_max_ms

    def may_join(
        self, follower: FollowerState, high_watermark: int, epoch_start: int, is_alive: Callable[[int], bool]
    ) -> bool:
        """A live follower may join the ISR once it has all that is committed, and all from before the offset at which
        the leader's epoch starts (KAFKA-7128); before Kafka 2.1 the first was enough."""
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
        """Who has to leave the ISR: each member but the leader that is not caught up, or is no replica any more."""
        return tuple(
            broker
            for broker in isr
            if broker != leader_id
            and not (broker in followers and self.is_caught_up(followers[broker], leader_end_offset, now_ms))
        )

    def standing(
        self, follower: FollowerState, leader_end_offset: int, high_watermark: int, now_ms: int
    ) -> ReplicaStanding:
        """What a decision about that follower is made from, as the journal keeps it."""
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
        """The high watermark advances only while the committed ISR has min.insync.replicas members (KAFKA-15583);
        it did not look at that before Kafka 3.7."""
        return isr_size >= min_isr or self._commits_under_min_isr

    def commit_offset(
        self,
        followers: Mapping[int, FollowerState],
        maximal_isr: Collection[int],
        leader_end_offset: int,
        now_ms: int,
        is_alive: Callable[[int], bool],
    ) -> int:
        """The offset before which everybody has the records whom a commit waits for: the members of the ISR, those
        whom a change under way adds, and live followers that are caught up, since they may join at any moment."""
        mark = leader_end_offset
        for follower in followers.values():
            if follower.end_offset < mark and (
                follower.broker_id in maximal_isr
                or (self.is_caught_up(follower, leader_end_offset, now_ms) and is_alive(follower.broker_id))
            ):
                mark = follower.end_offset
        return mark

    def member_epoch(self, follower: FollowerState | None) -> int:
        """The broker epoch that a proposed ISR states for a member, so that the controller can refuse one that has
        been restarted since (KIP-903); -1 says nothing, which is all that leaders said before."""
        if follower is None or self._leaves_out_member_epochs:
            return UNKNOWN_EPOCH
        return follower.broker_epoch
