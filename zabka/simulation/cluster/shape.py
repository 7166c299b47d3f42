"""Randomly chosen shape of an ensemble: number of peers, snapshot and log settings, and how the network splits data."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

CHANGES_CHANCE = 0.25


class Shape(NamedTuple):
    """Shape of an ensemble: its servers and their zoo.cfg keys.

    Of the `peers` servers, the last `observers` start as observers.
    """

    peers: int
    observers: int
    keys: dict[str, str]
    pieces: float
    """Probability that a read returns only a part of the received bytes."""
    skew_ms_max: int
    changes_members: bool
    """Whether a simulated operator changes the membership during the run."""

    @property
    def voters(self) -> int:
        """Return the initial number of voters."""
        return self.peers - self.observers


def draw_shape(random: Random) -> Shape:
    """Draw a shape with frequent snapshots and few transactions in memory, so that rare situations become frequent."""
    peers, observers = random.choice(((3, 0), (3, 0), (3, 0), (3, 0), (4, 1), (5, 0), (5, 1)))
    keys = {
        "tickTime": "500",
        "initLimit": "10",
        "syncLimit": str(random.randrange(2, 6)),
        "snapCount": str(random.choice((10, 20, 30, 50, 200))),
        "preAllocSize": str(random.choice((1, 4, 64))),
        "zabka.commitLogCount": str(random.choice((1, 10, 50, 500, 500))),
        "zabka.snapshotSizeFactor": random.choice(("0.33", "5", "1000", "1000")),
        "zabka.fsync.inlinethresholdus": random.choice(("500", "0")),
        "reconfigEnabled": "true",
        "skipACL": "yes",
        "zabka.journal.level": "full",
    }
    if random.random() < 0.7:
        keys |= {"autopurge.purgeInterval": "1", "autopurge.snapRetainCount": "3"}
    changes = random.random() < CHANGES_CHANCE
    if random.random() < 0.2:
        keys["snapshot.compression.method"] = random.choice(("gz", "snappy"))
    return Shape(peers, observers, keys, random.choice((0.0, 0.05, 0.4)), random.choice((0, 0, 500, 5_000)), changes)
