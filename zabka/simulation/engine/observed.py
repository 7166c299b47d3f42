"""Observers of a server's connections: they receive the bytes that pass its end of each connection, in order.

An observer sees what the server's program has read and written, before the network can lose or delay it.  It draws no
random numbers and affects no process: an observed world has the same history.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Protocol

_LENGTH = struct.Struct(">i")


class Observer(Protocol):
    """Observer of one connection."""

    def received(self, data: bytes) -> None:
        """The server has read these bytes."""
        ...

    def sent(self, data: bytes) -> None:
        """The server has written these bytes."""
        ...


Observe = Callable[[], Observer]
"""Returns the observer of a new connection."""


class FrameReader:
    """Splits the bytes of one direction of a connection into frames.  The length of a frame, an int, precedes it."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    @property
    def left(self) -> int:
        """The number of bytes after the last whole frame."""
        return len(self._rest)

    def read(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that these bytes complete, without their lengths."""
        rest = self._rest + data if self._rest else data
        at, end = 0, len(rest)
        while end - at >= _LENGTH.size:
            start = at + _LENGTH.size
            stop = start + _LENGTH.unpack_from(rest, at)[0]
            if not start <= stop <= end:
                break
            yield rest[start:stop]
            at = stop
        self._rest = rest[at:]
