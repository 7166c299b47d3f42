"""A machine that runs a server of the cluster, with a supervisor that restarts it when it exits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zabka.ensemble.request_fault import HeldRequestFault
from zabka.ensemble.request_fault_uses import Counts
from zabka.ensemble.runtime.files import Files
from zabka.ensemble.runtime.link_fault import AnyFault, HeldFault
from zabka.ensemble.runtime.links import FaultTable
from zabka.ensemble.txnlog.files import replace_file
from zabka.journal.cause import UNKNOWN, Cause
from zabka.journal.events import Event, TopicPartition
from zabka.simulation.engine.loop import ProcessLoop
from zabka.simulation.engine.machine import Ground, Machine, Main, SimProcess
from zabka.simulation.record import Record

RESTART_US = 500_000
"""Delay until the supervisor restarts a server that has exited, as the host agent does."""


def write_durably(path: Path, text: str, files: Files) -> None:
    """Write a file so that it survives a power loss."""
    replace_file(path, text.encode(), path.name + ".tmp", files)


class RecordJournal:
    """Journal of a simulated process.  It writes events to the world's record."""

    def __init__(self, record: Record, node: str, loop: ProcessLoop) -> None:
        self._record = record
        self._node = node
        self._loop = loop

    def write(self, event: Event) -> Cause:
        """Write an event to the record immediately: a buffered event would be lost when the process is killed."""
        if self._loop.killed:
            return UNKNOWN
        record = self._record
        for stop in list(record.stops):
            stop(self._node, event, True)
        cause = record.write(self._node, self._loop.wall_ns() // 1_000_000, event)
        for stop in list(record.stops):
            stop(self._node, event, False)
        return cause

    def flush(self) -> None:
        """Do nothing, because there is no buffer."""

    def high_watermarks_reached(self) -> dict[TopicPartition, int]:
        """Return the highest high watermark of each of this node's replicas, according to the record."""
        return self._record.high_watermarks_reached(self._node)


class ProcessLog:
    """Logger of a simulated process.  It reports errors to the world and ignores all other messages."""

    def __init__(self, on_error: Callable[[str, Mapping[str, object]], object]) -> None:
        self._on_error = on_error

    def info(self, *_: object, **__: object) -> None:
        """Ignore an informational message."""

    def warning(self, *_: object, **__: object) -> None:
        """Ignore a warning: warnings are about other nodes or the machine, not about bugs of this process."""

    def error(self, said: str, **facts: object) -> None:
        """Report an error to the world. Unlike a warning, an error can be caused by a bug in this process."""
        self._on_error(said, facts)


class ServerMachine(Machine):
    """A computer that runs a server.

    The server is allowed to end with one of `troubles` at any time, with an OSError if its disk has failed, and without
    an error after SIGTERM.  If it ends in any other way, the run fails.
    """

    def __init__(
        self, ground: Ground, record: Record, name: str, address: str, main: Main, *,
        skew_ms: int, troubles: tuple[type[BaseException], ...],
    ) -> None:  # fmt: skip
        super().__init__(ground, name, address, main, on_exit=self._ended, skew_us=skew_ms * 1000)
        self.record = record
        self.gave_up = 0
        """Number of times that the process exited by itself, without being killed."""
        self.told_to_stop = 0
        """Number of SIGTERM signals that the current or last process received."""
        self.is_wanted = False
        """Whether the supervisor restarts the process when it ends."""
        self.faults = FaultTable(node=name)
        """Faults that the server itself applies: request faults, and link faults outside the simulated network."""
        self.on_trouble: Callable[[BaseException], None] = _nobody_hears
        """Called with the error if a process ends with an error."""
        self._troubles = troubles
        self._restart_due = False
        self._started_on = self.volume, 0
        """Disk on which the process was started, and the number of injected faults on that disk until then."""

    def start(self) -> None:
        """Switch the machine on, and run the program unless it is already running."""
        if self.process is None:
            self._started_on, self.told_to_stop = (self.volume, self.volume.faults_met), 0
        super().start()

    @property
    def disk_failed(self) -> bool:
        """Whether an injected disk fault has hit the current or last process."""
        volume, before = self._started_on
        return volume.faults_met > before

    def log_of(self, process: SimProcess) -> Any:
        """Return the logger of a process on this machine.

        A logged error fails the run, unless a disk fault explains the error.
        """

        def error(said: str, facts: Mapping[str, object]) -> None:
            cause = str(facts.get("failure", ""))
            if not process.loop.killed and not (cause.startswith("OSError: ") and self.disk_failed):
                self.ground.failures.append(f"{self.name}: {said}: {dict(facts)}")

        return ProcessLog(error)

    def switch_on(self) -> None:
        """Run the server, and restart it whenever it exits."""
        self.is_wanted = True
        self.start()

    def terminate(self) -> None:
        """Send SIGTERM to the process.  The supervisor restarts it after its exit."""
        if self.process is not None:
            self.told_to_stop += 1
            self.process.loop.terminate()

    def stop(self) -> None:
        """Send SIGTERM to the process.  It is not restarted."""
        self.is_wanted = False
        self.terminate()

    def kill(self) -> None:
        """Send SIGKILL to the process.  It is not restarted."""
        self.is_wanted = False
        self.note_end()
        super().kill()

    def lose_power(self) -> None:
        """Cut the machine's power. The supervisor does not restart the machine."""
        self.is_wanted = False
        self.note_end()
        super().lose_power()

    def hold_faults(self, faults: Sequence[AnyFault], names: dict[str, str]) -> None:
        """Replace the machine's faults by these. The current process and all later processes apply only the new faults.

        `names` maps each "host:port" to a node name.
        """
        links = [each for each in faults if isinstance(each, HeldFault)]
        requests = [each for each in faults if isinstance(each, HeldRequestFault)]
        self.faults = FaultTable(links, self.name, names, requests)
        if self.process is not None:
            self.process.loop.call_soon(self.apply_faults)

    def apply_faults(self) -> None:
        """Pass the machine's current faults to the running server."""

    def fault_counts(self) -> Counts:
        """Return (requests that matched, requests to which the fault was applied) in this process, by fault id."""
        return {}

    def note_end(self) -> None:
        """Hook for subclasses, called shortly before or after the process ends."""

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Handle the exit of the process: fail the run if the exit is not allowed, and schedule a restart."""
        self.note_end()
        failure = None if task.cancelled() else task.exception()
        if not self._may_end_with(failure):
            self.ground.failures.append(f"{self.name}: {failure!r}")
        self.gave_up += 1
        if failure is not None:
            self.on_trouble(failure)
        self.start_again_soon()

    def _may_end_with(self, failure: BaseException | None) -> bool:
        """Return whether the process is allowed to end in this way, because of SIGTERM or injected faults."""
        if failure is None:
            return self.told_to_stop > 0
        return isinstance(failure, self._troubles) or (isinstance(failure, OSError) and self.disk_failed)

    def start_again_soon(self) -> None:
        """Restart the server after a delay, as its supervisor does."""
        if not self._restart_due:
            self._restart_due = True
            self.ground.scheduler.after(RESTART_US, self._start_again)

    def _start_again(self) -> None:
        self._restart_due = False
        if self.is_wanted and self.process is None:
            self.start()


def _nobody_hears(_: BaseException) -> None:
    return
