"""Limit on a process's open files, and file descriptors that are reserved for essential uses."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from typing import Protocol

import structlog

DESCRIPTORS_KEPT = 1100
"""Number of file descriptors that are reserved for purposes other than client connections.

At most a sixth of the limit on open files is reserved. The number is larger than a batch of accepted connections,
because a whole batch can be accepted before its first connection is processed.
"""
KEPT_FOR_FEW = 550
"""Number of file descriptors reserved for the ports for servers and operators.

The number is at most a twelfth of the limit on open files. Without this reserve, client connections could use all
descriptors, and a leader whose followers cannot reconnect would lose its quorum.
"""
SAY_EVERY_S = 60.0
_OPEN_FILES = 10_240

log = structlog.get_logger()


def may_open_all_files() -> None:
    """Raise this process's limit on open files to the system's maximum, as the JVM does.

    The default limit in a shell is too low for a server.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS reports no hard limit, but rejects a soft limit above OPEN_MAX, so try the hard limit first and OPEN_MAX
    # next.
    for wanted in (hard, _OPEN_FILES):
        if soft == hard or 0 <= wanted <= soft:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


class _Numbered(Protocol):
    def fileno(self) -> int: ...


class _LastWarning:
    """Time of the last warning that connections are closed for lack of descriptors.

    It limits how often this warning is logged.
    """

    at_s = -SAY_EVERY_S


def may_stay(transport: asyncio.BaseTransport, *, is_of_few: bool = False) -> bool:
    """Return whether an accepted connection leaves the reserved descriptors free; see `leaves_room`."""
    accepted: _Numbered | None = transport.get_extra_info("socket")
    return accepted is None or leaves_room(accepted, is_of_few=is_of_few)


def leaves_room(accepted: _Numbered, *, is_of_few: bool = False) -> bool:
    """Return whether an accepted socket can be kept, because its descriptor is not reserved.

    `is_of_few` is set for a port for servers or operators. The kernel assigns the lowest free number, so a high number
    means that few descriptors are left. The last descriptors are reserved for the log, for snapshots and for
    connections to other servers: without a descriptor for these, a server would stop.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return True
    kept = min(DESCRIPTORS_KEPT, limit // 6)
    if not is_of_few:
        kept += min(KEPT_FOR_FEW, limit // 12)
    if accepted.fileno() < limit - kept:
        return True
    if time.monotonic() - _LastWarning.at_s >= SAY_EVERY_S:
        _LastWarning.at_s = time.monotonic()
        log.warning("connections are closed: the last files are kept for the log", open_files_max=limit, kept=kept)
    return False
