"""Random numbers: a stream of its own for each purpose, all of them from the one seed."""

from __future__ import annotations

from hashlib import sha256
from random import Random

from zabka.simulation.kernel.tape import TapedSeed


def derive_random(seed: int, purpose: str) -> Random:
    """A stream of its own for each purpose, so that one more draw here shifts nothing there.

    Where the seed is that of a run that plays a tape, it is the stream that the tape has.
    """

    def seeded(number: int) -> Random:
        return Random(int.from_bytes(sha256(f"{number}/{purpose}".encode()).digest()[:16], "big"))

    return seed.stream(purpose, seeded) if isinstance(seed, TapedSeed) else seeded(seed)


def draw_below(random: Random, stop: int) -> int:
    """What `randrange(0, stop)` draws, in half its time."""
    bits = stop.bit_length()
    drawn = random.getrandbits(bits)
    while drawn >= stop:
        drawn = random.getrandbits(bits)
    return drawn
