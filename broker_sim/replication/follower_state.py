"""What a leader knows of one follower (Kafka's cluster/Replica.scala)."""

from __future__ import annotations

from zabka.broker_sim.ports import FetchedPartition, FetchPartition

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1


class FollowerState:
    """A follower's log end offset as its fetches show it, and when it last stood level with the leader.

    Times are the leader's monotonic milliseconds; `NEVER` lies before all of them.  What a fetch makes of this, and
    who counts as caught up by it, say the rules in `zabka.broker_sim.replication.isr_rules`.
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
        self.question: FetchPartition | None = None
        """What it asked for last where there was nothing new for it; `told` was the answer."""
        self.told: FetchedPartition | None = None
        self.told_epoch = UNKNOWN_EPOCH
        """The leader epoch of that answer."""
        self.last_caught_up_ms = self.NEVER
        self.forget()

    def forget(self) -> None:
        """Nothing is known of the follower's log: it has not fetched from this leader yet."""
        self.broker_epoch = UNKNOWN_EPOCH
        """Which life of the follower fetched last, as far as its fetches say (KIP-903)."""
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = 0
        self.last_fetch_ms = self.NEVER
