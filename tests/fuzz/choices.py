"""Bytes as a source of random choices, and damaged bytes, for hypothesis, atheris and plain seeds."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

LENGTHS = (-1, 0, 1, -2, 0x7FFFFFFF, -0x80000000, 0x00FFFFFF, 0x03FFFFFF, 0x42, 8)
"""Wrong values for length fields."""


class Target(NamedTuple):
    """One fuzz target.

    `run` returns normally, or raises an undocumented error if it has found a bug. `seeds` are valid inputs.
    """

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


class Choices:
    """Choices that are read from bytes. When no bytes are left, each choice is the first option."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._pos

    def below(self, limit: int) -> int:
        """Return a number from 0 to limit - 1."""
        size = 1 if limit <= 256 else 2
        raw = self.bytes(size)
        return int.from_bytes(raw, "big") % limit if limit else 0

    def one(self, of: Sequence[T]) -> T:
        return of[self.below(len(of))]

    def bytes(self, size: int) -> bytes:
        raw = self._data[self._pos : self._pos + size]
        self._pos += size
        return raw

    def long(self) -> int:
        """Return a signed 64-bit number, usually near a limit."""
        kind = self.below(6)
        small = self.below(4) - 1
        if kind == 0:
            return int.from_bytes(self.bytes(8), "big", signed=True)
        return (small, (1 << 32) + small, (1 << 63) - 2 + min(small, 1), -(1 << 63) + small + 1, small << 32)[kind - 1]


def spoil(data: bytes, choices: Choices, edits_max: int = 3) -> bytes:
    """Return the bytes with a few changes: flipped bits, wrong lengths, and parts removed, repeated or inserted."""
    out = bytearray(data)
    for _ in range(choices.below(edits_max + 1)):
        at = choices.below(len(out) + 1)
        kind = choices.below(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << choices.below(8)
        elif kind == 1 and at < len(out):
            out[at] = choices.below(256)
        elif kind == 2:
            out[at : at + 4] = struct.pack(">i", choices.one(LENGTHS))
        elif kind == 3:
            del out[at : at + 1 + choices.below(16)]
        elif kind == 4:
            out[at:at] = out[at : at + 1 + choices.below(32)]
        else:
            out[at:at] = choices.bytes(1 + choices.below(8))
    return bytes(out)


def pieces(data: bytes, choices: Choices) -> Iterator[bytes]:
    """Split the bytes into chunks as a network could deliver them."""
    pos = 0
    while pos < len(data):
        size = choices.one((1, 2, 3, 7, 16, 64, 4096))
        yield data[pos : pos + size]
        pos += size


def lying_lengths(seed: bytes) -> Iterator[bytes]:
    """Yield copies of the seed with a huge number at each position that can be a length field."""
    for lie in (0x7FFFFFFF, 0x03FFFFFF, 0x000FFFFF):
        for at in range(0, max(1, len(seed) - 3)):
            yield seed[:at] + struct.pack(">i", lie) + seed[at + 4 :]
