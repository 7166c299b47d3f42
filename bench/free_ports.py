"""Loopback ports for servers that are started a moment later.

A port that the kernel picks (port 0) and that is let go of can be picked again, for another server of the same ensemble
or for anybody's connection, before its server listens there. These lie below the range that Linux, macOS and Windows
take ports of connections from (32768 or 49152), and a process is never given one twice before it has been given all.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import islice

_FIRST, _END = 20_000, 32_000
# Workers of one test run have process ids that lie close together; this far apart they begin.
_APART = 4_999


def _ports() -> Iterator[int]:
    begin = os.getpid() * _APART
    while True:
        for n in range(_END - _FIRST):
            yield _FIRST + (begin + n) % (_END - _FIRST)


_next = _ports()


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """So many different ports where nobody listens; OSError when there are not so many."""
    found = list(islice(filter(_is_free, islice(_next, _END - _FIRST)), count))
    if len(found) < count:
        raise OSError(f"no {count} of the ports {_FIRST} to {_END - 1} are free")
    return found
