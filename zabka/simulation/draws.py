"""Random numbers: one stream per purpose, all derived from one seed."""

from __future__ import annotations

from hashlib import sha256
from random import Random

from zabka.simulation.choices import ReplayedSeed
from zabka.simulation.forked_seed import ForkedSeed


def derive_random(seed: int, purpose: str) -> Random:
    """Return the seed's random stream for that purpose.

    Each purpose has its own stream, so an extra draw for one purpose does not change the draws for the others. For a
    `ReplayedSeed`, the choice sequence defines the stream. For a `ForkedSeed`, the run that is forked defines it.
    """

    def seeded(number: int) -> Random:
        return Random(int.from_bytes(sha256(f"{number}/{purpose}".encode()).digest()[:16], "big"))

    return seed.stream(purpose, seeded) if isinstance(seed, ReplayedSeed | ForkedSeed) else seeded(seed)


def draw_below(random: Random, stop: int) -> int:
    """Return the number that `random.randrange(0, stop)` would return, in half the time."""
    bits = stop.bit_length()
    drawn = random.getrandbits(bits)
    while drawn >= stop:
        drawn = random.getrandbits(bits)
    return drawn
