"""Finds the process that has opened a port, if this server cannot open the port because of it.

The process is found in /proc, if that exists.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

_LISTENING = "0A"
_KEYS = {
    "the client port": "clientPort",
    "the secure client port": "secureClientPort",
    "the quorum port": "the first port of this server's server line",
    "the election port": "the second port of this server's server line",
    "the admin server": "admin.serverPort",
    "the metrics port": "metricsProvider.httpPort",
}


def port_trouble(purpose: str, host: str, port: int, failed: OSError) -> str:
    """Return a one-line error message for a port that cannot be opened: purpose, reason and what to do."""
    reason = failed.strerror or str(failed)
    if failed.errno == errno.EADDRINUSE:
        holder = port_holder(port)
        reason = f"{holder or 'another process'} listens there; stop that, or change {_KEYS.get(purpose, 'the port')}"
    elif failed.errno == errno.EADDRNOTAVAIL:
        reason = f"{host} is not an address of this machine: does myid say which server this is?"
    elif failed.errno == errno.EACCES:
        reason = "ports below 1024 are for privileged users"
    return f"{purpose} {host or '*'}:{port} cannot be opened: {reason}"


def port_holder(port: int) -> str | None:
    """Return the process that listens on a TCP port, as "process 123 (java)", or None if unknown."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listeners(Path("/proc/net") / table, port)}
    for process in _processes() if inodes else ():
        try:
            links = [str(entry.readlink()) for entry in (process / "fd").iterdir()]
            name = (process / "comm").read_text().strip()
        except OSError:
            continue
        if not inodes.isdisjoint(links):
            return f"process {process.name} ({name})"
    return None


def _listeners(table: Path, port: int) -> list[str]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port]


def _processes() -> Iterator[Path]:
    return (path for path in Path("/proc").iterdir() if path.name.isdigit())
