"""A leader's view of one connected learner (LearnerHandler's state)."""

from __future__ import annotations

from enum import IntEnum

from ensemble.ids import NO_PEER, LinkId, PeerId, Zxid


class Step(IntEnum):
    """How far a learner's connection has come, in order."""

    CONNECTED = 0
    INTRODUCED = 1
    OFFERED = 2
    PROMISED = 3
    SYNCING = 4
    ACKNOWLEDGED = 5
    SYNCED = 6


class LearnerLink:
    """One learner's connection: CONNECTED, INTRODUCED (FOLLOWERINFO came), OFFERED (LEADERINFO sent), PROMISED
    (ACKEPOCH came), SYNCING (NEWLEADER sent), ACKNOWLEDGED (NEWLEADER's ack came), SYNCED (UPTODATE sent)."""

    __slots__ = (
        "acked",
        "answered_round",
        "cumulative",
        "heard_ms",
        "last_zxid",
        "link",
        "observer",
        "peer_id",
        "step",
        "unacked_since_ms",
        "unacked_zxid",
    )

    def __init__(self, link: LinkId, now_ms: int) -> None:
        self.link = link
        self.step = Step.CONNECTED
        self.peer_id: PeerId = NO_PEER
        self.observer = False
        self.cumulative = False
        self.last_zxid = Zxid(0)
        self.heard_ms = now_ms
        self.acked = Zxid(0)
        self.answered_round = 0
        # One sampled proposal that is not acknowledged yet, to see a disk or a link that has stopped (SyncLimitCheck).
        self.unacked_zxid: Zxid | None = None
        self.unacked_since_ms = 0

    @property
    def synced(self) -> bool:
        """Does it serve clients and answer pings?"""
        return self.step is Step.SYNCED

    @property
    def forwarding(self) -> bool:
        """Does it receive proposals and commits?  From its synchronisation on (Leader.startForwarding)."""
        return self.step >= Step.SYNCING

    def note_proposed(self, zxid: Zxid, now_ms: int) -> None:
        """A proposal is on its way to it."""
        if self.unacked_zxid is None:
            self.unacked_zxid = zxid
            self.unacked_since_ms = now_ms

    def note_acked(self, zxid: Zxid, last_proposed: Zxid, now_ms: int) -> None:
        """It logged everything up to `zxid`."""
        self.acked = zxid
        if self.unacked_zxid is not None and zxid >= self.unacked_zxid:
            self.unacked_zxid = last_proposed if zxid < last_proposed else None
            self.unacked_since_ms = now_ms
