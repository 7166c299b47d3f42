"""Processes managed by an agent: signals take effect, and the agent reports the resulting process states."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from zabka.compose import processes
from zabka.compose.launch import argv_for
from zabka.compose.processes import ManagedProcess, NotNow

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]


class Watched:
    """A managed process, and the state changes that it has reported."""

    def __init__(self, tmp_path: Path, argv: list[str]) -> None:
        self.changes: list[tuple[str, str]] = []
        self.log = tmp_path / "node.log"
        self.process = ManagedProcess("broker-1", argv, self.log, self._changed)

    def _changed(self, process: ManagedProcess, action: str) -> None:
        self.changes.append((process.state, action))

    async def up(self) -> ManagedProcess:
        before = self.log.read_text().count("up") if self.log.exists() else 0
        await self.process.start()
        await wait_for(lambda: self.log.read_text().count("up") > before)
        return self.process


async def wait_for(condition: Any, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def _state_of(pid: int | None) -> str:
    """Return the kernel's process state: T for stopped, D for uninterruptible sleep."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


def test_kill_action_sends_sigkill_and_leaves_the_process_down(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched(tmp_path, SLEEPER)
        process = await watched.up()
        await process.kill()
        assert (process.state, process.pid, process.exit_code) == ("down", None, -signal.SIGKILL)
        assert watched.changes == [("running", "start"), ("down", "kill")]

    run(scenario())


def test_paused_process_stops_and_resumed_process_continues(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched(tmp_path, SLEEPER)
        process = await watched.up()
        await process.pause()
        assert _state_of(process.pid) == "T"
        assert process.state == "paused"
        await process.resume()
        assert process.state == "running"
        await process.kill()
        assert [c[1] for c in watched.changes] == ["start", "pause", "resume", "kill"]

    run(scenario())


def test_process_that_ignores_sigstop_is_not_reported_as_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that does not react to SIGSTOP is not reported as paused.

    The process waits uninterruptibly for a child that opens a pipe. This simulates waiting for a disk.
    """
    monkeypatch.setattr(processes, "SIGNAL_TIMEOUT_S", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    spawn = f"os.posix_spawn('/bin/true', ['true'], {{}}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, {str(pipe)!r}, 0, 0)])"
    code = f"import os, time; print('up', flush=True); {spawn}; time.sleep(60)"

    async def scenario() -> None:
        watched = Watched(tmp_path, [sys.executable, "-c", code])
        process = await watched.up()
        await wait_for(lambda: _state_of(process.pid) == "D")
        with pytest.raises(NotNow, match=r"broker-1 was sent SIGSTOP, .* it may still take effect"):
            await process.pause()
        process.observe()
        assert (process.state, watched.changes) == ("running", [("running", "start")])
        # Open the other end of the pipe: the child's open call returns, and the pending SIGSTOP takes effect.
        os.close(await asyncio.to_thread(os.open, pipe, os.O_WRONLY))
        await wait_for(lambda: (process.observe(), process.state == "paused")[1])
        assert watched.changes[-1] == ("paused", "stopped")
        await process.kill()

    run(scenario())


def test_paused_process_can_be_killed_and_stopped(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched(tmp_path, SLEEPER)
        process = await watched.up()
        await process.pause()
        await process.kill()
        assert process.state == "down"
        await watched.up()
        await process.pause()
        await process.stop()
        assert (process.state, process.exit_code) == ("down", -signal.SIGTERM)

    run(scenario())


def test_stop_action_sends_sigkill_after_an_ignored_sigterm(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = await Watched(tmp_path, STUBBORN).up()
        await process.stop(timeout_s=0.1)
        assert process.exit_code == -signal.SIGKILL

    run(scenario())


def test_process_that_hangs_during_a_stop_can_be_killed(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = await Watched(tmp_path, STUBBORN).up()
        stopping = asyncio.create_task(process.stop(timeout_s=20))
        await asyncio.sleep(0)
        with pytest.raises(NotNow, match="busy with a stop"):
            await process.stop()
        await process.kill()
        await stopping
        assert process.state == "down"

    run(scenario())


def test_process_killed_during_its_restart_stays_down(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = await Watched(tmp_path, STUBBORN).up()
        restarting = asyncio.create_task(process.restart())
        await asyncio.sleep(0)
        await process.kill()
        with pytest.raises(NotNow, match="killed while it was being stopped"):
            await restarting
        assert (process.state, process.pid) == ("down", None)

    run(scenario())


def test_action_invalid_in_the_current_state_is_rejected(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = Watched(tmp_path, SLEEPER).process
        for action in (process.kill, process.stop, process.pause, process.resume, process.restart):
            with pytest.raises(NotNow, match="broker-1: it is down"):
                await action()
        await process.start()
        for action in (process.start, process.resume):
            with pytest.raises(NotNow, match="it is running"):
                await action()
        await process.kill()

    run(scenario())


def test_restart_starts_a_new_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = await Watched(tmp_path, SLEEPER).up()
        before = process.pid
        await process.restart()
        assert process.state == "running"
        assert process.pid != before
        await process.kill()

    run(scenario())


def test_external_kill_and_pause_are_detected(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched(tmp_path, SLEEPER)
        process = await watched.up()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        await wait_for(lambda: (process.observe(), process.state == "paused")[1])
        os.kill(process.pid, signal.SIGKILL)
        await wait_for(lambda: process.state == "down")
        assert [c[1] for c in watched.changes] == ["start", "stopped", "exited"]

    run(scenario())


def test_child_process_is_leader_of_its_own_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        process = await Watched(tmp_path, SLEEPER).up()
        assert process.pid is not None
        assert os.getsid(process.pid) == process.pid
        await process.kill()

    run(scenario())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux's")
def test_child_process_dies_when_its_parent_is_killed() -> None:
    child = (
        "import os, signal, sys, time\n"
        "from zabka.compose.launch import die_with_parent\n"
        "die_with_parent(signal.SIGKILL)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = (
        "import os, subprocess, sys, time\n"
        "env = {**os.environ, 'ZABKA_PARENT': str(os.getpid())}\n"
        f"subprocess.Popen([sys.executable, '-P', '-c', {child!r}], env=env)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-P", "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_log_file_of_a_running_process_is_limited_in_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOG_BYTES_MAX", 10_000)
    talker = [sys.executable, "-c", "import time\nwhile True:\n    print('x' * 99, flush=True)\n    time.sleep(0.0001)"]

    async def scenario() -> None:
        watched = Watched(tmp_path, talker)
        process = watched.process
        await process.start()
        for _ in range(3):
            await wait_for(lambda: watched.log.stat().st_size > 10_000)
            process.observe()
        await wait_for(lambda: watched.log.stat().st_size > 10_000)
        # Pause the process before the check, because otherwise it may have filled the log again.
        await process.pause()
        process.observe()
        assert watched.log.stat().st_size == 0
        await process.resume()
        await wait_for(lambda: watched.log.stat().st_size > 0)
        await process.kill()
        for path in (watched.log, watched.log.with_suffix(".log.1")):
            assert set(path.read_text().split()) <= {"x" * 99}

    run(scenario())


def test_node_is_started_with_the_current_python() -> None:
    assert argv_for("peer", "--config", "zoo.cfg")[0] == sys.executable
