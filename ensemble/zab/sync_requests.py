"""Sync as a quorum operation: a leader replies only after a quorum has confirmed that it still follows the leader.

ZooKeeper replies to a sync when the leader has committed everything that it had proposed. A leader that was paused, and
replaced during the pause, replies too, and the client reads old data (ZOOKEEPER-1675, 2136, 3600). This leader first
verifies that a quorum still follows it. A request forwarded by a follower proves that the follower still followed this
leader after the request arrived; if the two are a quorum, as in an ensemble of three, nothing more is needed. Otherwise
the leader pings, and waits until a quorum has replied to a ping sent after the request arrived.

The reply that a session has expired waits in the same way. A leader that was replaced and does not know it yet may have
expired the session alone, or may not know the session. When a quorum has confirmed the leader, the close of the session
is committed too.
"""

from __future__ import annotations

from collections import deque

import msgspec

from zabka.ensemble.ids import LinkId, Zxid
from zabka.ensemble.zab.messages import Revalidate, SyncRequest


class WaitingSync(msgspec.Struct, frozen=True):
    """A sync request, the link of the learner that sent it (None for a local client), and what it waits for.

    The request waits for a quorum's replies to a ping round, and for the commit of a zxid.
    """

    request: SyncRequest | Revalidate
    origin: LinkId | None
    round: int
    zxid: Zxid


class SyncRequests:
    """Sync requests that wait, oldest first. The ping rounds and zxids that they wait for never decrease.

    Requests that need no ping round overtake the others. A learner applies each reply to its oldest sync. This is safe,
    because the conditions of a later sync include the conditions of the earlier ones.
    """

    __slots__ = ("_confirmed", "_waiting", "round")

    def __init__(self) -> None:
        self._waiting: deque[WaitingSync] = deque()
        self._confirmed: deque[WaitingSync] = deque()
        self.round = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._confirmed)

    def add(self, request: SyncRequest | Revalidate, origin: LinkId | None, last_proposed: Zxid) -> None:
        """Add a request that waits for the next ping round and for the commit of everything proposed so far."""
        self._waiting.append(WaitingSync(request, origin, self.round + 1, last_proposed))

    def add_confirmed(self, request: SyncRequest | Revalidate, origin: LinkId | None, last_proposed: Zxid) -> None:
        """Add a request that waits only for the commit of everything proposed so far.

        The request itself shows that a quorum follows this leader.
        """
        self._confirmed.append(WaitingSync(request, origin, 0, last_proposed))

    def needs_round(self, answered_round: int) -> bool:
        """Return whether a ping round should begin now.

        At most one round is in progress; requests that arrive during a round share the next round.
        """
        return bool(self._waiting) and self._waiting[-1].round > self.round and answered_round >= self.round

    def take_done(self, answered_round: int, last_committed: Zxid) -> list[WaitingSync]:
        """Remove and return, in order, the requests whose conditions are fulfilled."""
        done: list[WaitingSync] = []
        for waiting in (self._confirmed, self._waiting):
            while waiting and waiting[0].round <= answered_round and waiting[0].zxid <= last_committed:
                done.append(waiting.popleft())
        return done

    def forget(self, origin: LinkId) -> None:
        """Remove the requests of a learner that disconnected."""
        self._waiting = deque(sync for sync in self._waiting if sync.origin != origin)
        self._confirmed = deque(sync for sync in self._confirmed if sync.origin != origin)
