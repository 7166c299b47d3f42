"""Limit on open files of a node's process, and reservation of the last descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from typing import Protocol

import structlog

DESCRIPTORS_KEPT = 1100
"""Descriptors that client connections cannot use, or a sixth of the limit if that is less.

The number exceeds the number of connections that can be accepted in one batch, before the first of them is processed.
"""
KEPT_FOR_FEW = 550
"""Further descriptors that only the ports for servers and the operator can use, or a twelfth of the limit if less.

Otherwise many clients could lock these ports out, and a leader whose followers cannot reconnect loses its quorum.
"""
SAY_EVERY_S = 60.0
_OPEN_FILES = 10_240

log = structlog.get_logger()


def may_open_all_files() -> None:
    """Raise this process's limit on open files to the system's maximum, as the JVM does.

    A shell's default limit is too low for a server.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS reports no hard limit, but rejects a soft limit above OPEN_MAX, so try both.
    for wanted in (hard, _OPEN_FILES):
        if soft == hard or 0 <= wanted <= soft:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


class _Numbered(Protocol):
    def fileno(self) -> int: ...


class _LastWarning:
    """Time of the last log line about connections closed for lack of descriptors. Logs the reason of these closes."""

    at_s = -SAY_EVERY_S


def may_stay(transport: asyncio.BaseTransport, *, is_of_few: bool = False) -> bool:
    """Return whether an accepted connection leaves enough descriptors for other uses: see `leaves_room`."""
    accepted: _Numbered | None = transport.get_extra_info("socket")
    return accepted is None or leaves_room(accepted, is_of_few=is_of_few)


def leaves_room(accepted: _Numbered, *, is_of_few: bool = False) -> bool:
    """Return whether an accepted socket is not one of the last descriptors.

    `is_of_few` is set for a port that does not serve clients. The kernel assigns the lowest free number, so a high
    number means that few are left. The last descriptors are reserved for the log, for snapshots and for connections to
    other servers: a server that runs out of descriptors for these stops.
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
