"""A leader's state about one follower (Kafka's cluster/Replica.scala)."""

from __future__ import annotations

from zabka.broker_sim.ports import FetchedPartition, FetchPartition

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1


class FollowerState:
    """A follower's log end offset according to its fetches, and the last time when it was caught up.

    Times are the leader's monotonic milliseconds; `NEVER` is before all of them. The rules that update this state, and
    that decide which followers are caught up, are in `zabka.broker_sim.replication.isr_rules`.
    """

    NEVER = -(1 << 62)

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "end_offset",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "last_request",
        "response",
        "response_epoch",
        "start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.last_request: FetchPartition | None = None
        """The follower's last request entry for this partition that got a response without new data.

        `response` is the response to that entry.
        """
        self.response: FetchedPartition | None = None
        self.response_epoch = UNKNOWN_EPOCH
        """The leader epoch of `response`."""
        self.last_caught_up_ms = self.NEVER
        self.forget()

    def forget(self) -> None:
        """Reset the state to that of a follower that has not fetched from this leader yet."""
        self.broker_epoch = UNKNOWN_EPOCH
        """The broker epoch of the follower process that fetched last, if its fetches contain a broker epoch
        (KIP-903).
        """
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = 0
        self.last_fetch_ms = self.NEVER
