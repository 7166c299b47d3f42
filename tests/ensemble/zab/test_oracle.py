"""An ensemble of two servers with an oracle (oraclePath).

The oracle is an external service that allows one of the two to be leader alone.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.ensemble.zab.zab_driver import Node, World
from zabka.ensemble.ids import PeerId
from zabka.ensemble.server.process.peer_process import oracle_agrees
from zabka.ensemble.zab.effects import Answer, Effect
from zabka.ensemble.zab.quorum import Quorum, SurvivorQuorum
from zabka.journal.events import LeaderEstablished

TICK_MS = 200
PATIENCE_MS = 5_000


class Pair(World):
    """Two voters. `chosen` is the id of the voter that the oracle allows to lead without the other, or 0."""

    def __init__(self, seed: int, voters: int = 2) -> None:
        super().__init__(seed, voters, has_oracle=True)
        self.chosen = 0

    def choose(self, i: int) -> None:
        self.chosen = i
        self.notify()

    def notify(self) -> None:
        """Send each server the oracle's decision after a short random delay, as it would reach a real server."""
        for i, node in self.nodes.items():
            if node.alive:
                self.at(self.draw((1, TICK_MS // 2)), partial(self.deliver, node, node.life, partial(self._ask, i)))

    def _ask(self, i: int) -> list[Effect]:
        return self.nodes[i].peer.on_oracle(self.instant(), i == self.chosen)

    def start(self, *ids: int) -> None:
        super().start(*ids)
        self.notify()

    def _check_answer(self, node: Node, answer: Answer) -> None:
        others = [other for other in self.nodes.values() if other.alive and other is not node and other.app.serving]
        if others or self.chosen != node.id:
            super()._check_answer(node, answer)
        else:
            zxid = answer.message.zxid  # type: ignore[union-attr]
            assert self._has_durably(node, zxid), "acknowledged by a lone server before it is durable there"
            self.acknowledged[zxid] = dict(self.committed)[zxid]

    def serve(self) -> int:
        self.run_until(self.settled, PATIENCE_MS)
        leader = self.leader()
        assert leader is not None
        return leader.id

    def lead_alone(self, i: int) -> None:
        self.run_until(lambda: self.leader() is self.nodes[i], 20_000)

    def write_some(self, i: int, count: int = 5) -> None:
        before = len(self.acknowledged)
        for _ in range(count):
            self.write(i)
        self.run_until(lambda: len(self.acknowledged) >= before + count, PATIENCE_MS)


def whole(seed: int) -> tuple[Pair, int, int]:
    """Return a `Pair` of voters with some data, the id of its leader and the id of its follower."""
    pair = Pair(seed)
    pair.start()
    leader = pair.serve()
    pair.write_some(leader)
    return pair, leader, 3 - leader


def test_single_survivor_serves_only_with_the_oracles_permission() -> None:
    pair, leader, follower = whole(1)
    pair.stop(follower)
    pair.run(3_000)
    assert pair.leader() is None and not pair.nodes[leader].app.serving


def test_leader_permitted_by_the_oracle_serves_uninterrupted() -> None:
    pair, leader, follower = whole(2)
    pair.choose(leader)
    pair.run(TICK_MS)
    pair.pause(follower)
    before = len(pair.acknowledged)
    pair.write(leader)
    pair.run(TICK_MS)
    assert len(pair.acknowledged) == before
    pair.stop(follower, power=True)
    pair.run(10 * TICK_MS)
    assert len(pair.acknowledged) == before + 1, "writes no longer wait for the follower"
    assert pair.leader() is pair.nodes[leader] and len(pair.emitted(LeaderEstablished)) == 1
    pair.write_some(leader)


def test_follower_permitted_by_the_oracle_becomes_the_leader() -> None:
    pair, leader, follower = whole(3)
    pair.stop(leader, power=True)
    pair.run(1_000)
    assert pair.leader() is None
    pair.choose(follower)
    assert pair.serve() == follower
    pair.write_some(follower)


def test_server_that_returns_follows_the_survivor_and_syncs() -> None:
    pair, leader, follower = whole(4)
    pair.choose(follower)
    pair.stop(leader)
    pair.serve()
    pair.write_some(follower)
    pair.start(leader)
    pair.run_until(pair.converged, PATIENCE_MS)
    assert pair.serve() == follower and len(pair.nodes[leader].app.entries) == 10


def test_survivor_that_loses_the_oracle_stops_within_two_ticks() -> None:
    pair, leader, follower = whole(5)
    pair.choose(leader)
    pair.stop(follower)
    pair.run(1_000)
    pair.write_some(leader)
    pair.choose(0)
    pair.run(3 * TICK_MS)
    assert pair.leader() is None


def test_writes_need_both_servers_while_both_are_connected() -> None:
    pair, leader, follower = whole(6)
    pair.choose(leader)
    pair.run(TICK_MS)
    pair.stop(follower)
    pair.start(follower)
    pair.run_until(pair.converged, PATIENCE_MS)
    pair.pause(follower)
    before = len(pair.acknowledged)
    pair.write(leader)
    pair.run(2 * TICK_MS)
    assert len(pair.acknowledged) == before, "a follower that is only slow still counts"
    pair.resume(follower)
    pair.run_until(lambda: len(pair.acknowledged) == before + 1, PATIENCE_MS)


def test_three_voters_ignore_the_oracle() -> None:
    trio = Pair(7, voters=3)
    trio.start()
    leader = trio.serve()
    trio.choose(leader)
    for i in (1, 2, 3):
        if i != leader:
            trio.stop(i)
    trio.run(3_000)
    assert trio.leader() is None


@pytest.mark.parametrize("seed", range(12))
def test_alternating_failures_of_two_servers_lose_no_writes(seed: int) -> None:
    """If the two servers fail alternately, no acknowledged write is lost.

    The driver checks this. It also checks that the histories of the two servers never diverge.
    """
    pair = Pair(100 + seed)
    pair.start()
    for _ in range(6):
        survivor = pair.draw((1, 2))
        pair.run_until(pair.converged, 20_000)
        pair.choose(survivor)
        pair.run(TICK_MS)
        pair.write_some(pair.serve(), 3)
        pair.write(pair.serve())
        pair.stop(3 - survivor, power=pair.draw((0, 1)) == 1)
        pair.lead_alone(survivor)
        pair.write_some(survivor, 3)
        pair.start()
    pair.run_until(pair.converged, 20_000)
    held = dict(pair.nodes[1].app.entries)
    assert all(zxid in held for zxid in pair.acknowledged)


def test_survivor_is_a_quorum_but_waits_for_a_connected_peer() -> None:
    quorum = SurvivorQuorum(Quorum((1, 2)), PeerId(2))
    assert quorum.contains({PeerId(2)}) and not quorum.contains({PeerId(1)}) and quorum.voters == (1, 2)
    assert quorum.reached({PeerId(2): 7}) == 7
    assert quorum.reached({PeerId(1): 5, PeerId(2): 7}) == 5
    assert quorum.reached({PeerId(1): 5}) == -1


def test_oracle_decision_is_the_first_character_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "oracle"
    assert not oracle_agrees(path)
    for text, agrees in (("1", True), ("1\n", True), ("0", False), ("", False), ("no", False)):
        path.write_text(text)
        assert oracle_agrees(path) is agrees
