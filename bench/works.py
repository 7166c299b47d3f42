"""The works that are measured: which operation, on how many connections, with how many requests in flight on each.

Each side does the same number of them, so that what they leave behind is the same: whoever is quicker in a fixed time
makes the larger tree, and is measured on it.
"""

from __future__ import annotations

from typing import NamedTuple


class Work(NamedTuple):
    """One kind of load; `op` is zkload's name of the operation, `usual_per_s` about what Apache ZooKeeper does of it in
    a second on two cores: how many are enough for a measurement of so many seconds follows from it."""

    name: str
    op: str
    connections: int
    window: int
    title: str
    usual_per_s: int

    def ops(self, seconds: float) -> int:
        """How many take ZooKeeper about that long."""
        return max(1, round(self.usual_per_s * seconds))


WORKS = {
    work.name: work
    for work in (
        Work("set", "set", 16, 32, "set, 16 x 32", 16_000),
        Work("create", "create", 16, 32, "create, 16 x 32", 14_000),
        Work("get", "get", 16, 32, "get, 16 x 32", 50_000),
        Work("mix", "mix", 16, 32, "mix 2:1, 16 x 32", 20_000),
        Work("set64", "set", 64, 1, "set, 64 x 1", 8_500),
        Work("set1", "set", 1, 1, "set, 1 x 1", 2_000),
    )
}
"""By name, in the order of the table.  16 x 32 is 16 connections with 32 requests in flight on each."""


def parse_works(text: str) -> list[Work]:
    """Works by their names, separated by commas, each once, in the order of the table.  Raises ValueError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in WORKS]
    if unknown or not names:
        wrong = f"there is no work called {', '.join(unknown)}" if unknown else "no work is named"
        raise ValueError(f"{wrong}; the works are {', '.join(WORKS)}")
    return [work for work in WORKS.values() if work.name in names]
