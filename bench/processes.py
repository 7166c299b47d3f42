"""Server processes, what the kernel reports about a process (`/proc`, Linux), and signals during a run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Self

from bench.results import TITLES, Side

ROOT = Path(__file__).resolve().parents[1]
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOP_S = 20.0
READY_S = 60.0


class CannotMeasure(Exception):
    """A requirement of the measurement is missing or failed; the message names it."""


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {each: signal.signal(each, handler) for each in SIGNALS}
    try:
        yield
    finally:
        for each, previous in before.items():
            signal.signal(each, previous)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT or SIGTERM; ignore later ones, while the servers are stopped."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    with _handled_by(interrupt):
        yield


@contextmanager
def held() -> Iterator[None]:
    """Deliver signals at the end of the block: a process is not lost between its start and its record."""
    seen: list[int] = []
    try:
        with _handled_by(lambda number, frame: seen.append(number)):
            yield
    finally:
        if seen:
            signal.raise_signal(seen[0])


def wait_until(what: str, condition: Callable[[], bool], timeout_s: float, poll_s: float = 0.005) -> None:
    """Poll until the condition is true.  Raises CannotMeasure after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise CannotMeasure(f"no {what} after {timeout_s:.0f} s")
        time.sleep(poll_s)


class Servers:
    """Servers numbered from 1, each a process of its own with its files in `home(n)`.

    As a context manager it starts all of them, waits until they serve, and in the end kills them and removes their
    data.
    """

    def __init__(self, side: Side, directory: Path, count: int) -> None:
        self.side = side
        self.title = TITLES[side]
        self.directory = directory
        self.folder = ROOT
        self.environment: dict[str, str] | None = None
        self.numbers = range(1, count + 1)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def command(self, n: int) -> Sequence[str]:
        """The command line of a server."""
        raise AssertionError(n)

    def serves(self) -> bool:
        """Whether all servers serve."""
        raise AssertionError

    def home(self, n: int) -> Path:
        """The folder of a server's files."""
        return self.directory / str(n)

    @property
    def running(self) -> list[int]:
        """The numbers of the servers with a process."""
        return list(self._processes)

    @property
    def pids(self) -> list[int]:
        """The process ids of the servers with a process."""
        return [process.pid for process in self._processes.values()]

    def start(self, n: int) -> None:
        """Start a server; after a kill it finds its data again."""
        with (self.home(n) / "out.log").open("ab") as log, held():
            # In a session of its own: Ctrl-C reaches the benchmark alone, which then stops its servers.
            self._processes[n] = subprocess.Popen(
                self.command(n), cwd=self.folder, env=self.environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self, n: int) -> None:
        """Send SIGKILL and wait for the process to end."""
        process = self._processes.pop(n)
        process.kill()
        process.wait(STOP_S)

    def freeze(self, n: int) -> None:
        """Send SIGSTOP: the connections stay open, and no request is answered."""
        self._processes[n].send_signal(signal.SIGSTOP)

    def thaw(self, n: int) -> None:
        """Send SIGCONT."""
        self._processes[n].send_signal(signal.SIGCONT)

    def await_ready(self) -> None:
        """Wait until all servers serve.  Raises CannotMeasure, with the output of a server that ended."""

        def ready() -> bool:
            ended = [n for n, process in self._processes.items() if process.poll() is not None]
            if ended:
                output = (self.home(ended[0]) / "out.log").read_text(errors="replace")[-2000:].strip()
                raise CannotMeasure(f"{self.title}: server {ended[0]} ended:\n{output}")
            return self.serves()

        wait_until(f"{self.title} cluster that serves", ready, READY_S, poll_s=0.1)

    def cpu_s(self) -> float:
        """CPU time of all servers with a process, in seconds since their start."""
        return sum(cpu_s(pid) for pid in self.pids)

    def rss_mb(self) -> float:
        """Resident memory of all servers together, in megabytes (10⁶ bytes)."""
        return sum(resident_kib(pid) for pid in self.pids) * 1024 / 1e6

    def __enter__(self) -> Self:
        try:
            for n in self.numbers:
                self.start(n)
            self.await_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all servers and remove their data."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(STOP_S)
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)


# What the kernel reports.  Each function raises OSError if there is no such process.


def cpu_s(pid: int) -> float:
    """User and system time of all threads of a process, in seconds since its start."""
    # The process name in parentheses may contain anything; the times are fields 14 and 15.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kib(pid: int) -> int:
    """Resident memory."""
    return number_in(Path(f"/proc/{pid}/status"), "VmRSS:")


def number_in(file: Path, key: str) -> int:
    """The number after a key in a file below `/proc`; 0 if the key is missing, as for a process that has ended."""
    lines = file.read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(key)), 0)


def descendants(pid: int) -> list[int]:
    """The process, its children, their children, and so on."""
    found = [pid]
    for parent in found:
        for task in sorted(Path(f"/proc/{parent}/task").glob("*/children")):
            with suppress(OSError):
                found += map(int, task.read_text().split())
    return found
