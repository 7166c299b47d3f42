"""Command lines of node processes, the start of the agent, and the signal when a parent process ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PARENT = "ZABKA_PARENT"
"""Environment variable with the pid of the process with which a child ends (`die_with_parent`)."""
END_S = 40
"""Time after SIGTERM at which a job ends at the latest. It is longer than the API waits for a stopped job."""
_PR_SET_PDEATHSIG = 1


def argv_for(kind: str, *arguments: str) -> list[str]:
    """Return the command line of a node process.

    With `-P`, files in the working directory cannot hide installed packages.
    """
    return [sys.executable, "-P", "-m", "zabka.compose.node", kind, *arguments]


def player_argv() -> list[str]:
    """Return the command line that runs scenarios and seeds in a child process, which can end with its parent."""
    return [sys.executable, "-P", "-m", "zabka.cli.scenario_player"]


def die_with_parent(number: signal.Signals) -> None:
    """Make the kernel send this signal to this process when its parent dies.

    Does nothing unless the system is Linux and the parent requested this by setting ZABKA_PARENT to its pid.
    """
    parent = os.environ.pop(PARENT, "")
    if not parent or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != int(parent):
        # The parent exited before prctl was called, so the kernel will not send the signal.
        os.kill(os.getpid(), number)


def end_soon() -> None:
    """Make the kernel end this process after END_S seconds, even if it is inside a call to Java then.

    A second call does not extend the time. The JVM of a Spark driver ends when its driver has ended.
    """
    left_s, _ = signal.getitimer(signal.ITIMER_REAL)
    if not left_s:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(END_S)


def start_agent(config: Path, held: Sequence[int], parent: int | None) -> subprocess.Popen[bytes]:
    """Start an agent with this configuration file (`write_host`).

    If `parent` is given, the agent ends when that process ends. While it runs, the agent holds the locks whose file
    descriptors are `held`, including that of the data directory.
    """
    environment = dict(os.environ)
    if parent is not None:
        environment[PARENT] = str(parent)
    with config.with_name("agent.log").open("ab") as out:
        return subprocess.Popen(
            argv_for("agent", "--config", str(config)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            # Detach the agent from the terminal. Ctrl-C then reaches only this process, which stops the others in the
            # right order.
            start_new_session=True,
            pass_fds=held,
            env=environment,
        )
