"""Finds free loopback ports for servers that start a moment later.

A port that the kernel picks (port 0) can be given to another process before the server listens on it. These ports are
below the ranges that Linux, macOS and Windows use for outgoing connections (from 32768 or 49152). A process gets the
same port again only after it has gone through the whole range.
"""

from __future__ import annotations

import os
import socket
from itertools import count as numbers
from itertools import islice

_FIRST, _END = 20_000, 32_000
_APART = 4_999
"""Distance between the first ports of two processes with consecutive ids, such as the workers of one test run."""
_next = (_FIRST + n % (_END - _FIRST) for n in numbers(os.getpid() * _APART))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return `count` different ports on which no process listens.  Raises OSError if fewer are free."""
    found = list(islice(filter(_is_free, islice(_next, _END - _FIRST)), count))
    if len(found) < count:
        raise OSError(f"no {count} of the ports {_FIRST} to {_END - 1} are free")
    return found
