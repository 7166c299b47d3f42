"""Processes that an agent runs: start, signals, and the state of each.

A process is `running`, `paused` (SIGSTOP) or `down`. Every change, whether requested or observed, is reported once,
through `on_change`. Each child leads its own process group, so that the terminal's Ctrl-C does not reach it. A child
ends when the agent ends (`zabka.compose.launch` requests that from the kernel).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

LOG_BYTES_MAX = 8 * 1024 * 1024
STOP_TIMEOUT_S = 30.0
SIGNAL_TIMEOUT_S = 5.0
_POLL_S = 0.01

SEEN = ("exited", "stopped", "continued")
"""Actions that report a change of a process which the agent observed but did not request."""

OnChange = Callable[["ManagedProcess", str], None]


class Child(Protocol):
    """A child process. The methods are those of `subprocess.Popen` that the agent uses."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def send_signal(self, number: int, /) -> None: ...


class NotNow(Exception):
    """The action is not possible in the process's current state."""


class ManagedProcess:
    """One process of a host, across all its starts.

    Each start runs `argv`, and `log` collects the output. If `first` is given, the first start calls it instead.
    `on_change(process, action)` is called after each change of `state`; action is start, kill, stop, pause, resume, or
    one of SEEN.
    """

    def __init__(
        self, name: str, argv: Sequence[str], log: Path, on_change: OnChange, first: Callable[[], Child] | None = None
    ) -> None:
        self.name = name
        self.state = "down"
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.starts = 0
        self._argv = list(argv)
        self._log = log
        self._on_change = on_change
        self._process: Child | None = None
        self._begin = first or self._program
        self._exited = asyncio.Event()
        self._exited.set()
        self._asked = ""
        self._busy = ""

    # ---- actions -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the process. Raises NotNow if it is already running, OSError if it cannot be started."""
        self._must_be(("down",), "start")
        self._spawn()

    async def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended. Can also be called during a stop."""
        if self.state == "down":
            self._refuse("kill")
        self._asked = "kill"
        self._signal(signal.SIGKILL)
        await self._exited.wait()

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S, hurry: tuple[signal.Signals, float] | None = None) -> None:
        """Send SIGTERM, and wait until the process has ended. Send SIGKILL after `timeout_s`.

        `hurry` is another signal, and the delay after which it is sent if the process is still running.
        """
        self._must_be(("running", "paused"), "stop")
        self._busy = self._asked = "stop"
        try:
            self._signal(signal.SIGTERM)
            # A paused process receives the SIGTERM only when it runs again.
            self._signal(signal.SIGCONT)
            try:
                if hurry is not None and not await self.ended_within(min(hurry[1], timeout_s)):
                    self._signal(hurry[0])
                    timeout_s -= hurry[1]
                await asyncio.wait_for(self._exited.wait(), max(0, timeout_s))
            except TimeoutError:
                self._signal(signal.SIGKILL)
                await self._exited.wait()
        finally:
            self._busy = ""

    async def ended_within(self, timeout_s: float) -> bool:
        """Wait until the process has ended or the timeout has passed. Return whether it has ended."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), timeout_s)
        return self._exited.is_set()

    async def pause(self) -> None:
        """Send SIGSTOP. Return once the process is stopped.

        Raises NotNow if the process is not stopped in time, for example because it waits for a disk. If it is stopped
        later, that is reported as an observed change.
        """
        self._must_be(("running",), "pause")
        await self._signal_and_see(signal.SIGSTOP, stopped=True)
        self._changed("paused", "pause")

    async def resume(self) -> None:
        """Send SIGCONT. Return once it has taken effect. Raises NotNow if it has not taken effect in time."""
        self._must_be(("paused",), "resume")
        await self._signal_and_see(signal.SIGCONT, stopped=False)
        self._changed("running", "resume")

    async def restart(self) -> None:
        """Stop the process, then start it.

        Raises NotNow if `kill` was called in between, because a killed process must stay down.
        """
        if self.state == "down":
            self._refuse("restart")
        await self.stop()
        if self._asked == "kill":
            raise NotNow(f"cannot restart {self.name}: it was killed while it was being stopped")
        await self.start()

    def observe(self) -> None:
        """Detect a SIGSTOP or SIGCONT that another process sent. Also limit the log's size."""
        self._rotate_log()
        if self.state == "down" or self._busy:
            return
        stopped = self._is_stopped()
        if stopped and self.state == "running":
            self._changed("paused", "stopped")
        elif not stopped and self.state == "paused":
            self._changed("running", "continued")

    # ---- internal
    # -----------------------------------------------------------------------------------------------------

    def _must_be(self, states: tuple[str, ...], action: str) -> None:
        if self.state not in states or self._busy:
            self._refuse(action)

    def _refuse(self, action: str) -> NoReturn:
        now = f"busy with a {self._busy}" if self._busy else self.state
        raise NotNow(f"cannot {action} {self.name}: it is {now}")

    def _spawn(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._rotate_log()
        begin, self._begin = self._begin, self._program
        self._process = begin()
        self.pid, self.exit_code, self._asked = self._process.pid, None, ""
        self.starts += 1
        self._exited.clear()
        self._watch(self._process)
        self._changed("running", "start")

    def _program(self) -> Child:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "ZABKA_PARENT": str(os.getpid()), "PYTHONUNBUFFERED": "1"},
            )

    def _rotate_log(self) -> None:
        """Copy the log to `.log.1`, and truncate it.

        The process has the file open for appending and continues to write to it. Output between the copy and the
        truncation, which takes microseconds, is lost. If the copy cannot be made (a full disk), the log is truncated
        without one.
        """
        with contextlib.suppress(FileNotFoundError):
            if os.stat(self._log).st_size <= LOG_BYTES_MAX:  # noqa: PTH116
                return
            with contextlib.suppress(OSError):
                shutil.copyfile(self._log, self._log.with_suffix(".log.1"))
            os.truncate(self._log, 0)

    def _watch(self, process: Child) -> None:
        loop = asyncio.get_running_loop()
        if not hasattr(os, "pidfd_open"):
            loop.call_later(_POLL_S * 5, self._poll_for_exit, process)
            return
        handle = os.pidfd_open(process.pid)

        def gone() -> None:
            loop.remove_reader(handle)
            os.close(handle)
            self._ended(process)

        loop.add_reader(handle, gone)

    def _poll_for_exit(self, process: Child) -> None:
        if process.poll() is None:
            asyncio.get_running_loop().call_later(_POLL_S * 5, self._poll_for_exit, process)
        else:
            self._ended(process)

    def _ended(self, process: Child) -> None:
        self.exit_code = process.wait()
        self.pid = None
        self._changed("down", self._asked or "exited")
        self._exited.set()

    def _changed(self, state: str, action: str) -> None:
        # If the process ended while `pause` waited for it, its end was already reported.
        if state == "down" or self.pid is not None:
            self.state = state
            self._on_change(self, action)

    def _signal(self, number: signal.Signals) -> None:
        # Popen sends no signal to a process that was already waited for.
        if self._process is not None:
            self._process.send_signal(number)

    def _is_stopped(self) -> bool:
        """Return whether SIGSTOP has stopped the process.

        If the system does not report this (macOS), use the last requested state.
        """
        if self.pid is None:
            return False
        if not hasattr(os, "waitid"):
            return self.state == "paused"
        # Do not consume the status (WNOWAIT): `_ended` must still receive the exit, and later calls must still see the
        # stop.
        with contextlib.suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        return False

    async def _signal_and_see(self, number: signal.Signals, *, stopped: bool) -> None:
        self._busy = number.name
        try:
            self._signal(number)
            deadline = asyncio.get_running_loop().time() + SIGNAL_TIMEOUT_S
            while self.pid is not None and self._is_stopped() is not stopped:
                if not sys.platform.startswith("linux"):
                    return
                if asyncio.get_running_loop().time() > deadline:
                    raise NotNow(
                        f"{self.name} was sent {number.name}, which has had no effect within {SIGNAL_TIMEOUT_S:g} s: "
                        "it may still take effect"
                    )
                await asyncio.sleep(_POLL_S)
        finally:
            self._busy = ""
