"""Sync as a quorum operation.

ZooKeeper answers a sync as soon as the leader has committed what it had proposed; a leader that was paused and
replaced meanwhile answers too, and the client reads the past (ZOOKEEPER-1675, 2136, 3600).  Here the leader first
makes sure that a quorum still follows it.  Where a follower passes the request on, that says that the follower did so
after the request came; if the two are a quorum, as in an ensemble of three, nothing more is needed.  Else the leader
pings, and waits until a quorum has answered a ping sent after the request came.

A client that is to be told that its session is over waits here too.  A leader that was replaced and does not know yet
may have expired the session alone, or never have heard of it; with a quorum behind it, the closing is committed too.
"""

from __future__ import annotations

from collections import deque

import msgspec

from zabka.ensemble.ids import LinkId, Zxid
from zabka.ensemble.zab.messages import Revalidate, SyncRequest


class WaitingSync(msgspec.Struct, frozen=True):
    """A sync, the learner link it came by (None: a local client), and what it waits for."""

    request: SyncRequest | Revalidate
    origin: LinkId | None
    round: int
    zxid: Zxid


class SyncRequests:
    """The syncs that wait, oldest first: both the rounds and the zxids they wait for only grow.

    Those that need no round pass the others.  A learner takes an answer for its oldest sync, and may: what holds for
    a later one holds for those before it.
    """

    __slots__ = ("_vouched", "_waiting", "round")

    def __init__(self) -> None:
        self._waiting: deque[WaitingSync] = deque()
        self._vouched: deque[WaitingSync] = deque()
        self.round = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._vouched)

    def add(self, request: SyncRequest | Revalidate, origin: LinkId | None, last_proposed: Zxid) -> None:
        """Wait for an answered round that begins after now, and for everything proposed so far."""
        self._waiting.append(WaitingSync(request, origin, self.round + 1, last_proposed))

    def add_vouched(self, request: SyncRequest | Revalidate, origin: LinkId | None, last_proposed: Zxid) -> None:
        """Wait for everything proposed so far alone: a quorum followed this leader after the request came."""
        self._vouched.append(WaitingSync(request, origin, 0, last_proposed))

    def needs_round(self, answered_round: int) -> bool:
        """Should a ping round begin now?  At most one is under way; whoever comes meanwhile shares the next."""
        return bool(self._waiting) and self._waiting[-1].round > self.round and answered_round >= self.round

    def take_done(self, answered_round: int, last_committed: Zxid) -> list[WaitingSync]:
        """Remove and return the requests whose wait is over, in order."""
        done: list[WaitingSync] = []
        for waiting in (self._vouched, self._waiting):
            while waiting and waiting[0].round <= answered_round and waiting[0].zxid <= last_committed:
                done.append(waiting.popleft())
        return done

    def forget(self, origin: LinkId) -> None:
        """Forget the requests of a learner that is gone."""
        self._waiting = deque(sync for sync in self._waiting if sync.origin != origin)
        self._vouched = deque(sync for sync in self._vouched if sync.origin != origin)
