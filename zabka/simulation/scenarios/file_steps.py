"""Steps of a script over the bare protocol and real files: faults of disks and silent failures of machines."""

from __future__ import annotations

from zabka.simulation.scenarios.core_steps import CoreStep, CoreSteps, confer, parsed_zxid
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.steps.bare_ensemble import BareEnsemble
from zabka.simulation.steps.bare_file_ensemble import BareFileEnsemble


class FileStep(CoreStep, frozen=True):
    """One step on peers whose disks are files."""


def _on_files(cores: BareEnsemble) -> BareFileEnsemble:
    if not isinstance(cores, BareFileEnsemble):
        raise StepFailed("this script's disks are no files")
    return cores


class Confer(FileStep, frozen=True):
    """Those of these peers that look for a leader exchange election messages.

    They stop when they have a leader or nothing more to send. Other peers receive no messages.
    """

    peers: tuple[int, ...]

    def play(self, cores: BareEnsemble) -> None:
        """Exchange the messages; a peer without a leader keeps looking."""
        confer(cores, self.peers)


class Vanish(FileStep, frozen=True):
    """A machine loses its power: no connection is closed, no peer is notified, and packets that it sent are lost."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Kill it without notifying others."""
        _on_files(cores).vanish(self.peer)


class Purge(FileStep, frozen=True):
    """Autopurge on that peer: the newest snapshots and the logs that they need are kept."""

    peer: int
    retain: int = 3

    def play(self, cores: BareEnsemble) -> None:
        """Remove the files that PurgeTxnLog removes."""
        _on_files(cores).files(self.peer).purge(self.retain)


class Rot(FileStep, frozen=True):
    """One bit of a transaction's record in that peer's log flips.

    A process that has already read the record does not notice.
    """

    peer: int
    zxid: str

    def play(self, cores: BareEnsemble) -> None:
        """Flip the bit."""
        try:
            _on_files(cores).files(self.peer).flip_bit(parsed_zxid(self.zxid))
        except LookupError as nowhere:
            raise StepFailed(str(nowhere)) from None


class CutOut(FileStep, frozen=True):
    """The last record of a log file of that peer is removed without a trace: a hole in its history."""

    peer: int
    zxid: str

    def play(self, cores: BareEnsemble) -> None:
        """Remove the record."""
        try:
            _on_files(cores).files(self.peer).cut_out(parsed_zxid(self.zxid))
        except LookupError as nowhere:
            raise StepFailed(str(nowhere)) from None


class LoseNewestLog(FileStep, frozen=True):
    """The newest log file of a peer that is down is deleted, as if its disk were not mounted."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Delete the file."""
        try:
            _down(cores, self.peer).files(self.peer).lose_newest_log()
        except LookupError:
            raise StepFailed(f"{self.peer} has no log") from None


class Replace(FileStep, frozen=True):
    """A server that is down is replaced by an empty one."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Erase its disk."""
        _down(cores, self.peer).files(self.peer).erase()


class SpoilSnapshot(FileStep, frozen=True):
    """That peer's storage finds that the newest snapshot is not readable as written, and requests another."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Notify the peer."""
        if cores.nodes[self.peer].peer is None:
            raise StepFailed(f"{self.peer} is down")
        _on_files(cores).spoil_snapshot(self.peer)


def _down(cores: BareEnsemble, peer: int) -> BareFileEnsemble:
    if cores.nodes[peer].peer is not None:
        raise StepFailed(f"{peer} runs")
    return _on_files(cores)


FileSteps = CoreSteps | Confer | Vanish | Purge | Rot | CutOut | LoseNewestLog | Replace | SpoilSnapshot
