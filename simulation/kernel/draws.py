"""Random numbers: a stream of its own for each purpose, all of them from the one seed."""

from __future__ import annotations

from hashlib import sha256
from random import Random


def derive_random(seed: int, purpose: str) -> Random:
    """A stream of its own for each purpose, so that one more draw here shifts nothing there."""
    return Random(int.from_bytes(sha256(f"{seed}/{purpose}".encode()).digest()[:16], "big"))


def draw_below(random: Random, stop: int) -> int:
    """What `randrange(0, stop)` draws, in half its time."""
    bits = stop.bit_length()
    drawn = random.getrandbits(bits)
    while drawn >= stop:
        drawn = random.getrandbits(bits)
    return drawn
