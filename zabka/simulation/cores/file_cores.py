"""The bare protocol over real files: what a value stands for in `disk` is here what serves, and damage is bytes."""

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
from zabka.simulation.cores.cores import SNAP_COUNT, TICK_MS, Cores
from zabka.simulation.cores.file_disk import DiskFailed, FileDisk
from zabka.simulation.cores.links import replaced
from zabka.simulation.cores.list_application import ListApplication
from zabka.simulation.cores.node import CoreNode

ALWAYS_FROM_THE_LOG = 1e9
"""A snapshotSizeFactor with which the log, where it holds what a learner lacks, is never too large to be sent."""


class DigestedList(ListApplication):
    """A list whose transactions carry the digest of the leader's list, so that a learner sees where its own differs."""

    def __init__(self) -> None:
        super().__init__()
        self._foreseen = 0

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        """What is proposed follows what is here."""
        super().start_leading(now, epoch)
        self._foreseen = self.digest

    def prepare(self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None) -> Txn:
        """Every request is an entry, with the digest that the list will have then."""
        txn = super().prepare(now, request, zxid, origin)
        txn.digest = self._foreseen = self.digest_after(self._foreseen, zxid, request.body)
        return txn

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Append the entries, and compare."""
        effects: list[Effect] = []
        for txn in txns:
            effects += super().apply(now, [txn])
            if txn.digest != self.digest:
                effects.append(TreeDiffers())
        return effects


class FileNode(CoreNode):
    """One server, on a directory of its own.  `begins_anew` is true where a truncation met damage: what it serves may
    rest on what it has not any more, so that its process has to start again (`PeerDriver.on_truncated`)."""

    __slots__ = ("begins_anew",)

    def __init__(self, config: EnsembleConfig, cumulative: bool) -> None:
        super().__init__(config, cumulative)
        self.begins_anew = False

    def _say_recovered(self, recovered: Recovered) -> None:
        self.begins_anew = self.files.met_damage
        if not self.begins_anew:
            super()._say_recovered(recovered)

    def make_application(self) -> ListApplication:
        """One that compares digests."""
        return DigestedList()

    def logged(self) -> list[int]:
        """What it holds, or held before a bit flipped: its process goes by what it remembers."""
        served = [] if self.application is None else [zxid for zxid, _ in self.application.entries]
        return sorted(dict.fromkeys(super().logged() + served))

    @property
    def files(self) -> FileDisk:
        """The disk."""
        assert isinstance(self.disk, FileDisk)
        return self.disk

    def rule_broken_by(self, packet: Packet) -> str | None:
        """What it says of its disk is true; of one from which damage took something that is not to be seen."""
        return None if self.files.was_damaged else super().rule_broken_by(packet)

    def hear_of_a_spoiled_snapshot(self) -> None:
        """The storage says that the newest snapshot's file cannot be read as it was written."""
        self._turn(self._running.on_snapshot_spoiled)


class FileCores(Cores):
    """All servers of one ensemble, each on a directory below `place`."""

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
        """Start the process on what its files hold; one that refuses them says so."""
        try:
            super().start(peer)
        except (DataDirectoryError, DiskFailed) as refused:
            self.problems.append(f"peer-{peer} does not start: {refused}")

    def crash(self, peer: int, written: int = 0) -> None:
        """Kill it; its storage goes with it."""
        super().crash(peer, written)
        self.files(peer).close()

    def sync_disk(self, peer: int) -> None:
        """Let its disk work up to the next barrier or truncation; a disk that gives up takes the process along."""
        node = self._file_node(peer)
        try:
            super().sync_disk(peer)
        except DiskFailed as failed:
            self.problems.append(f"peer-{peer} ends: {failed}")
            self.crash(peer)
        if node.begins_anew:
            node.begins_anew = False
            self.crash(peer)
            self.start(peer)

    def files(self, peer: int) -> FileDisk:
        """That server's disk."""
        return self._file_node(peer).files

    def _file_node(self, peer: int) -> FileNode:
        node = self.nodes[peer]
        assert isinstance(node, FileNode)
        return node

    def spoil_snapshot(self, peer: int) -> None:
        """That server's storage finds the newest snapshot's file spoiled."""
        self._turn(peer, FileNode.hear_of_a_spoiled_snapshot)

    def vanish(self, peer: int) -> None:
        """It loses its power: nobody who is connected to it hears of that, and what it had sent is lost."""
        for link in self.links:
            if peer in (link.opener, link.acceptor):
                self.links = replaced(self.links, link, link.with_queue(link.other(peer), ()).closed_at(peer))
        self.crash(peer)

    def close(self) -> None:
        """The curtain: no storage goes on."""
        for peer in self.voters:
            self.files(peer).close()
