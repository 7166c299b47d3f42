"""Commands with worker processes leave none running, and report a worker that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from zabka.cli.worker_processes import results_of

SIMULATE = ["simulate", "--seeds", "0-99999", "--jobs", "2", "--scenario", "ensemble"]
SEARCH = ["search", "--runs", "99999", "--jobs", "2", "--scenario", "swarm-ensemble"]
PATIENCE_S = 60.0

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists a process's children")


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for children in found for child in children]


def has_ended(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


@contextmanager
def begun(arguments: list[str], directory: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Run a command until two worker processes are running, and yield it with their pids."""
    with subprocess.Popen(
        [sys.executable, "-m", "zabka.cli.main", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "ZABKA_OUT": str(directory / "out")},
    ) as command:  # fmt: skip
        try:
            until(lambda: len(children_of(command.pid)) == 2)
            yield command, children_of(command.pid)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)


@pytest.mark.parametrize("arguments", [SIMULATE, SEARCH])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_command_leaves_no_process_running(arguments: list[str], number: signal.Signals, tmp_path: Path) -> None:
    with begun(arguments, tmp_path) as (command, workers):
        command.send_signal(number)
        assert command.wait() == -number
        until(lambda: all(map(has_ended, workers)))


@pytest.mark.parametrize("arguments", [SIMULATE, SEARCH])
def test_ctrl_c_ends_a_command_and_its_processes_cleanly(arguments: list[str], tmp_path: Path) -> None:
    with begun(arguments, tmp_path) as (command, workers):
        os.killpg(command.pid, signal.SIGINT)
        _, error = command.communicate(timeout=PATIENCE_S)
        assert (command.returncode, error) == (130, "")
        assert all(map(has_ended, workers))


@pytest.mark.parametrize("arguments", [SIMULATE, SEARCH])
def test_killed_worker_is_reported_but_not_as_a_violation(arguments: list[str], tmp_path: Path) -> None:
    with begun(arguments, tmp_path) as (command, workers):
        os.kill(workers[0], signal.SIGKILL)
        _, error = command.communicate(timeout=PATIENCE_S)
        # 1 would mean that an invariant was violated.
        assert command.returncode == 2
        assert error == "a worker process of this command was killed before it had finished. " \
            "The machine may be out of memory\n"  # fmt: skip


def write_down(number: int, directory: Path) -> int:
    (directory / str(number)).touch()
    time.sleep(0.01)
    return number


def test_results_are_in_order_and_closing_skips_unstarted_calls(tmp_path: Path) -> None:
    calls = (partial(write_down, number, tmp_path) for number in range(10_000))
    with closing(results_of(calls, jobs=2, ahead=1_000, begin=int)) as found:
        assert [next(found) for _ in range(20)] == list(range(20))
    assert len(list(tmp_path.iterdir())) < 1_000
