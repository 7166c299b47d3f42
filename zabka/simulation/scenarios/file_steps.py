"""Steps of a script that runs only the peers' protocol code, on real files.

They are disk faults, and power losses that no peer is notified of.
"""

from __future__ import annotations

from zabka.simulation.scenarios.core_steps import CoreStep, CoreSteps, confer, parsed_zxid
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.steps.bare_ensemble import BareEnsemble
from zabka.simulation.steps.bare_file_ensemble import BareFileEnsemble


class FileStep(CoreStep, frozen=True):
    """A step that requires peers with real files as disks."""


def _on_files(cores: BareEnsemble) -> BareFileEnsemble:
    if not isinstance(cores, BareFileEnsemble):
        raise StepFailed("this script's disks are no files")
    return cores


class Confer(FileStep, frozen=True):
    """Exchange election messages among the peers of this list that are LOOKING.

    The exchange ends when they have a leader, or have nothing more to send. Other peers receive no messages.
    """

    peers: tuple[int, ...]

    def play(self, cores: BareEnsemble) -> None:
        """Exchange the election messages; a peer that finds no leader remains LOOKING."""
        confer(cores, self.peers)


class Vanish(FileStep, frozen=True):
    """Cut a machine's power: no connection is closed, no peer is notified, and packets that it sent are lost."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Kill the peer without notifying other peers."""
        _on_files(cores).vanish(self.peer)


class Purge(FileStep, frozen=True):
    """Run autopurge on that peer: delete all but the newest snapshots and the logs that these need."""

    peer: int
    retain: int = 3

    def play(self, cores: BareEnsemble) -> None:
        """Delete the files that PurgeTxnLog would delete."""
        _on_files(cores).files(self.peer).purge(self.retain)


class Rot(FileStep, frozen=True):
    """Flip one bit of a transaction's record in that peer's log.

    A process that has already read the record does not notice the flipped bit.
    """

    peer: int
    zxid: str

    def play(self, cores: BareEnsemble) -> None:
        """Flip the bit in the log file."""
        try:
            _on_files(cores).files(self.peer).flip_bit(parsed_zxid(self.zxid))
        except LookupError as nowhere:
            raise StepFailed(str(nowhere)) from None


class CutOut(FileStep, frozen=True):
    """Remove the last record of one of a peer's log files.

    The peer cannot detect the gap that this leaves in its history.
    """

    peer: int
    zxid: str

    def play(self, cores: BareEnsemble) -> None:
        """Remove the record from the log file."""
        try:
            _on_files(cores).files(self.peer).cut_out(parsed_zxid(self.zxid))
        except LookupError as nowhere:
            raise StepFailed(str(nowhere)) from None


class LoseNewestLog(FileStep, frozen=True):
    """Delete the newest log file of a peer that is down, as if the disk with this file were not mounted."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Delete the log file."""
        try:
            _down(cores, self.peer).files(self.peer).lose_newest_log()
        except LookupError:
            raise StepFailed(f"{self.peer} has no log") from None


class Replace(FileStep, frozen=True):
    """Replace a server that is down with an empty one."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Erase the server's disk."""
        _down(cores, self.peer).files(self.peer).erase()


class SpoilSnapshot(FileStep, frozen=True):
    """Make that peer's storage report an unreadable newest snapshot, so that it requests another snapshot."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Report the unreadable snapshot to the peer."""
        if cores.nodes[self.peer].peer is None:
            raise StepFailed(f"{self.peer} is down")
        _on_files(cores).spoil_snapshot(self.peer)


def _down(cores: BareEnsemble, peer: int) -> BareFileEnsemble:
    if cores.nodes[peer].peer is not None:
        raise StepFailed(f"{peer} runs")
    return _on_files(cores)


FileSteps = CoreSteps | Confer | Vanish | Purge | Rot | CutOut | LoseNewestLog | Replace | SpoilSnapshot
