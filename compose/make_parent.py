"""Seeing that `make up` was interrupted, where the signal went to make alone and not to what it started."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_SIGINT_BIT = 1 << (signal.SIGINT - 1)


def make_was_interrupted(proc: Path = Path("/proc")) -> bool:
    """Is this process's parent a `make` that was sent SIGINT?

    A terminal's Ctrl-C reaches make and its children alike.  A SIGINT sent to make alone does not: GNU make passes on
    SIGTERM only, and waits for its children.  While it waits it blocks SIGINT, which the kernel shows.
    """
    parent = proc / str(os.getppid())
    try:
        if (parent / "comm").read_text().strip() not in ("make", "gmake"):
            return False
        status = (parent / "status").read_text()
    except OSError:
        return False
    blocked = next((line for line in status.splitlines() if line.startswith("SigBlk:")), "SigBlk: 0")
    return bool(int(blocked.split()[1], 16) & _SIGINT_BIT)
