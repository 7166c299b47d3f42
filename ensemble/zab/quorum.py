"""Majority quorums (QuorumMaj)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from ensemble.ids import PeerId


class Quorum:
    """The voters, and what more than half of them means."""

    __slots__ = ("majority", "voters")

    def __init__(self, voters: Iterable[int]) -> None:
        self.voters: tuple[PeerId, ...] = tuple(PeerId(v) for v in sorted(set(voters)))
        self.majority = len(self.voters) // 2 + 1
        assert self.voters, "an ensemble has at least one voter"

    def contains(self, peers: Container[PeerId]) -> bool:
        """Are more than half of the voters among `peers`?"""
        return sum(voter in peers for voter in self.voters) >= self.majority

    def reached(self, marks: Mapping[PeerId, int]) -> int:
        """The highest value that a majority of voters has reached; a voter without a mark stands at -1."""
        return sorted((marks.get(voter, -1) for voter in self.voters), reverse=True)[self.majority - 1]
