"""What a leader knows of one follower (Kafka's cluster/Replica.scala)."""

from __future__ import annotations

from broker_sim.ports import FetchedPartition, FetchPartition

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1


class FollowerState:
    """A follower's log end offset as its fetches show it, and when it last stood level with the leader.

    Times are the leader's monotonic milliseconds; `NEVER` lies before all of them.
    """

    NEVER = -(1 << 62)

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "end_offset",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "question",
        "start_offset",
        "told",
        "told_epoch",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN_EPOCH
        """Which life of the follower fetched last, as far as its fetches say (KIP-903)."""
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = 0
        self.last_fetch_ms = self.NEVER
        self.last_caught_up_ms = self.NEVER
        self.question: FetchPartition | None = None
        """What it asked for last where there was nothing new for it; `told` was the answer."""
        self.told: FetchedPartition | None = None
        self.told_epoch = UNKNOWN_EPOCH
        """The leader epoch of that answer."""

    def fetched(self, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """The follower asked for `fetch_offset`: its log ends there.

        A follower that asks for what the leader had at its fetch before was level at that time, though the leader has
        more by now; without that a follower would fall behind merely because new records keep coming.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = fetch_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_ms = now_ms

    def still_level(self, now_ms: int) -> None:
        """The follower asked again for what comes behind the leader's last record, as it did the time before."""
        self.last_caught_up_ms = self.last_fetch_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Level now, or level within the last `lag_max_ms`: an idle follower that has everything never lags."""
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms

    def reset(self, now_ms: int, leader_end_offset: int, newly_leader: bool, in_sync: bool) -> None:
        """A new leader epoch begins.  A new leader knows nothing of its followers' logs, but gives those in the ISR
        a full lag period to show up; a leader that stays one keeps what it knows."""
        self.last_caught_up_ms = now_ms if in_sync else self.NEVER
        if newly_leader:
            self.broker_epoch = UNKNOWN_EPOCH
            self.end_offset = UNKNOWN_OFFSET
            self.start_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_end_offset = 0
            self.last_fetch_ms = self.NEVER
        else:
            self.last_fetch_leader_end_offset = leader_end_offset if in_sync else 0
            self.last_fetch_ms = now_ms if in_sync else self.NEVER
