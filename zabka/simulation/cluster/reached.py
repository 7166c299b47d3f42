"""Counts how often a run reaches rare situations, such as truncated, repaired or offline histories and logs."""

from __future__ import annotations

from collections import Counter

from zabka.ensemble.server.operator.running_peer import RunningPeer
from zabka.journal import events as e
from zabka.journal.events import Entry
from zabka.simulation.cluster.node_names import peer_name

DIFF_FROM_MEMORY = "DIFF from memory"
DIFF_FROM_LOG = "DIFF from the log"
TRUNC = "TRUNC"
SNAP = "SNAP"
HELD_BACK = "learner held back"
PURGE_BEFORE_JOIN = "purge between snapshot and join"
DAMAGE = "damage found"
PLACES = (DIFF_FROM_MEMORY, DIFF_FROM_LOG, TRUNC, SNAP, HELD_BACK, PURGE_BEFORE_JOIN, DAMAGE)

TAIL_CUT = "damaged tail cut at a start"
LOST = "records lost with the power"
DIVERGED = "log cut for a new leader"
GIVEN_UP = "log directory given up"
ISR_CHANGED = "ISR changed"
ELECTED = "controller elected"
FENCED = "stale request refused"
CLUSTER_PLACES = (TAIL_CUT, LOST, DIVERGED, GIVEN_UP, ISR_CHANGED, ELECTED, FENCED)


class Reached:
    """Counts rare situations of peers, from recorded events and from the counters of leaders whose process ends."""

    watches = (e.LearnerSynced, e.TxnLogTruncated, e.LogDamageFound)
    """Types of events that `see` processes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(PLACES, 0))
        self._purged: dict[str, None] = {}
        """Peers that have deleted their oldest transaction log since their process started."""

    def see(self, entry: Entry) -> None:
        """Count the event if it shows a rare situation of a peer."""
        event = entry.event
        if isinstance(event, e.LearnerSynced):
            if event.mode == SNAP:
                self.counts[SNAP] += 1
            if peer_name(event.leader_id) in self._purged:
                self.counts[PURGE_BEFORE_JOIN] += 1
        elif isinstance(event, e.TxnLogTruncated):
            self.counts[TRUNC] += 1
        elif isinstance(event, e.LogDamageFound):
            self.counts[DAMAGE] += 1

    def unlinks(self, node: str, oldest_log: bool) -> None:
        """Record that a peer deletes a transaction log, and whether it is the peer's oldest one."""
        if oldest_log:
            self._purged[node] = None

    def has_purged(self, node: str) -> bool:
        """Return whether that peer has deleted its oldest transaction log since its process started."""
        return node in self._purged

    def process_ended(self, node: str, running: RunningPeer) -> None:
        """Add the leader's counts of rare learner synchronizations when the peer's process ends."""
        self._purged.pop(node, None)
        from_log, put_off = running.peer.rare_syncs
        self.counts[DIFF_FROM_LOG] += from_log
        self.counts[HELD_BACK] += put_off
        self.counts[DIFF_FROM_MEMORY] += running.peer.syncs_sent[1]


class ClusterReached:
    """Counts rare situations of a whole cluster, from recorded events.

    The situations are role changes, and brokers' logs that are truncated, repaired or offline.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(CLUSTER_PLACES, 0))

    def see(self, entry: Entry) -> None:
        """Count the event if it shows a rare situation of the cluster."""
        place = _place_of(entry)
        if place is not None:
            self.counts[place] += 1


def _place_of(entry: Entry) -> str | None:
    event = entry.event
    if isinstance(event, e.LogDamageFound):
        if entry.node.startswith("peer-"):
            return None
        return GIVEN_UP if event.action == "taken offline" else TAIL_CUT
    if isinstance(event, e.RecordsLost):
        return LOST if event.cause == "missing_at_start" else None
    return _BY_TYPE.get(type(event))


_BY_TYPE: dict[type[e.Event], str] = {
    e.LogTruncated: DIVERGED,
    e.IsrChanged: ISR_CHANGED,
    e.ControllerElected: ELECTED,
    e.RequestFenced: FENCED,
}
