"""A machine on which a server of the cluster runs, and what starts it again when it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zabka.ensemble.ports import Instant
from zabka.ensemble.runtime.files import Files
from zabka.ensemble.txnlog.files import replace_file
from zabka.journal.cause import UNKNOWN, Cause
from zabka.journal.events import Event, TopicPartition
from zabka.simulation.processes.loop import ProcessLoop
from zabka.simulation.processes.machine import Ground, Machine, Main, SimProcess
from zabka.simulation.record import Record

RESTART_US = 500_000
"""How soon a supervisor starts a server again that has given up, as the host agent does."""


def write_durably(path: Path, text: str, files: Files) -> None:
    """Put a file where it survives a power loss."""
    replace_file(path, text.encode(), path.name + ".tmp", files)


class RecordJournal:
    """A process's journal, which is the world's record."""

    def __init__(self, record: Record, node: str, loop: ProcessLoop) -> None:
        self._record = record
        self._node = node
        self._loop = loop

    def write(self, event: Event) -> Cause:
        """Others see it at once: what a buffer would lose with its process has happened all the same."""
        if self._loop.killed:
            return UNKNOWN
        now = Instant(self._loop.mono_ns() // 1_000_000, self._loop.wall_ns() // 1_000_000)
        return self._record.write(self._node, now, event)

    def flush(self) -> None:
        """Nothing waits."""

    def high_watermarks_reached(self) -> dict[TopicPartition, int]:
        """Return the high watermarks that the record shows the node's replicas to have reached."""
        return self._record.high_watermarks_reached(self._node)


class ProcessLog:
    """A process's log for people, who are not there; but what it calls an error is somebody's to judge."""

    def __init__(self, on_error: Callable[[str, Mapping[str, object]], object]) -> None:
        self._on_error = on_error

    def info(self, *_: object, **__: object) -> None:
        """What happens."""

    def warning(self, *_: object, **__: object) -> None:
        """What others, or the machine, do wrong."""

    def error(self, said: str, **facts: object) -> None:
        """What we do wrong."""
        self._on_error(said, facts)


class ServerMachine(Machine):
    """A computer with a server on it.

    `troubles` is what its program may end with at any time, an OSError where its disk has failed, and with nothing at
    all where it was told to; everything else is a failure of ours.
    """

    def __init__(
        self, ground: Ground, record: Record, name: str, address: str, main: Main, *,
        skew_ms: int, troubles: tuple[type[BaseException], ...],
    ) -> None:  # fmt: skip
        super().__init__(ground, name, address, main, on_exit=self._ended, skew_us=skew_ms * 1000)
        self.record = record
        self.gave_up = 0
        """How often the process ended without being told to."""
        self.told_to_stop = 0
        """How often the present process, or the last one, was told to."""
        self.is_wanted = False
        """Is a process that ends to be started again?"""
        self.on_trouble: Callable[[BaseException], None] = _nobody_hears
        """Hears of what made a process give up."""
        self._troubles = troubles
        self._restart_due = False
        self._started_on = self.volume, 0
        """The disk that the process found, and how many faults of it had been met by then."""

    def start(self) -> None:
        """Switch it on, if it is off, and run the program, unless it runs."""
        if self.process is None:
            self._started_on, self.told_to_stop = (self.volume, self.volume.faults_met), 0
        super().start()

    @property
    def disk_failed(self) -> bool:
        """Has the disk failed the present process, or the last one, as it was ordered to?"""
        volume, before = self._started_on
        return volume.faults_met > before

    def log_of(self, process: SimProcess) -> Any:
        """The log of a process on it."""

        def error(said: str, facts: Mapping[str, object]) -> None:
            cause = str(facts.get("failure", ""))
            if not process.loop.killed and not (cause.startswith("OSError: ") and self.disk_failed):
                self.ground.failures.append(f"{self.name}: {said}: {dict(facts)}")

        return ProcessLog(error)

    def switch_on(self) -> None:
        """Run the server, and again whenever it ends by itself."""
        self.is_wanted = True
        self.start()

    def terminate(self) -> None:
        """SIGTERM; its supervisor starts it again."""
        if self.process is not None:
            self.told_to_stop += 1
            self.process.loop.terminate()

    def stop(self) -> None:
        """SIGTERM; nobody starts it again."""
        self.is_wanted = False
        self.terminate()

    def kill(self) -> None:
        """SIGKILL; nobody starts it again."""
        self.is_wanted = False
        self.note_end()
        super().kill()

    def lose_power(self) -> None:
        """Pull the plug."""
        self.is_wanted = False
        self.note_end()
        super().lose_power()

    def note_end(self) -> None:
        """The process is about to be over, or is."""

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """The process has ended by itself."""
        self.note_end()
        failure = None if task.cancelled() else task.exception()
        if not self._may_end_with(failure):
            self.ground.failures.append(f"{self.name}: {failure!r}")
        self.gave_up += 1
        if failure is not None:
            self.on_trouble(failure)
        self.start_again_soon()

    def _may_end_with(self, failure: BaseException | None) -> bool:
        """Is it what the world has brought about?"""
        if failure is None:
            return self.told_to_stop > 0
        return isinstance(failure, self._troubles) or (isinstance(failure, OSError) and self.disk_failed)

    def start_again_soon(self) -> None:
        """What the supervisor does."""
        if not self._restart_due:
            self._restart_due = True
            self.ground.scheduler.after(RESTART_US, self._start_again)

    def _start_again(self) -> None:
        self._restart_due = False
        if self.is_wanted and self.process is None:
            self.start()


def _nobody_hears(_: BaseException) -> None:
    return
