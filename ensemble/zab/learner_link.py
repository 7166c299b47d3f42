"""State of one connected learner, on the leader's side (LearnerHandler)."""

from __future__ import annotations

from enum import IntEnum

from zabka.ensemble.ids import NO_PEER, LinkId, PeerId, Zxid
from zabka.ensemble.zab.messages import FollowerInfo


class Step(IntEnum):
    """Steps of a learner's connection, in order."""

    CONNECTED = 0
    INTRODUCED = 1
    OFFERED = 2
    PROMISED = 3
    SYNCING = 4
    ACKNOWLEDGED = 5
    SYNCED = 6


_SYNCING, _SYNCED = Step.SYNCING, Step.SYNCED


class LearnerLink:
    """One learner's connection to this leader.

    Steps: CONNECTED, INTRODUCED (FOLLOWERINFO received), OFFERED (LEADERINFO sent), PROMISED (ACKEPOCH received),
    SYNCING (NEWLEADER sent), ACKNOWLEDGED (the ack of NEWLEADER received), SYNCED (UPTODATE sent).
    """

    __slots__ = (
        "acked",
        "answered_round",
        "cumulative",
        "heard_ms",
        "heeds_acks",
        "last_zxid",
        "leader_acked",
        "link",
        "observer",
        "peer_id",
        "reading",
        "reads_on",
        "step",
        "unacked_since_ms",
        "unacked_zxid",
        "wants_snapshot",
    )

    def __init__(self, link: LinkId, now_ms: int) -> None:
        self.link = link
        self.step = Step.CONNECTED
        self.peer_id: PeerId = NO_PEER
        self.observer = False
        self.cumulative = self.heeds_acks = self.wants_snapshot = False
        self.last_zxid = Zxid(0)
        # `reading`: the zxid after which the log is being read for this learner. `reads_on`: whether earlier
        # transactions were already read, so that this read is a continuation.
        self.reading: Zxid | None = None
        self.reads_on = False
        self.heard_ms = now_ms
        self.acked = Zxid(0)
        # Zxid of the last acknowledgement by the leader itself that was sent to this learner; 0 after a COMMIT has made
        # it irrelevant.
        self.leader_acked = Zxid(0)
        self.answered_round = 0
        # One unacknowledged proposal, whose age is checked to detect a disk or link that no longer responds
        # (SyncLimitCheck).
        self.unacked_zxid: Zxid | None = None
        self.unacked_since_ms = 0

    def introduce(self, info: FollowerInfo, cumulative: bool) -> None:
        """Record the learner's identity and features from its FOLLOWERINFO.

        `cumulative`: whether this leader supports cumulative packets. A participant that is not a voter yet receives
        proposals like a voter; its acknowledgements count when it becomes a voter.
        """
        self.peer_id = info.peer_id
        self.observer = info.observer
        self.cumulative = cumulative and info.cumulative
        self.heeds_acks = cumulative and info.heeds_acks
        self.wants_snapshot = info.wants_snapshot
        self.step = Step.INTRODUCED

    @property
    def synced(self) -> bool:
        """Whether the learner has received UPTODATE, so that it accepts clients and replies to pings."""
        return self.step is _SYNCED

    @property
    def is_syncing(self) -> bool:
        """Whether the learner's synchronisation is in progress.

        In this state, the history that it lacks is being read or sent, and it has not acknowledged NEWLEADER.
        """
        return self.step is _SYNCING or self.reading is not None

    @property
    def counts_for_epoch(self) -> bool:
        """Whether the learner's ACKEPOCH and its ack of NEWLEADER count for a quorum.

        An observer of this implementation stores epochs and history like a follower, and may be a voter in a membership
        that it has not received yet: if the observer did not count, such a membership might never become active.
        """
        return not self.observer or self.cumulative

    @property
    def counts(self) -> bool:
        """Whether the learner's acknowledgements of proposals count, provided that it is a voter."""
        return self.step is _SYNCED and not self.observer

    @property
    def forwarding(self) -> bool:
        """Whether proposals and commits are sent to the learner (Leader.startForwarding)."""
        return self.step >= _SYNCING

    @property
    def takes_one_commit(self) -> bool:
        """Whether the learner accepts one COMMIT for all transactions up to its zxid."""
        return self.cumulative and not self.observer and self.step >= _SYNCING

    def too_slow(self, now_ms: int, silence_ms_max: int, unacked_ms_max: int) -> str:
        """Return why the learner should be dropped, or "" while it responds in time."""
        if now_ms - self.heard_ms > silence_ms_max:
            return "it was not heard from in time"
        if self.unacked_zxid is not None and now_ms - self.unacked_since_ms > unacked_ms_max:
            return "it does not acknowledge proposals in time"
        return ""

    def silence_deadline_ms(self, silence_ms_max: int, unacked_ms_max: int) -> int:
        """Return the time at which the learner becomes too slow if it sends nothing until then."""
        ends_ms = self.heard_ms + silence_ms_max
        if self.unacked_zxid is not None:
            ends_ms = min(ends_ms, self.unacked_since_ms + unacked_ms_max)
        return ends_ms + 1

    def note_proposed(self, zxid: Zxid, now_ms: int) -> None:
        """Record that a proposal was sent to the learner."""
        if self.unacked_zxid is None:
            self.unacked_zxid = zxid
            self.unacked_since_ms = now_ms

    def note_acked(self, zxid: Zxid, last_proposed: Zxid, now_ms: int) -> None:
        """Record that the learner has logged everything up to `zxid`."""
        self.acked = zxid
        if self.unacked_zxid is not None and zxid >= self.unacked_zxid:
            self.unacked_zxid = last_proposed if zxid < last_proposed else None
            self.unacked_since_ms = now_ms
