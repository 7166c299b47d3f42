"""One computer of a simulated world: its kernel, its network address, and the process that runs on it."""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from zabka.ensemble.request_fault_uses import SharedCounts
from zabka.journal.message_log import MessageNotes
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.isolation import Isolation
from zabka.simulation.engine.jobs import LoopWorkers
from zabka.simulation.engine.loop import ProcessLoop
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.engine.tap_feed import TapFeed
from zabka.simulation.engine.tcp import TcpNetwork
from zabka.simulation.engine.virtual_time import Turn
from zabka.simulation.filesystem.inode import Node
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import PowerLost, Volume
from zabka.simulation.jitter import JitteredSeed, scheduling

Main = Callable[["SimProcess"], Coroutine[Any, Any, Any]]


class ProcessExited(BaseException):
    """A process has called _exit(2).  The code of the process must not catch this."""


class Ground:
    """State shared by all machines of one world."""

    def __init__(self, seed: int, scheduler: Scheduler, *, pieces: float = 0.0, tap: MessageTap | None = None) -> None:
        self.seed = seed
        self.scheduler = scheduler
        if isinstance(seed, JitteredSeed):
            seed.now_us = lambda: scheduler.now_us
        self.network = TcpNetwork(scheduler, scheduling(seed, derive_random(seed, "segments")))
        self.turn = Turn()
        self.pieces = pieces
        """Probability that a read returns only a part of the received bytes."""
        self.heard = None if tap is None else TapFeed(tap)
        """Reports all messages of the world to its tap, or None if there is no tap."""
        self.fault_counts = SharedCounts()
        """How often each request fault was matched and applied, summed over all servers."""
        self.isolation: Isolation | None = None
        """The object that isolates a test's own programs from the host, or None if there are no such programs."""
        self.failures: list[str] = []
        """Errors that fail the run, such as exceptions that no process caught."""
        self._dead: list[asyncio.Task[Any]] = []

    def bury(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Hold references to a killed process's tasks: if Python deleted them, it would run their `finally` blocks."""
        self._dead += [task for task in tasks if not task.done()]

    def end_world(self) -> None:
        """Close killed processes' tasks after the world has ended, so that their `finally` blocks cannot affect it."""
        dead, self._dead = self._dead, []
        hosts_loop = _get_running_loop()
        for task in dead:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            # Set the running loop: asyncio functions in a `finally` block would otherwise create a real loop that is
            # never closed.
            _set_running_loop(task.get_loop())
            for _ in range(10):
                try:
                    coroutine.close()
                    break
                except (Exception, asyncio.CancelledError):
                    # A `finally` block of the task awaits something or uses a closed object, so close the task again.
                    continue
        _set_running_loop(hosts_loop)
        if self.heard is not None:
            self.heard.stop_hearing()


class MachineFiles(ProcessFiles):
    """A process's view of its machine's disk.  The machine can lose power during an operation."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.volume)
        self._machine = machine

    def unlink(self, path: Path, /) -> None:
        """Call `on_unlink` with the path, and then delete the file."""
        self._machine.on_unlink(path)
        super().unlink(path)

    def pread(self, descriptor: int, size: int, position: int, /) -> bytes:
        """Read like pread(2), and call `on_read` with the part of the file that was read."""
        data = super().pread(descriptor, size, position)
        self._machine.on_read(self.node_at(descriptor), position, len(data))
        return data

    def _begin(self, operation: str, path: str) -> None:
        try:
            super()._begin(operation, path)
        except PowerLost:
            self._machine.power_went()
            raise


class SimProcess:
    """One run of a program on a machine."""

    def __init__(self, machine: Machine, random: Random) -> None:
        ground = machine.ground
        self.machine = machine
        self.random = random
        timing = scheduling(ground.seed, random)
        self.loop = machine.loop_class(
            ground.scheduler, machine.kernel, timing, ground.turn, self._failed,
            skew_us=machine.skew_us, pieces=ground.pieces,
        )  # fmt: skip
        self.files = self.loop.disk = MachineFiles(machine)
        self.workers = LoopWorkers(self.loop, timing)
        heard = ground.heard
        self.messages: MessageNotes | None = None if heard is None else heard.notes(machine.name, self.loop)
        """Records all messages that the process sends and receives, or None if there is no tap."""
        self.main: asyncio.Task[Any] | None = None

    def _failed(self, text: str, failure: BaseException | None) -> None:
        self.machine.ground.failures.append(f"{self.machine.name}: {text}: {failure!r}")


class Machine:
    """A computer that runs the program `main`.

    If the program ends without being killed, `on_exit` is called with its task.  The disk `volume` stays when a program
    ends.
    """

    loop_class: Callable[..., ProcessLoop] = ProcessLoop
    """Class of the program's event loop."""

    def __init__(
        self, ground: Ground, name: str, address: str, main: Main, *,
        on_exit: Callable[[asyncio.Task[Any]], None], skew_us: int = 0,
    ) -> None:  # fmt: skip
        self.ground = ground
        self.name = name
        self.address = address
        self.kernel = ground.network.attach(address)
        ground.network.addresses[name] = address
        if ground.heard is not None:
            ground.heard.machine(name, address)
        self.process: SimProcess | None = None
        self.skew_us = skew_us
        self.on_unlink: Callable[[Path], None] = _nobody
        self.on_read: Callable[[Node, int, int], None] = _nobody_reads
        """Called with file, position and size for each part of a file that a process reads."""
        self._main = main
        self._on_exit = on_exit
        self._starts = 0
        self._volumes = 0
        self.volume = self.new_volume()

    def new_volume(self) -> Volume:
        """Return an empty disk."""
        self._volumes += 1
        random = derive_random(self.ground.seed, f"{self.name}/volume {self._volumes}")
        volume = Volume(random, lambda: self.ground.scheduler.now_us)
        volume.latencies = scheduling(self.ground.seed, random)
        return volume

    def start(self) -> None:
        """Switch the machine on, and run the program unless it is running."""
        self.kernel.has_power = True
        if self.process is not None:
            return
        self._starts += 1
        random = derive_random(self.ground.seed, f"{self.name}/{self._starts}")
        process = self.process = SimProcess(self, random)
        self.kernel.busy_us = process.loop.busy_us
        process.loop.call_soon(self._begin, process)

    def switch_on(self) -> None:
        """Start the program, as the machine's supervisor does."""
        self.start()

    def _begin(self, process: SimProcess) -> None:
        task = process.main = process.loop.create_task(self._main(process), name=f"{self.name} main")
        task.add_done_callback(lambda task: self.ground.scheduler.soon(lambda: self._exited(process, task)))

    def _exited(self, process: SimProcess, task: asyncio.Task[Any]) -> None:
        if self.process is process:
            self._drop(process)
            self._on_exit(task)

    def kill(self) -> None:
        """Kill the process (SIGKILL); its kernel closes its connections."""
        if self.process is not None:
            self._drop(self.process)

    def exit(self, process: SimProcess) -> NoReturn:
        """Handle a call of _exit(2) by this process during its turn. The effect is the same as that of SIGKILL."""
        if self.process is process:
            self._drop(process)
        raise ProcessExited

    def _drop(self, process: SimProcess) -> None:
        self.process = None
        self.ground.bury(process.loop.kill())
        process.files.kill()

    def lose_power(self) -> None:
        """Kill the process and drop all connections without notifying other machines; stay off until `start`."""
        process, self.process = self.process, None
        self.kernel.lose_power()
        if process is not None:
            self.ground.bury(process.loop.vanish())
        self.volume.lose_power()

    def power_went(self) -> None:
        """Lose power during a file operation of the process.

        The operation stops, and the process sends nothing more.
        """
        process = self.process
        if process is not None and not process.loop.killed:
            self.kernel.lose_power()
            self.ground.bury(process.loop.vanish())
            self.ground.scheduler.soon(self.lose_power)

    def pause(self) -> None:
        """Pause the process (SIGSTOP)."""
        if self.process is not None:
            self.process.loop.pause()

    def resume(self) -> None:
        """Resume the process (SIGCONT)."""
        if self.process is not None and self.process.loop.paused:
            self.process.loop.resume()

    @property
    def is_paused(self) -> bool:
        """Whether the process was stopped by SIGSTOP."""
        return self.process is not None and self.process.loop.paused


def _nobody(_: Path) -> None:
    return


def _nobody_reads(_: Node, __: int, ___: int) -> None:
    return
