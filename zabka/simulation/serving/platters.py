"""Checks that acknowledged writes are on the platters of a majority, read from their bytes.

The check uses neither the peers, nor their storage, nor the log reader of their recovery.  It applies only while the
membership stays as it was configured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zabka.ensemble.ids import zxid_text
from zabka.journal import events as e
from zabka.journal.events import Entry, InvariantViolated
from zabka.journal.judges.judged import Judged
from zabka.simulation.filesystem.volume import Volume
from zabka.simulation.judges.durable_bytes import DurableBytes

NAME = "what is acknowledged is on a majority's platters"
VOTES = "a vote names all that is durable"
JUDGED_EVERY = 5
"""Only every fifth write is checked, because reading disks takes time."""
TAKING_FAULTS = ("replace", "bit_rot", "disk_error", "fsync_fails")
FORGIVEN_US = 5_000_000
"""For this long after a disk was damaged or replaced, it may lack transactions that its peer has acknowledged."""


class Platters:
    """Watches a record; `volume_of` returns a voter's disk by its number."""

    def __init__(
        self,
        voters: range,
        volume_of: Callable[[int], Volume],
        judged: Judged,
        emit: Callable[[InvariantViolated], object],
    ) -> None:
        self._voters = voters
        self._volume_of = volume_of
        self._judged = judged
        self._emit = emit
        self._told = 0
        self._disks = {voter: DurableBytes() for voter in voters}
        self._damaged_us: dict[str, int] = {}

    def journalled(self, entry: Entry) -> None:
        """Handle a journal entry: check acknowledged writes, and note damaged disks."""
        event = entry.event
        if isinstance(event, e.FaultInjected):
            if event.kind in TAKING_FAULTS:
                self._damaged_us[event.target] = entry.mono_us
        elif isinstance(event, e.WriteAcknowledged):
            self._told += 1
            if self._told % JUDGED_EVERY == 0:
                self._judge(event.zxid, entry.mono_us)

    def _judge(self, zxid: int, now_us: int) -> None:
        self._judged.note(NAME)
        holders = [voter for voter in self._voters if self._holds(voter, zxid, now_us)]
        if 2 * len(holders) <= len(self._voters):
            detail = f"0x{zxid:x} was acknowledged and is on the platters of {holders} of {list(self._voters)}"
            self._emit(InvariantViolated(NAME, detail))

    def _holds(self, voter: int, zxid: int, now_us: int) -> bool:
        damaged_us = self._damaged_us.get(f"peer-{voter}")
        if damaged_us is not None and now_us - damaged_us < FORGIVEN_US:
            return True
        disk = self._disks[voter]
        disk.read(_by_name(self._volume_of(voter)))
        return disk.holds(zxid)


class Votes:
    """Checker of votes: a peer must vote with the last transaction on its own disk (ZOOKEEPER-2845).

    It does not apply where a disk is replaced or damaged.
    """

    def __init__(self, volume_of: Callable[[int], Volume], emit: Callable[[InvariantViolated], object]) -> None:
        self._volume_of = volume_of
        self._emit = emit

    def journalled(self, entry: Entry) -> None:
        """Check the vote of a peer that begins an election."""
        event = entry.event
        if isinstance(event, e.PeerStateChanged) and event.state == "LOOKING":
            peer = int(entry.node.rpartition("-")[2])
            disk = DurableBytes()
            disk.read(_by_name(self._volume_of(peer)))
            if disk.last() > event.last_zxid:
                detail = f"{entry.node} votes with {zxid_text(event.last_zxid)}, {zxid_text(disk.last())} is durable"
                self._emit(InvariantViolated(VOTES, detail))


def _by_name(volume: Volume) -> Mapping[str, bytes]:
    """Return the files of version-2 directories, by their base names."""
    return {path.rpartition("/")[2]: data for path, data in volume.platter_files() if "/version-2/" in path}
