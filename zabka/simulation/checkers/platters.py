"""Checks that data that peers report as durable is on their platters (the durable bytes of a simulated disk).

The checks use none of the peers' own code: neither their storage nor the log reader of their recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath

from zabka.ensemble.ids import zxid_text
from zabka.journal import events as e
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import Entry, InvariantViolated
from zabka.simulation.checkers.durable_bytes import DurableBytes
from zabka.simulation.filesystem.volume import Volume
from zabka.simulation.record import Record

NAME = "what is acknowledged is on a majority's platters"
VOTES = "a vote names all that is durable"
COMMITS = "a quorum's disks hold what is committed"
DURABLE = "acknowledgement rules"
SNAPSHOTS = "snapshots hold committed transactions"
SAME_HISTORY = "processConsistency"
HISTORY = PurePath("/data/version-2")
CURRENT_EPOCH = "currentEpoch"
EPOCH_FILES = {e.EpochAccepted: "acceptedEpoch", e.EpochAdopted: CURRENT_EPOCH}
ROT = "bit_rot"
TAKING_FAULTS = ("replace",)
FORGIVEN_US = 5_000_000
"""Time after a disk was damaged or replaced during which it may lack transactions that its peer has acknowledged.

A peer finds a flipped bit only when it reads the file, which is at its next start.
"""


class PeerDisks:
    """The platters of all peers, and the peers whose platters were damaged.

    `volume_of` returns the disk of a peer by the peer's number.
    """

    watches = (e.FaultInjected, e.NodeStarted)
    """Types of events that `journalled` processes."""

    def __init__(self, volume_of: Callable[[int], Volume]) -> None:
        self._volume_of = volume_of
        self._read: dict[int, DurableBytes] = {}
        self._read_at: dict[int, tuple[Volume, int]] = {}
        """The disk that was read last, and its number of platter changes then."""
        self._damaged_us: dict[int, int] = {}
        self._rotten: dict[int, None] = {}
        """Peers with a bit on their disk that was flipped after their last start."""
        self.ever_damaged: dict[int, None] = {}
        """Peers whose disk was damaged at any time, so that their older log files may still have gaps."""

    def journalled(self, entry: Entry) -> None:
        """Record which disks are damaged."""
        event = entry.event
        if isinstance(event, e.FaultInjected):
            peer = peer_of(event.target)
            if peer and event.kind == ROT:
                self._rotten[peer] = self.ever_damaged[peer] = None
            elif peer and event.kind in TAKING_FAULTS:
                self._damaged_us[peer] = entry.mono_us
                self.ever_damaged[peer] = None
        elif isinstance(event, e.NodeStarted):
            peer = peer_of(entry.node)
            if peer in self._rotten:
                del self._rotten[peer]
                self._damaged_us[peer] = entry.mono_us

    def is_damaged(self, peer: int, now_us: int) -> bool:
        """Return whether the peer's disk may lack transactions that the peer has acknowledged."""
        damaged_us = self._damaged_us.get(peer)
        return peer in self._rotten or (damaged_us is not None and now_us - damaged_us < FORGIVEN_US)

    def read(self, peer: int) -> DurableBytes:
        """Return the transactions that are on a peer's platter now."""
        disk = self._read.setdefault(peer, DurableBytes())
        volume = self._volume_of(peer)
        at = volume, volume.platter_changes
        if self._read_at.get(peer) != at:
            self._read_at[peer] = at
            disk.read(volume.platter_directory(HISTORY))
        return disk

    def epoch(self, peer: int, file: str) -> int:
        """Return the epoch in an epoch file on a peer's platter, or -1 if there is no such file."""
        text = self._by_name(peer).get(file, b"").strip()
        return int(text) if text.isdigit() else -1

    def _by_name(self, peer: int) -> Mapping[str, bytes]:
        """Return the files of the peer's data directory on its platter, by name."""
        return self._volume_of(peer).platter_directory(HISTORY)


def peer_of(node: str) -> int:
    """Return the number in a peer's node name; 0 for any other node."""
    kind, _, number = node.partition("-")
    return int(number) if kind == "peer" else 0


class Platters:
    """Checks that acknowledged and committed transactions are on the platters of a majority of peers.

    The check is made only while the ensemble has its configured membership.
    """

    watches = (e.WriteAcknowledged, e.TxnCommitted)
    """Types of events that `journalled` processes."""

    def __init__(
        self, voters: range, disks: PeerDisks, checked: CheckCounts, emit: Callable[[InvariantViolated], object]
    ) -> None:
        self._voters = voters
        self._disks = disks
        self._checked = checked
        self._emit = emit
        self._last_committed = 0

    def journalled(self, entry: Entry) -> None:
        """Check a write when it is acknowledged, and a transaction when the first peer applies it."""
        event = entry.event
        if isinstance(event, e.WriteAcknowledged):
            self._check(NAME, "was acknowledged and is on the platters of", event.zxid, entry.mono_us)
        elif isinstance(event, e.TxnCommitted) and event.zxid > self._last_committed:
            self._last_committed = event.zxid
            self._check(COMMITS, "committed and durable only on", event.zxid, entry.mono_us)

    def _check(self, invariant: str, fault: str, zxid: int, now_us: int) -> None:
        self._checked.note(invariant)
        holders = [voter for voter in self._voters if self._holds(voter, zxid, now_us)]
        if 2 * len(holders) <= len(self._voters):
            detail = f"{zxid_text(zxid)} {fault} {holders} of {list(self._voters)}"
            self._emit(InvariantViolated(invariant, detail))

    def _holds(self, voter: int, zxid: int, now_us: int) -> bool:
        return self._disks.is_damaged(voter, now_us) or self._disks.read(voter).holds(zxid)


class DurableReports:
    """Checks what individual peers report: durable transactions and epochs, snapshots, synchronised histories."""

    watches = (
        e.TxnLogged, e.EpochAccepted, e.EpochAdopted, e.HistoryReplaced, e.SnapshotTaken, e.LearnerSynced,
    )  # fmt: skip
    """Types of events that `journalled` processes."""

    def __init__(self, disks: PeerDisks, record: Record, emit: Callable[[InvariantViolated], object]) -> None:
        self._disks = disks
        self._record = record
        self._emit = emit
        self._replaced: dict[int, int] = {}
        """For each peer, the last zxid in the snapshot that it received from its leader."""

    def journalled(self, entry: Entry) -> None:
        """Check one event of a peer."""
        event, peer = entry.event, peer_of(entry.node)
        if isinstance(event, e.TxnLogged):
            if not self._disks.is_damaged(peer, entry.mono_us):
                holds = self._disks.read(peer).holds(event.zxid)
                self._note(DURABLE, "" if holds else f"{zxid_text(event.zxid)} acknowledged and not durable")
        elif isinstance(event, e.EpochAccepted):
            self._check_epoch(entry, event.accepted_epoch)
        elif isinstance(event, e.EpochAdopted):
            self._check_epoch(entry, event.current_epoch)
        elif isinstance(event, e.HistoryReplaced):
            self._replaced[peer] = event.zxid
        elif isinstance(event, e.SnapshotTaken) and event.zxid != self._replaced.get(peer):
            # Do not check a snapshot that a leader sent to replace the peer's history, because it can include
            # transactions that are not committed yet.
            committed = self._record.last_committed
            fault = f"a snapshot of {zxid_text(event.zxid)}, committed is {zxid_text(committed)}"
            self._note(SNAPSHOTS, fault if event.zxid > committed else "")
        elif isinstance(event, e.LearnerSynced):
            if not self._disks.is_damaged(peer, entry.mono_us):
                current = self._disks.epoch(peer, CURRENT_EPOCH)
                fault = f"NEWLEADER acknowledged in epoch {event.epoch}, on disk is {current}"
                self._note(DURABLE, fault if current != event.epoch else "")
            self._check_history(peer, event)

    def _check_epoch(self, entry: Entry, epoch: int) -> None:
        peer, file = peer_of(entry.node), EPOCH_FILES[type(entry.event)]
        if not self._disks.is_damaged(peer, entry.mono_us):
            found = self._disks.epoch(peer, file)
            self._note(DURABLE, "" if found == epoch else f"epoch {epoch} reported, {file} on disk is {found}")

    def _check_history(self, learner: int, event: e.LearnerSynced) -> None:
        if not any(peer in self._disks.ever_damaged for peer in (learner, event.leader_id)):
            mine, theirs = self._disks.read(learner).history(), self._disks.read(event.leader_id).history()
            fault = f"its history is not peer-{event.leader_id}'s in epoch {event.epoch}"
            self._note(SAME_HISTORY, "" if is_part(mine, theirs) else fault)

    def _note(self, invariant: str, fault: str) -> None:
        self._record.checked.note(invariant)
        if fault:
            self._emit(InvariantViolated(invariant, fault))


def is_part(learner: list[int], leader: list[int]) -> bool:
    """Return whether the learner's log, from the leader's first entry on, is a contiguous part of the leader's log."""
    mine = [zxid for zxid in learner if leader and zxid >= leader[0]]
    return not mine or mine == [zxid for zxid in leader if mine[0] <= zxid <= mine[-1]]


class Votes:
    """Checks that a peer votes with the last transaction on its own disk (ZOOKEEPER-2845).

    A peer with a replaced or damaged disk is not checked.
    """

    def __init__(self, disks: PeerDisks, emit: Callable[[InvariantViolated], object]) -> None:
        self._disks = disks
        self._emit = emit

    def journalled(self, entry: Entry) -> None:
        """Check the vote of a peer that starts an election."""
        event = entry.event
        if isinstance(event, e.PeerStateChanged) and event.state == "LOOKING":
            last = self._disks.read(peer_of(entry.node)).last()
            if last > event.last_zxid:
                detail = f"{entry.node} votes with {zxid_text(event.last_zxid)}, {zxid_text(last)} is durable"
                self._emit(InvariantViolated(VOTES, detail))
