"""A leader's view of one connected learner (LearnerHandler's state)."""

from __future__ import annotations

from enum import IntEnum

from zabka.ensemble.ids import NO_PEER, LinkId, PeerId, Zxid
from zabka.ensemble.zab.messages import FollowerInfo


class Step(IntEnum):
    """How far a learner's connection has come, in order."""

    CONNECTED = 0
    INTRODUCED = 1
    OFFERED = 2
    PROMISED = 3
    SYNCING = 4
    ACKNOWLEDGED = 5
    SYNCED = 6


_SYNCING, _SYNCED = Step.SYNCING, Step.SYNCED


class LearnerLink:
    """One learner's connection: CONNECTED, INTRODUCED (FOLLOWERINFO came), OFFERED (LEADERINFO sent), PROMISED
    (ACKEPOCH came), SYNCING (NEWLEADER sent), ACKNOWLEDGED (NEWLEADER's ack came), SYNCED (UPTODATE sent)."""

    __slots__ = (
        "acked",
        "answered_round",
        "cumulative",
        "heard_ms",
        "heeds_acks",
        "last_zxid",
        "link",
        "observer",
        "peer_id",
        "reading",
        "reads_on",
        "step",
        "told",
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
        # Behind which transaction the log is being read for it, and whether it has got anything from there.
        self.reading: Zxid | None = None
        self.reads_on = False
        self.heard_ms = now_ms
        self.acked = Zxid(0)
        # Up to where it was told that the leader's own log is durable; 0 once a COMMIT has made up for that.
        self.told = Zxid(0)
        self.answered_round = 0
        # One sampled proposal that is not acknowledged yet, to see a disk or a link that has stopped (SyncLimitCheck).
        self.unacked_zxid: Zxid | None = None
        self.unacked_since_ms = 0

    def introduce(self, info: FollowerInfo, cumulative: bool) -> None:
        """It has said who it is, and what it can; `cumulative`: whether this side can, too.  A participant that is
        no voter (yet) gets proposals like one; its acknowledgements count when it is."""
        self.peer_id = info.peer_id
        self.observer = info.observer
        self.cumulative = cumulative and info.cumulative
        self.heeds_acks = cumulative and info.heeds_acks
        self.wants_snapshot = info.wants_snapshot
        self.step = Step.INTRODUCED

    @property
    def synced(self) -> bool:
        """Does it serve clients and answer pings?"""
        return self.step is _SYNCED

    @property
    def is_syncing(self) -> bool:
        """Is its history on its way, or being read for it, and not acknowledged yet?"""
        return self.step is _SYNCING or self.reading is not None

    @property
    def promises(self) -> bool:
        """May its promise and its history make an epoch?  An observer of ours keeps both like a follower, and may be a
        voter of a membership that it has not seen yet: without it such a one might never come into force."""
        return not self.observer or self.cumulative

    @property
    def counts(self) -> bool:
        """Would its acknowledgement of a proposal count, if it is a voter?"""
        return self.step is _SYNCED and not self.observer

    @property
    def forwarding(self) -> bool:
        """Does it receive proposals and commits?  From its synchronisation on (Leader.startForwarding)."""
        return self.step >= _SYNCING

    @property
    def takes_one_commit(self) -> bool:
        """Does one COMMIT stand for all up to its zxid there?"""
        return self.cumulative and not self.observer and self.step >= _SYNCING

    def too_slow(self, now_ms: int, silence_ms_max: int, unacked_ms_max: int) -> str:
        """Why not to wait for it any longer; empty while it keeps up."""
        if now_ms - self.heard_ms > silence_ms_max:
            return "it was not heard from in time"
        if self.unacked_zxid is not None and now_ms - self.unacked_since_ms > unacked_ms_max:
            return "it does not acknowledge proposals in time"
        return ""

    def patience_ends_ms(self, silence_ms_max: int, unacked_ms_max: int) -> int:
        """When it will be too slow, where nothing comes from it until then."""
        ends_ms = self.heard_ms + silence_ms_max
        if self.unacked_zxid is not None:
            ends_ms = min(ends_ms, self.unacked_since_ms + unacked_ms_max)
        return ends_ms + 1

    def note_proposed(self, zxid: Zxid, now_ms: int) -> None:
        """A proposal is on its way to it."""
        if self.unacked_zxid is None:
            self.unacked_zxid = zxid
            self.unacked_since_ms = now_ms

    def note_acked(self, zxid: Zxid, last_proposed: Zxid, now_ms: int) -> None:
        """The learner has logged everything up to `zxid`."""
        self.acked = zxid
        if self.unacked_zxid is not None and zxid >= self.unacked_zxid:
            self.unacked_zxid = last_proposed if zxid < last_proposed else None
            self.unacked_since_ms = now_ms
