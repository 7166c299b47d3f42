"""How many files a node's process may have open, and for what the last ones of them are kept."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from typing import Protocol

import structlog

DESCRIPTORS_KEPT = 1100
"""So many, or a sixth of what there are, no connection gets that somebody else opened: more than can be accepted in
one go before the first of them is looked at."""
KEPT_FOR_FEW = 550
"""So many besides, or a twelfth, are for ports at which few call: the other servers and the operator.  A crowd of
clients would shut them out else, and a leader whose followers cannot come back loses its quorum."""
SAY_EVERY_S = 60.0
_OPEN_FILES = 10_240

log = structlog.get_logger()


def may_open_all_files() -> None:
    """Let this process have as many descriptors open as the system allows it at all, as Java's machine does: what a
    shell allows by itself is little for a server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS tells that there is no limit, and then refuses to lift it (OPEN_MAX).
    for wanted in (hard, _OPEN_FILES):
        if soft == hard or 0 <= wanted <= soft:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


class _Numbered(Protocol):
    def fileno(self) -> int: ...


class _Said:
    """When it was last said that connections are closed: nobody else could tell why."""

    at_s = -SAY_EVERY_S


def may_stay(transport: asyncio.BaseTransport, *, is_of_few: bool = False) -> bool:
    """Whether a connection that was accepted leaves room for others' needs: see `leaves_room`."""
    accepted: _Numbered | None = transport.get_extra_info("socket")
    return accepted is None or leaves_room(accepted, is_of_few=is_of_few)


def leaves_room(accepted: _Numbered, *, is_of_few: bool = False) -> bool:
    """Whether a socket that was accepted is none of the last descriptors; `is_of_few` at a port that is for no clients.

    The kernel gives out the lowest number that is free, so a high one says that few are left.  Those are for the log,
    for snapshots and for calls to other servers: a server that has none for these ends.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return True
    kept = min(DESCRIPTORS_KEPT, limit // 6)
    if not is_of_few:
        kept += min(KEPT_FOR_FEW, limit // 12)
    if accepted.fileno() < limit - kept:
        return True
    if time.monotonic() - _Said.at_s >= SAY_EVERY_S:
        _Said.at_s = time.monotonic()
        log.warning("connections are closed: the last files are kept for the log", open_files_max=limit, kept=kept)
    return False
