"""Observers that learn from followers.

They reduce the load on the leader, and receive all committed transactions, but no uncommitted ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from tests.ensemble.zab.test_faults import heal_and_converge, inject, repair
from tests.ensemble.zab.zab_driver import World
from zabka.ensemble.ids import Epoch, LinkId, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.zab.effects import CloseLink, SendPackets, SetTimer
from zabka.ensemble.zab.learner import Learner
from zabka.ensemble.zab.messages import AckEpoch, FollowerInfo, Inform, Packet, PeerState, Proposal
from zabka.ensemble.zab.observer_master import MASTER_TIMER
from zabka.ensemble.zab.peer import LearnerStatus

MASTERS = {"observes_followers": True, "serves_observers": True}
OBSERVER = 4
FIRST = make_zxid(1, 1)


def world(seed: int = 1, voters: int = 3, observers: int = 1, **options: object) -> World:
    made = World(seed, voters, observers, loss=0.0, **MASTERS, **options)
    made.start()
    made.run_until(made.settled)
    return made


def source(made: World, observer: int = OBSERVER) -> int:
    role = made.nodes[observer].peer._core.role
    assert isinstance(role, Learner)
    return role.source_id


def learners(made: World, i: int) -> list[PeerId]:
    return [status.peer_id for status in made.nodes[i].peer.status().learners if isinstance(status, LearnerStatus)]


def packets(made: World, i: int) -> Iterator[Packet]:
    for _, node, effect in made.sent:
        if node == i and isinstance(effect, SendPackets):
            yield from effect.packets


def test_observer_synchronises_with_a_follower_not_the_leader() -> None:
    made = world()
    leader = made.leader()
    assert leader is not None and source(made) != leader.id
    assert OBSERVER not in learners(made, leader.id)
    assert learners(made, source(made)) == [OBSERVER]
    assert made.nodes[OBSERVER].peer.state is PeerState.OBSERVING


def test_follower_checks_its_observers_every_half_tick() -> None:
    """A follower checks its observers every half tick. ZooKeeper's ObserverMaster also pings them every tickTime /
    2.
    """
    made = World(1, 3, 1, loss=0.0, **MASTERS)
    made.record = True
    made.start()
    made.run_until(made.settled)
    made.run(1_000)
    timers = [effect for _, _, effect in made.sent if isinstance(effect, SetTimer)]
    delays_ms = [timer.delay_ms for timer in timers if timer.name == MASTER_TIMER]
    assert len(delays_ms) > 10 and set(delays_ms) == {100}


def test_follower_sends_its_observer_each_committed_write() -> None:
    made = world()
    made.record = True
    for i in (1, 2, 3, OBSERVER, OBSERVER):
        made.write(i)
    made.run_until(lambda: len(made.acknowledged) == 5 and made.converged())
    received = list(packets(made, source(made)))
    assert sum(isinstance(packet, Inform) for packet in received) == 5
    assert not any(isinstance(packet, Proposal) for packet in received)


def test_observer_gets_writes_its_follower_commits_before_leader() -> None:
    made = world()
    master, leader = source(made), made.leader()
    assert leader is not None
    made.write(master)
    made.run_until(lambda: leader.peer.last_zxid == FIRST)
    made.cut |= {(i, leader.id) for i in (1, 2, 3) if i != leader.id}  # No acknowledgement reaches the leader.
    made.run_until(lambda: made.nodes[OBSERVER].app.last_applied == FIRST)
    assert made.acknowledged and leader.app.last_applied == 0
    made.cut.clear()
    made.run_until(made.converged)


def test_sync_through_a_follower_sees_acknowledged_writes() -> None:
    made = world()
    for i in (1, 2, 3):
        made.write(i)
    made.run_until(lambda: len(made.acknowledged) == 3)
    made.sync(OBSERVER)
    made.sync(source(made))
    made.run_until(lambda: made.answered_syncs == 2)


def test_sessions_of_an_observer_are_renewed_through_a_follower() -> None:
    made = world()
    leader, here = made.leader(), made.nodes[OBSERVER]
    assert leader is not None
    here.app.touched.append((SessionId(7), 4000))
    made.run_until(lambda: (SessionId(7), 4000) in leader.app.touches)
    master = made.nodes[source(made)]
    for node, session in ((here, 7), (master, 7), (here, -3), (master, 9)):
        role = node.peer._core.role
        assert isinstance(role, Learner)
        made.turn(node, lambda node=node, session=session: _ask(node, session, made))
    made.run_until(lambda: len(here.app.revalidations) == 2 and len(master.app.revalidations) == 2)
    assert here.app.revalidations == [(7, True), (-3, False)]
    assert master.app.revalidations == [(7, True), (9, True)]


def _with_a_write_under_way(made: World) -> Any:
    """Propose a first write that no follower acknowledges, and return the leader."""
    leader = made.leader()
    assert leader is not None
    for i in {1, 2, 3} - {leader.id}:
        made.nodes[i].peer._core.role._following.on_logged = lambda zxid: None
    made.write(leader.id)
    made.run_until(lambda: leader.peer.last_zxid == FIRST)
    return leader


@pytest.mark.parametrize("options", [MASTERS, {}])
def test_observer_knows_proposals_of_a_session_that_moves_to_it(options: dict[str, bool]) -> None:
    """An observer to which a session moves knows all earlier proposals of this session.

    Otherwise it could confuse two replies: the one to the session's last request at another server, and the one to its
    first request at this observer.
    """
    made = World(1, 3, 1, loss=0.0, **options)
    made.start()
    made.run_until(made.settled)
    _with_a_write_under_way(made)
    here = made.nodes[OBSERVER]
    made.turn(here, lambda: _ask(here, 7, made))
    made.run_until(lambda: bool(here.app.revalidations))
    assert here.app.revalidated_after == [FIRST] and here.app.last_applied == 0


def test_observer_of_a_follower_works_with_a_java_leader() -> None:
    """An observer that learns from a follower also works with a ZooKeeper leader.

    ZooKeeper's reply to a session query has no zxid to wait for. But the follower has logged the proposals before it
    receives the reply.
    """
    made = world()
    leader, here = _with_a_write_under_way(made), made.nodes[OBSERVER]
    broadcast = leader.peer._core.role._broadcast
    answer = broadcast._answer
    broadcast._answer = lambda origin, packet: answer(origin, msgspec.structs.replace(packet, proposed=Zxid(-1)))
    made.turn(here, lambda: _ask(here, 7, made))
    made.run_until(lambda: bool(here.app.revalidations))
    assert here.app.revalidated_after == [FIRST] and here.app.last_applied == 0


def _ask(node, session, made):
    core = node.peer._core
    core.now = made.instant()
    core.role.ask_revalidate(SessionId(session), 4000)
    return node.peer._finish()


def test_observer_moves_to_next_follower_when_its_follower_fails() -> None:
    made = world()
    made.write(1)
    made.run_until(made.converged)
    first = source(made)
    made.stop(first)
    made.run_until(lambda: made.settled() and source(made) != first)
    leader = made.leader()
    assert leader is not None and source(made) not in (first, leader.id)
    made.write(OBSERVER)
    made.run_until(lambda: len(made.acknowledged) == 2 and made.converged())


def test_observer_leaves_a_silent_follower_for_another() -> None:
    made = world()
    leader = made.leader()
    assert leader is not None
    made.pause(source(made))
    first = source(made)
    made.run_until(lambda: made.settled() and source(made) != first)
    made.resume(first)
    made.stop(leader.id)
    made.run_until(made.settled)
    made.write(OBSERVER)
    made.run_until(lambda: len(made.acknowledged) == 1)


@pytest.mark.parametrize(
    "info",
    [
        FollowerInfo(Epoch(0), PeerId(5)),
        FollowerInfo(Epoch(99), PeerId(5), observer=True),
        FollowerInfo(Epoch(0), PeerId(5), config_version=1, observer=True),
    ],
    ids=["no observer", "a later epoch", "a later membership"],
)
def test_follower_rejects_an_observer_that_it_cannot_sync(info: FollowerInfo) -> None:
    made = world()
    follower, link = made.nodes[source(made)], LinkId(999)
    effects = follower.peer.on_link_accepted(made.instant(), link)
    effects += follower.peer.on_packets(made.instant(), link, [info])
    assert [effect.link for effect in effects if isinstance(effect, CloseLink)] == [link]


def test_observer_ahead_of_its_follower_is_disconnected() -> None:
    made = world()
    follower, link = made.nodes[source(made)], LinkId(999)
    epoch = follower.peer.current_epoch
    follower.peer.on_link_accepted(made.instant(), link)
    follower.peer.on_packets(made.instant(), link, [FollowerInfo(epoch, PeerId(5), observer=True)])
    effects = follower.peer.on_packets(made.instant(), link, [AckEpoch(make_zxid(epoch, 50), -1)])
    assert [effect.link for effect in effects if isinstance(effect, CloseLink)] == [link]


def storm(seed: int) -> World:
    random = Random(f"observer masters {seed}")
    made = World(
        seed, 3, random.choice((1, 2)), loss=random.choice((0.0, 0.05)), snap_count=random.choice((6, 1000)),
        committed_log_length=8 if seed % 2 else 500, **MASTERS,
    )  # fmt: skip
    made.cumulative = {i: random.random() < 0.7 for i in made.nodes}
    faults = random.sample(("crash", "power", "rot", "cut", "one_way", "reset", "pause"), random.randrange(1, 6))
    made.start()
    ids = tuple(made.nodes)
    for _ in range(40):
        made.run(random.choice((1, 5, 20, 80, 300, 1500)))
        for _ in range(random.randrange(0, 6)):
            made.write(random.choice(ids))
        if random.random() < 0.3:
            made.sync(random.choice(ids))
        if random.random() < 0.4:
            inject(made, random, random.choice(faults), ids)
        if random.random() < 0.35:
            repair(made, random, ids)
    return made


@pytest.mark.parametrize("first", range(0, 8, 4))
def test_invariants_hold_under_faults_and_peers_converge(first: int) -> None:
    for seed in range(first, first + 4):
        try:
            heal_and_converge(storm(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
