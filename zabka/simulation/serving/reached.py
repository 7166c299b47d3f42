"""How often a run came to the places where histories are joined, cut and repaired."""

from __future__ import annotations

from collections import Counter

from zabka.ensemble.server.operator.running_peer import RunningPeer
from zabka.journal.events import Entry, LearnerSynced, LogDamageFound, TxnLogTruncated
from zabka.simulation.network.addresses import peer_name

DIFF_FROM_MEMORY = "DIFF from memory"
DIFF_FROM_LOG = "DIFF from the log"
TRUNC = "TRUNC"
SNAP = "SNAP"
HELD_BACK = "learner held back"
PURGE_BEFORE_JOIN = "purge between snapshot and join"
DAMAGE = "damage found"
PLACES = (DIFF_FROM_MEMORY, DIFF_FROM_LOG, TRUNC, SNAP, HELD_BACK, PURGE_BEFORE_JOIN, DAMAGE)


class Reached:
    """Counts them, from the record and from what leaders did by the end of their processes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(PLACES, 0))
        self._purged: dict[str, None] = {}
        """Peers that have removed logs since their processes began with a snapshot."""

    def see(self, entry: Entry) -> None:
        """An event of the world."""
        event = entry.event
        if isinstance(event, LearnerSynced):
            if event.mode == SNAP:
                self.counts[SNAP] += 1
            if peer_name(event.leader_id) in self._purged:
                self.counts[PURGE_BEFORE_JOIN] += 1
        elif isinstance(event, TxnLogTruncated):
            self.counts[TRUNC] += 1
        elif isinstance(event, LogDamageFound):
            self.counts[DAMAGE] += 1

    def unlinks(self, node: str, oldest_log: bool) -> None:
        """A peer removes a file."""
        if oldest_log:
            self._purged[node] = None

    def has_purged(self, node: str) -> bool:
        """Has that peer removed logs since its process began?"""
        return node in self._purged

    def process_ended(self, node: str, running: RunningPeer) -> None:
        """A peer's process is over: what it had done as a leader."""
        self._purged.pop(node, None)
        from_log, put_off = running.peer.rare_syncs
        self.counts[DIFF_FROM_LOG] += from_log
        self.counts[HELD_BACK] += put_off
        self.counts[DIFF_FROM_MEMORY] += running.peer.syncs_sent[1]
