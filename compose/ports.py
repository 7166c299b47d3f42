"""Finds free TCP ports, and determines the paths of the nodes' control sockets."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SOCKET_PATH_BYTES_MAX = 100
_LOWEST = 10_000
_TRIES = 2_000
CLAIM = 100
"""Number of ports that a cluster reserves: three per peer, one per broker, and two more."""


class PortTaken(Exception):
    """Another process uses a requested port."""

    def __init__(self, host: str, port: int, what: str) -> None:
        super().__init__(f"port {port} on {host}, wanted for {what}, is in use")
        self.port = port


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen at this host and port now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def is_ours(host: str) -> bool:
    """Return whether this address belongs to this machine, so that a server could listen at it."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
    except (OSError, UnicodeError):
        return False
    return True


def _ephemeral_floor() -> int:
    try:
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        low = 32_768
    return low if low > _LOWEST + 1_000 else 65_000


def pick_block(host: str, count: int, taken: Iterable[int] = (), within: range | None = None) -> int:
    """Return the first of `count` consecutive free ports, from the range `within` if it is given.

    The ports are below the range that the kernel uses for outgoing connections. A port in that range could be in use by
    another connection when a killed node needs it again. Raises OSError if no ports are free.
    """
    used = set(taken)
    chooser = random.SystemRandom()
    among = range(_LOWEST, _ephemeral_floor()) if within is None or len(within) < count else within
    for _ in range(_TRIES):
        base = chooser.randrange(among.start, among.stop - count + 1)
        block = range(base, base + count)
        if used.isdisjoint(block) and all(is_free(host, port) for port in block):
            return base
    raise OSError(f"no {count} consecutive free ports on {host}")


class ClaimedPorts(NamedTuple):
    """A range of ports that no other process can claim while this or an inheriting process has `handles` open.

    `within` is None, and there are no handles, if any port can be used.
    """

    within: range | None
    handles: tuple[int, ...]

    def close(self) -> None:
        """Close the handles. The range is free once all processes that inherited them have also closed them."""
        for handle in self.handles:
            os.close(handle)


def claim_ports() -> ClaimedPorts:
    """Claim a range of ports for one cluster by locking a file of this user.

    If all ranges are claimed, the result allows any port. The claim is needed because a port that is free now may
    belong to a node of another cluster that is down at the moment. Raises OSError.
    """
    directory = private_directory()
    starts = list(range(_LOWEST, _ephemeral_floor() - CLAIM, CLAIM))
    random.SystemRandom().shuffle(starts)
    for start in starts:
        handle = os.open(directory / f"ports-{start}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        return ClaimedPorts(range(start, start + CLAIM), (handle,))
    return ClaimedPorts(None, ())


def private_directory() -> Path:
    """Return the user's private directory in the system's temporary directory. Create it if missing. Raises OSError."""
    base = Path(tempfile.gettempdir())
    if len(os.fsencode(base)) > SOCKET_PATH_BYTES_MAX - 40:
        base = Path("/tmp")
    directory = base / f"zabka-{os.getuid()}"
    make_private(directory)
    return directory


def control_socket(directory: Path) -> Path:
    """Return the path of a node's control socket.

    The socket is in the node's directory. If that path is too long for a unix socket, it is in a short private
    directory in the system's temporary directory.
    """
    direct = directory / "control.sock"
    if len(os.fsencode(direct)) < SOCKET_PATH_BYTES_MAX:
        return direct
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    base = Path(tempfile.gettempdir())
    if len(os.fsencode(base)) > SOCKET_PATH_BYTES_MAX - 40:
        base = Path("/tmp")
    return base / f"zabka-{os.getuid()}" / f"{digest}.sock"


def make_private(directory: Path) -> None:
    """Create a directory that only this user can access. Raises OSError if it exists and another user owns it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    stat = directory.lstat()
    if stat.st_uid != os.getuid() or not directory.is_dir() or directory.is_symlink():
        raise OSError(f"{directory} belongs to another user")
    directory.chmod(0o700)
