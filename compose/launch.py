"""How a node's process is started, and how its life is tied to that of whoever started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def argv_for(kind: str, *arguments: str) -> list[str]:
    """The command line of a node process.  `-P` keeps the working directory from shadowing packages."""
    return [sys.executable, "-P", "-m", "compose.node", kind, *arguments]


def player_argv() -> list[str]:
    """The command line of `zabka scenarios` as a child that may ask to die with its parent."""
    return [sys.executable, "-P", "-m", "tools.scenario_player"]


def die_with_parent(number: signal.Signals) -> None:
    """Ask the kernel for this signal when the parent dies.

    Only where the parent asked for it, by naming itself in ZABKA_PARENT; elsewhere than on Linux nothing is asked.
    """
    parent = os.environ.pop("ZABKA_PARENT", "")
    if not parent or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != int(parent):
        # The parent died before the kernel was asked.
        os.kill(os.getpid(), number)
