"""Starts nodes as forks of their agent, which has already imported their programs.

With forks, a cluster for tests needs half the processor time to start: the modules of peers and brokers are imported
once, instead of once in each of six processes. The API is the only process of its kind and has the most imports, so it
is forked before the imports, and imports its own modules at the same time on another processor. A fork is a process
like any other: it has its own process group, can be killed and paused, and ends with its agent. When a node is
restarted, it becomes an ordinary child process (`zabka.compose.launch.argv_for`).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from zabka.compose.programs import config_of, run

_SHARED = {"peer": "zabka.ensemble.server.process.peer_process", "broker": "zabka.broker_sim.broker_process"}
"""For each kind of node that can run in several processes, the module to import before forking."""
_DESCRIPTORS_MAX = 65_536
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


class ForkedProcess:
    """A forked process with the interface of `subprocess.Popen`: pid, exit code, and signals."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative if a signal ended the process; None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """Wait until the process ends. Return the exit code."""
        code = self._reap(0)
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to the process unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def fork(arguments: Sequence[str], log: Path) -> ForkedProcess:
    """Start a node as a fork. `arguments` are those of `zabka.compose.node`; `log` receives the node's output.

    Call this only while the agent has a single thread. Raises OSError.
    """
    if arguments[0] in _SHARED:
        _preload()
    parent = os.getpid()
    with log.open("ab") as out:
        pid = os.fork()
        if pid == 0:
            _become(arguments, out.fileno(), parent)
    return ForkedProcess(pid)


@cache
def _preload() -> None:
    """Import the nodes' programs, and exclude their objects from garbage collection.

    Otherwise the garbage collector would write to memory that the forks share, so that the kernel would have to copy
    it.
    """
    gc.disable()
    for program in _SHARED.values():
        import_module(program)
    gc.freeze()
    gc.enable()


def _become(arguments: Sequence[str], log: int, parent: int) -> NoReturn:
    """Run a node in the forked process until it ends, without touching the agent's open files, tasks and handlers."""
    code = 1
    try:
        # Exclude the inherited objects from garbage collection. Otherwise the agent's unreachable objects, when
        # collected, would close file descriptors that this node has reused.
        gc.freeze()
        os.setsid()
        for number in _HANDLED:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, _DESCRIPTORS_MAX)
        os.environ["ZABKA_PARENT"] = str(parent)
        code = run(*config_of(arguments))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
