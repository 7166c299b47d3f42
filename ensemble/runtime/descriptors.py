"""How many files a node's process may have open, and for what the last ones of them are kept."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import Protocol

DESCRIPTORS_KEPT = 1100
"""So many, or a quarter of what there are, no connection gets that somebody else opened: more than can be accepted in
one go before the first of them is looked at."""


def may_open_all_files() -> None:
    """Let this process have as many descriptors open as the system allows it at all, as Java's machine does: what a
    shell allows by itself is little for a server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Numbered(Protocol):
    def fileno(self) -> int: ...


def may_stay(transport: asyncio.BaseTransport) -> bool:
    """Whether a connection that was accepted leaves room for others' needs: see `leaves_room`."""
    accepted: _Numbered | None = transport.get_extra_info("socket")
    return accepted is None or leaves_room(accepted)


def leaves_room(accepted: _Numbered) -> bool:
    """Whether a socket that was accepted is none of the last descriptors.

    The kernel gives out the lowest number that is free, so a high one says that few are left.  Those are for the log,
    for snapshots and for calls to other servers: a server that has none for these ends.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit == resource.RLIM_INFINITY or accepted.fileno() < limit - min(DESCRIPTORS_KEPT, limit // 4)
