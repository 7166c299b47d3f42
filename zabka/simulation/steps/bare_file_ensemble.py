"""The bare protocol on real files: peers use the production storage, and damage changes bytes of the files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zabka.ensemble.ids import Epoch, LinkId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.zab.application import EnsembleConfig, TreeDiffers
from zabka.ensemble.zab.effects import Effect, Recovered
from zabka.ensemble.zab.messages import ForwardedRequest, Packet
from zabka.simulation.steps.bare_ensemble import SNAP_COUNT, TICK_MS, BareEnsemble
from zabka.simulation.steps.file_disk import DiskFailed, FileDisk
from zabka.simulation.steps.links import replaced
from zabka.simulation.steps.list_application import ListApplication
from zabka.simulation.steps.node import CoreNode

ALWAYS_FROM_THE_LOG = 1e9
"""Value of snapshotSizeFactor with which a leader always synchronises a learner from the log if the log is complete."""


class DigestedList(ListApplication):
    """A list application whose transactions contain the list's digest, so that a learner detects a difference."""

    def __init__(self) -> None:
        super().__init__()
        self._foreseen = 0

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        """Start to compute the digests for proposals, beginning with the digest of the current list."""
        super().start_leading(now, epoch)
        self._foreseen = self.digest

    def prepare(self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None) -> Txn:
        """Turn a request into a transaction that contains the list's digest after this transaction."""
        txn = super().prepare(now, request, zxid, origin)
        txn.digest = self._foreseen = self.digest_after(self._foreseen, zxid, request.body)
        return txn

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Append the transactions to the list, and report any difference between the digests."""
        effects: list[Effect] = []
        for txn in txns:
            effects += super().apply(now, [txn])
            if txn.digest != self.digest:
                effects.append(TreeDiffers())
        return effects


class FileNode(CoreNode):
    """One server that stores its data in a directory of its own.

    `begins_again` is True if a truncation found damage. The process must then restart, because its state in memory can
    include lost transactions (`PeerDriver.on_truncated`).
    """

    __slots__ = ("begins_again",)

    def __init__(self, config: EnsembleConfig, cumulative: bool) -> None:
        super().__init__(config, cumulative)
        self.begins_again = False

    def _report_recovered(self, recovered: Recovered) -> None:
        self.begins_again = self.files.met_damage
        if not self.begins_again:
            super()._report_recovered(recovered)

    def make_application(self) -> ListApplication:
        """Return an application that compares digests."""
        return DigestedList()

    def logged(self) -> list[int]:
        """Return all zxids that are on the disk or were applied by the process, including those of records with a
        flipped bit.
        """
        served = [] if self.application is None else [zxid for zxid, _ in self.application.entries]
        return sorted(dict.fromkeys(super().logged() + served))

    @property
    def files(self) -> FileDisk:
        """Return the server's disk as a FileDisk."""
        assert isinstance(self.disk, FileDisk)
        return self.disk

    def rule_broken_by(self, packet: Packet) -> str | None:
        """Return the rule that the packet breaks, or None.

        The result is always None after damage to the disk, because the rules cannot be checked then.
        """
        return None if self.files.was_damaged else super().rule_broken_by(packet)

    def receive_spoiled_snapshot(self) -> None:
        """Handle the storage's report that the newest snapshot file is unreadable."""
        self._turn(self._running.on_snapshot_spoiled)


class BareFileEnsemble(BareEnsemble):
    """All servers of one ensemble, each with a directory of its own below `place`."""

    def __init__(
        self,
        place: Path,
        voters: int = 3,
        snap_count: int = SNAP_COUNT,
        cumulative: bool = True,
        *,
        commit_log_count: int,
        keeps_journal: bool = False,
    ) -> None:
        self._place = place
        self._commit_log_count = commit_log_count
        super().__init__(voters, snap_count, cumulative, keeps_journal=keeps_journal)

    def _make_node(self, peer: int, snap_count: int, cumulative: bool) -> CoreNode:
        config = EnsembleConfig(
            peer,
            self.voters,
            tick_time_ms=TICK_MS,
            snap_count=snap_count,
            full_journal=True,
            committed_log_length=self._commit_log_count,
            snapshot_size_factor=ALWAYS_FROM_THE_LOG,
        )
        node = FileNode(config, cumulative)
        node.disk = FileDisk(self._place / str(peer), len(self.voters) - 1)
        return node

    def start(self, peer: int) -> None:
        """Start the process with the data in its files. If the process rejects the data, record a problem."""
        try:
            super().start(peer)
        except (DataDirectoryError, DiskFailed) as refused:
            self.problems.append(f"peer-{peer} does not start: {refused}")

    def crash(self, peer: int, written: int = 0) -> None:
        """Kill the process and close its storage."""
        super().crash(peer, written)
        self.files(peer).close()

    def sync_disk(self, peer: int) -> None:
        """Perform the waiting disk operations up to the next barrier or truncation.  If one fails, the process ends."""
        node = self._file_node(peer)
        try:
            super().sync_disk(peer)
        except DiskFailed as failed:
            self.problems.append(f"peer-{peer} ends: {failed}")
            self.crash(peer)
        if node.begins_again:
            node.begins_again = False
            self.crash(peer)
            self.start(peer)

    def files(self, peer: int) -> FileDisk:
        """Return the disk of that server."""
        return self._file_node(peer).files

    def _file_node(self, peer: int) -> FileNode:
        node = self.nodes[peer]
        assert isinstance(node, FileNode)
        return node

    def spoil_snapshot(self, peer: int) -> None:
        """Make that server's storage find its newest snapshot file damaged."""
        self._turn(peer, FileNode.receive_spoiled_snapshot)

    def vanish(self, peer: int) -> None:
        """Cut the server's power: other servers are not notified, and packets that it sent are lost."""
        for link in self.links:
            if peer in (link.opener, link.acceptor):
                self.links = replaced(self.links, link, link.with_queue(link.other(peer), ()).closed_at(peer))
        self.crash(peer)

    def close(self) -> None:
        """Close the storage of every server."""
        for peer in self.voters:
            self.files(peer).close()
