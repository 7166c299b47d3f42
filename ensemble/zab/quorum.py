"""Quorum systems: sets of servers of which any two have a server in common (QuorumVerifier).

`Quorum` is a majority (QuorumMaj). `HierarchicalQuorum` requires more than half of the weight in more than half of the
groups (QuorumHierarchical). `JointQuorum` requires a quorum of both the active and the proposed membership while a
reconfiguration is in progress (SyncedLearnerTracker). Servers that are not voters never count. `SurvivorQuorum` is an
exception: its quorums have a server in common only because an external oracle guarantees it (QuorumOracleMaj).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from zabka.ensemble.ids import PeerId


class QuorumSystem(Protocol):
    """Interface of a quorum system."""

    @property
    def voters(self) -> tuple[PeerId, ...]:
        """All servers whose votes count, in ascending order of their ids."""
        ...

    def weight(self, peer: PeerId) -> int:
        """Weight of a server's vote; a server with weight 0 cannot become leader."""
        ...

    def contains(self, peers: Container[PeerId]) -> bool:
        """Return whether `peers` contains a quorum."""
        ...

    def reached(self, marks: Mapping[PeerId, int]) -> int:
        """Return the highest value that a quorum has reached, given each voter's value.

        A voter without a value counts as -1.
        """
        ...


class Quorum:
    """Majority quorums of the voters."""

    __slots__ = ("majority", "voters")

    def __init__(self, voters: Iterable[int]) -> None:
        self.voters: tuple[PeerId, ...] = tuple(PeerId(v) for v in sorted(set(voters)))
        self.majority = len(self.voters) // 2 + 1
        assert self.voters, "an ensemble has at least one voter"

    def weight(self, peer: PeerId) -> int:
        """Return 1 for a voter: every voter has one vote."""
        return 1 if peer in self.voters else 0

    def contains(self, peers: Container[PeerId]) -> bool:
        """Return whether more than half of the voters are in `peers`."""
        return sum(voter in peers for voter in self.voters) >= self.majority

    def reached(self, marks: Mapping[PeerId, int]) -> int:
        """Return the highest value that a majority has reached, given each voter's value.

        A voter without a value counts as -1.
        """
        return sorted([marks.get(voter, -1) for voter in self.voters], reverse=True)[self.majority - 1]


class HierarchicalQuorum:
    """Hierarchical quorums: more than half of the weight in more than half of the groups.

    A group whose total weight is 0 is ignored.
    """

    __slots__ = ("_groups", "_weights", "voters")

    def __init__(self, groups: Mapping[int, Iterable[int]], weights: Mapping[PeerId, int]) -> None:
        members = [tuple(PeerId(peer) for peer in groups[group]) for group in sorted(groups)]
        self.voters: tuple[PeerId, ...] = tuple(sorted(peer for group in members for peer in group))
        self._weights = {peer: weights.get(peer, 1) for peer in self.voters}
        self._groups = [group for group in members if self._sum(group) > 0]
        assert self._groups, "an ensemble has at least one server that counts"

    def _sum(self, peers: Iterable[PeerId]) -> int:
        return sum(self._weights[peer] for peer in peers)

    def weight(self, peer: PeerId) -> int:
        """Return the configured weight of a server; 1 by default."""
        return self._weights.get(peer, 0)

    def contains(self, peers: Container[PeerId]) -> bool:
        """Return whether `peers` has more than half of the weight in more than half of the groups."""
        won = sum(2 * self._sum(peer for peer in group if peer in peers) > self._sum(group) for group in self._groups)
        return 2 * won > len(self._groups)

    def reached(self, marks: Mapping[PeerId, int]) -> int:
        """Return the highest value that a quorum has reached, given each voter's value.

        A voter without a value counts as -1.
        """
        for value in sorted({marks.get(voter, -1) for voter in self.voters}, reverse=True):
            if self.contains({voter: None for voter in self.voters if marks.get(voter, -1) >= value}):
                return value
        raise AssertionError("all voters together are a quorum")


class JointQuorum:
    """Quorums for a reconfiguration: each contains a quorum of both memberships."""

    __slots__ = ("_first", "_second", "voters")

    def __init__(self, first: QuorumSystem, second: QuorumSystem) -> None:
        self._first, self._second = first, second
        self.voters: tuple[PeerId, ...] = tuple(sorted({*first.voters, *second.voters}))

    def weight(self, peer: PeerId) -> int:
        """Return the larger of a server's weights in the two memberships."""
        return max(self._first.weight(peer), self._second.weight(peer))

    def contains(self, peers: Container[PeerId]) -> bool:
        """Return whether `peers` contains a quorum of both memberships."""
        return self._first.contains(peers) and self._second.contains(peers)

    def reached(self, marks: Mapping[PeerId, int]) -> int:
        """Return the highest value that a quorum of each membership has reached."""
        return min(self._first.reached(marks), self._second.reached(marks))


class SurvivorQuorum:
    """Quorums of two voters, of which `survivor` alone is a quorum.

    An oracle guarantees that the other voter does not continue alone. Acknowledgements of the other voter still count:
    while that voter logs proposals, both voters must have logged a proposal before it is committed.
    """

    __slots__ = ("_pair", "_survivor", "voters")

    def __init__(self, pair: QuorumSystem, survivor: PeerId) -> None:
        assert len(pair.voters) == 2 and survivor in pair.voters
        self._pair = pair
        self._survivor = survivor
        self.voters = pair.voters

    def weight(self, peer: PeerId) -> int:
        """Return the weight of one of the two voters."""
        return self._pair.weight(peer)

    def contains(self, peers: Container[PeerId]) -> bool:
        """Return whether the survivor is in `peers`."""
        return self._survivor in peers

    def reached(self, marks: Mapping[PeerId, int]) -> int:
        """Return the value that the survivor has reached.

        If both voters have a value, return the value that both have reached.
        """
        if all(voter in marks for voter in self.voters):
            return self._pair.reached(marks)
        return marks.get(self._survivor, -1)
