"""Observers of a server's connections: they receive the bytes that the server reads and writes, in order.

An observer receives the bytes when the server's program reads or writes them, regardless of losses and delays in the
network.  It draws no random numbers and affects no process, so observation does not change the history of a world.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Protocol

_LENGTH = struct.Struct(">i")


class Observer(Protocol):
    """Observer of one connection of a server."""

    def received(self, data: bytes) -> None:
        """Handle bytes that the server has read."""
        ...

    def sent(self, data: bytes) -> None:
        """Handle bytes that the server has written."""
        ...


Observe = Callable[[], Observer]
"""Returns the observer of a new connection."""


class FrameReader:
    """Splits the bytes of one direction of a connection into frames.  Each frame is preceded by its length (an int)."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    @property
    def left(self) -> int:
        """Return the number of bytes after the last whole frame."""
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
