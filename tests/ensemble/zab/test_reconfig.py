"""Membership changes at run time: joint quorums, leader handover, joining servers, and the state after crashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.ensemble.zab.zab_driver import Node, World
from tests.simulation.injecting import broken
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import PeerId, Zxid, make_zxid
from zabka.ensemble.zab import leader as zab_leader
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.effects import Effect, SaveMembership, SaveNextMembership, SendPackets
from zabka.ensemble.zab.handover import Handover, designated_leader
from zabka.ensemble.zab.learner_link import LearnerLink, Step
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import NewLeader, PeerState, Proposal
from zabka.ensemble.zab.quorum import JointQuorum
from zabka.ensemble.zab.reconfiguration import Reconfiguration
from zabka.journal.events import LeaderEstablished, PeerStateChanged


def line(i: int, role: str = "participant", host: str = "") -> str:
    return f"server.{i}={host or f'h{i}'}:2888:3888:{role};2181"


def text(*lines: str) -> str:
    return "\n".join([*lines, "version=0"])


def ensemble(seed: int, voters: int = 3, observers: int = 0, spares: int = 0, **options: object) -> World:
    lines = [line(i) for i in range(1, voters + 1)]
    lines += [line(i, "observer") for i in range(voters + 1, voters + observers + 1)]
    world = World(
        seed,
        voters,
        observers,
        spares,
        membership=text(*lines),
        reconfig_enabled=True,
        **options,  # type: ignore[arg-type]
    )
    for i in range(voters + observers + 1, voters + observers + spares + 1):
        world.own_membership[i] = text(*lines, line(i))
    world.start()
    world.run_until(world.settled)
    return world


def leader_of(world: World) -> Node:
    leader = world.leader()
    assert leader is not None
    return leader


def reconfigure(world: World, joining: str = "", leaving: str = "", members: str = "") -> Membership:
    """Send a reconfig request to the leader, and return the membership in its reply."""
    leader, known = leader_of(world), len(world.acknowledged)
    world.reconfigure(leader.id, joining, leaving, members)
    world.run_until(lambda: len(world.acknowledged) > known)
    assert not leader.app.refusals, leader.app.refusals
    return leader.peer.membership


def write(world: World, i: int | None = None) -> None:
    known = len(world.acknowledged)
    world.write(i or leader_of(world).id)
    world.run_until(lambda: len(world.acknowledged) > known)


def all_know(world: World, membership: Membership) -> bool:
    return all(n.peer.membership.text == membership.text for n in world.nodes.values() if n.alive)


def test_first_membership_has_the_version_of_the_first_epoch() -> None:
    world = ensemble(1)
    leader = leader_of(world)
    assert leader.peer.membership.version == make_zxid(leader.peer.current_epoch, 0)
    assert leader.app.membership == (leader.peer.membership.text, leader.peer.membership.version)
    world.run_until(lambda: all_know(world, leader.peer.membership))
    world.stop(leader.id)
    world.run_until(world.settled)
    assert all_know(world, leader.peer.membership), "later leaders keep it"


def test_already_active_membership_is_not_activated_again() -> None:
    world = ensemble(1)
    leader = leader_of(world)
    known = len(leader.disk.log), leader.peer.membership
    assert not leader.peer._core.reconfiguration.activate(leader.peer.membership, None)
    assert leader.peer._finish() == []
    assert (len(leader.disk.log), leader.peer.membership) == known


def test_membership_does_not_change_while_reconfig_is_disabled() -> None:
    world = World(1, voters=3, membership=text(line(1), line(2), line(3)))
    world.start()
    world.run_until(world.settled)
    leader = leader_of(world)
    world.reconfigure(leader.id, joining=line(4, "observer"))
    world.run_until(lambda: bool(leader.app.refusals))
    assert leader.app.refusals == [ErrorCode.RECONFIG_DISABLED]
    assert all_know(world, Membership.parse(text(line(1), line(2), line(3))))


def test_unlisted_server_follows_without_a_vote_until_added() -> None:
    world = ensemble(2, spares=2)
    world.start(4, 5)
    world.run_until(world.settled)
    write(world, 4)
    leader = leader_of(world)
    others = [i for i in (1, 2, 3) if i != leader.id]
    for i in others:
        world.stop(i)
    world.run(5_000)
    assert world.leader() is None, "servers without a vote delay no election"
    world.start(*others)
    world.run_until(world.settled)
    membership = reconfigure(world, joining=f"{line(4)},{line(5)}")
    assert membership.voters == (1, 2, 3, 4, 5)
    world.run_until(lambda: all_know(world, membership))
    leader = leader_of(world)
    for i in [i for i in (1, 2, 3) if i != leader.id]:
        world.stop(i)
    write(world)


@pytest.mark.parametrize("silent", ["the old members", "the new members"])
def test_write_after_a_pending_reconfig_needs_both_quorums(silent: str) -> None:
    world = ensemble(3, spares=2)
    world.start(4, 5)
    world.run_until(world.settled)
    leader = leader_of(world)
    leaving = [i for i in (1, 2, 3) if i != leader.id]
    for i in leaving if silent == "the old members" else (4, 5):
        world.cut_off(i, leader.id, both=False)
    world.reconfigure(leader.id, members=",".join((line(leader.id), line(4), line(5))))
    world.write(leader.id)
    world.run(300)
    assert not world.acknowledged, "one of the two memberships has not logged it"
    assert all(n.disk.next_membership is not None for n in world.nodes.values())
    world.heal()
    world.run_until(lambda: len(world.acknowledged) == 2)
    assert leader.peer.membership.voters == tuple(sorted((leader.id, 4, 5)))


def test_second_reconfig_in_progress_is_rejected() -> None:
    world = ensemble(4, observers=1)
    leader = leader_of(world)
    for other in world.nodes:
        if other != leader.id:
            world.cut_off(other, leader.id, both=False)
    world.reconfigure(leader.id, joining=line(8, "observer"))
    world.reconfigure(leader.id, joining=line(9, "observer"))
    assert leader.app.refusals == [ErrorCode.RECONFIG_IN_PROGRESS]


@pytest.mark.parametrize("asks_a_follower", [False, True], ids=["at-the-leader", "at-a-follower"])
def test_write_before_a_pending_reconfig_needs_both_quorums(asks_a_follower: bool) -> None:
    """A write before a proposed reconfig also needs a quorum of the new members.

    Not even a follower that forms a quorum of the old members with its leader can commit the write.
    """
    world = ensemble(3, spares=2)
    world.start(4, 5)
    world.run_until(world.settled)
    leader = leader_of(world)
    old = [i for i in (1, 2, 3) if i != leader.id]
    world.disk_ms = (20, 20)
    world.reconfigure(leader.id, members=",".join(map(line, (leader.id, 4, 5))))
    world.run_until(lambda: all(world.nodes[i].peer.quorum.voters == (1, 2, 3, 4, 5) for i in (1, 2, 3)))
    for i in old:
        world.cut_off(leader.id, i, both=False)
    world.write(4 if asks_a_follower else leader.id)
    world.run_until(lambda: leader.peer.membership.voters == tuple(sorted((leader.id, 4, 5))))
    world.run(200)
    assert [node.disk.log[-1].zxid for node in world.nodes.values()].count(leader.peer.last_zxid) == 3, "all the new"
    assert len(world.acknowledged) == 1, "none of the old members has logged what was written"
    world.heal()
    world.run_until(world.converged)
    write(world)


def test_new_members_ahead_of_the_old_do_not_block_an_election() -> None:
    """New members that have more transactions than all old ones do not block an election.

    They cannot become leader, but the new quorum needs their acknowledgements. Their additional transactions are
    uncommitted.
    """
    world = ensemble(3, spares=2)
    world.start(4, 5)
    world.run_until(world.settled)
    leader = leader_of(world)
    old = [i for i in (1, 2, 3) if i != leader.id]
    for i in old:
        world.cut_off(i, leader.id, both=False)
    world.reconfigure(leader.id, members=",".join(map(line, (leader.id, 4, 5))))
    world.run_until(lambda: all(n.disk.next_membership is not None for n in world.nodes.values()))
    for i in old:
        world.cut_off(leader.id, i)
    proposed = leader.peer.last_zxid
    world.write(leader.id)
    world.run_until(lambda: all(world.nodes[i].disk.log[-1].zxid > proposed for i in (4, 5)))
    assert not world.acknowledged
    world.stop(leader.id)
    world.run_until(lambda: world.settled() and leader_of(world).id in (4, 5))
    write(world)
    world.heal()
    world.start(leader.id)
    world.run_until(world.converged)


def as_zookeepers_leader(core: Core, peer: LearnerLink, newleader_zxid: Zxid, membership: Membership) -> None:
    """Sync a learner as ZooKeeper's leader does.

    Send the proposals, and then the latest membership, even if that membership is only proposed.
    """
    core.send(peer.link, Proposal(tuple(core.pending)))
    peer.step = Step.SYNCING
    core.send(peer.link, NewLeader(newleader_zxid, core.reconfiguration.last_seen.text))


@pytest.mark.parametrize("names_what_it_has_seen", [False, True], ids=["ours", "zookeepers"])
def test_returning_server_does_not_activate_proposed_reconfig(names_what_it_has_seen: bool) -> None:
    """A returning server does not activate a membership that is only proposed.

    Otherwise it would send this membership to other servers, and a quorum of new members could form next to the quorum
    of old members.
    """
    world = ensemble(3, spares=3)
    world.start(4, 5, 6)
    world.run_until(world.settled)
    leader, before = leader_of(world), leader_of(world).peer.membership
    old = [i for i in (1, 2, 3) if i != leader.id]
    for i in old:
        world.cut_off(i, leader.id)
    world.reconfigure(leader.id, members=",".join(map(line, (4, 5, 6))))
    world.run(50)
    forwarding = as_zookeepers_leader if names_what_it_has_seen else zab_leader.begin_forwarding
    with broken(zab_leader, begin_forwarding=forwarding):
        world.break_link(leader.id, 4)
        world.run_until(lambda: not world.nodes[4].app.serving)
        world.run(300)
    assert all_know(world, before), "the reconfig is not committed"
    assert world.nodes[4].app.serving and isinstance(world.nodes[4].peer.quorum, JointQuorum)
    world.stop(leader.id)
    world.run_until(world.settled)
    assert leader_of(world).id in old and all_know(world, before)


def test_returning_server_gets_active_then_proposed_membership() -> None:
    """A leader sends a returning server the active membership first, and then the proposed one.

    A ZooKeeper learner regards the second one as the last membership that the leader has seen.
    """
    world = ensemble(3)
    leader, before = leader_of(world), leader_of(world).peer.membership
    back = next(i for i in (1, 2, 3) if i != leader.id)
    for i in (1, 2, 3):
        world.cut_off(i, leader.id, both=False)
    world.reconfigure(leader.id, joining=line(4, "observer"))
    world.heal()
    world.record = True
    with broken(zab_leader.Leader, _on_ack=lambda self, peer, zxid: None):
        world.break_link(leader.id, back)
        world.run_until(lambda: not world.nodes[back].app.serving)
        world.run(100)
    sends = [effect for _, node, effect in world.sent if node == leader.id and isinstance(effect, SendPackets)]
    packets = next(each.packets for each in sends if any(isinstance(packet, NewLeader) for packet in each.packets))
    at = [isinstance(packet, NewLeader) for packet in packets].index(True)
    assert packets[at].config == before.text
    assert [type(packet) for packet in packets[at:]] == [NewLeader, Proposal]


@pytest.mark.parametrize("at_a_follower", [False, True], ids=["at-the-leader", "at-a-follower"])
def test_observer_gets_no_vote_from_an_uncommitted_reconfig(at_a_follower: bool) -> None:
    """A returning observer does not become a voter because of a proposed reconfig.

    It receives only committed transactions, so only a membership in another message could cause this.
    """
    masters = {"observes_followers": at_a_follower, "serves_observers": at_a_follower}
    world = ensemble(3, observers=1, spares=2, **masters)
    world.start(5, 6)
    world.run_until(world.settled)
    leader, before = leader_of(world), leader_of(world).peer.membership
    for i in [i for i in (1, 2, 3) if i != leader.id]:
        world.cut_off(i, leader.id, both=False)
    world.reconfigure(leader.id, members=",".join(map(line, (4, 5, 6))))
    world.run_until(lambda: all(world.nodes[i].peer.quorum.voters == (1, 2, 3, 4, 5, 6) for i in (1, 2, 3)))
    for i in (1, 2, 3):
        world.break_link(i, 4)
    world.run_until(lambda: not world.nodes[4].app.serving)
    world.run_until(lambda: world.nodes[4].app.serving, 500)
    assert all_know(world, before)


def test_reconfig_needs_a_synced_quorum_of_the_new_membership() -> None:
    world = ensemble(5)
    leader = leader_of(world)
    world.reconfigure(leader.id, joining=f"{line(4)},{line(5)},{line(6)}")
    world.run(200)
    assert leader.app.refusals == [ErrorCode.NEW_CONFIG_NO_QUORUM]


def test_removed_leader_hands_over_and_follows_without_a_vote() -> None:
    world = ensemble(6)
    leader = leader_of(world)
    others = tuple(i for i in (1, 2, 3) if i != leader.id)
    epoch = leader.peer.current_epoch
    began = world.now_ms
    membership = reconfigure(world, leaving=str(leader.id))
    assert membership.voters == others
    world.run_until(lambda: world.settled() and leader_of(world).id in others)
    assert world.now_ms - began < 400, "no election is needed"
    assert leader_of(world).peer.current_epoch == epoch + 1
    write(world, leader.id)
    world.stop(leader.id)
    write(world)


def test_designated_leader_has_the_longest_log() -> None:
    world = ensemble(7, voters=5)
    leader = leader_of(world)
    slow = max(i for i in range(1, 6) if i != leader.id)
    world.cut_off(leader.id, slow)
    reconfigure(world, leaving=str(leader.id))
    world.run_until(lambda: world.leader() not in (None, leader))
    assert leader_of(world).id != slow


@pytest.mark.parametrize("seed", range(3))
def test_observers_and_voters_can_exchange_roles(seed: int) -> None:
    world = ensemble(seed, voters=3, observers=1)
    leader = leader_of(world)
    demoted = next(i for i in (1, 2, 3) if i != leader.id)
    membership = reconfigure(world, joining=f"{line(4)},{line(demoted, 'observer')}")
    assert (4 in membership.voters, membership.observers) == (True, (demoted,))
    world.run_until(lambda: world.settled() and all_know(world, membership))
    states = {n.id: n.peer.state.name for n in world.nodes.values()}
    assert states[demoted] == "OBSERVING" and states[4] in ("FOLLOWING", "LEADING")
    world.stop(demoted)
    write(world)


def test_leader_that_becomes_an_observer_hands_over() -> None:
    world = ensemble(8, voters=4)
    leader = leader_of(world)
    reconfigure(world, joining=line(leader.id, "observer"))
    world.run_until(lambda: world.settled() and leader_of(world).id != leader.id)
    world.run_until(lambda: leader.peer.state.name == "OBSERVING" and leader.app.serving)
    write(world, leader.id)


def test_leader_that_moves_to_a_new_address_hands_over() -> None:
    world = ensemble(9)
    leader = leader_of(world)
    reconfigure(world, joining=line(leader.id, host="elsewhere"))
    world.run_until(lambda: world.settled() and leader_of(world).id != leader.id)
    assert world.nodes[1].reaches is not None
    assert world.nodes[1].reaches[0].lines[leader.id].host == "elsewhere"


def test_server_of_weight_zero_is_not_designated_as_leader() -> None:
    before = Membership.parse(text(*map(line, (1, 2, 3, 4))))
    after = Membership.parse(text(*map(line, (2, 3, 4)), "group.1=2:3:4", "weight.2=1", "weight.3=1", "weight.4=0"))
    logged = {PeerId(2): 7, PeerId(3): 8, PeerId(4): 9}
    assert designated_leader(PeerId(1), before, after, logged) == 3


@pytest.mark.parametrize("voters", [1, 2])
def test_single_server_moved_to_a_new_address_stays_leader(voters: int) -> None:
    """A single server that moves to a new address by reconfig stays leader, because there is no server to hand over to.

    After a restart, it finds its logged transactions again.
    """
    world = ensemble(9, voters, standalone_enabled=False)
    leader = leader_of(world)
    membership = reconfigure(world, members=line(leader.id, host="elsewhere"))
    assert membership.lines[leader.id].host == "elsewhere"
    write(world, leader.id)
    world.stop(leader.id)
    world.start(leader.id)
    world.run_until(lambda: world.leader() is leader)
    assert leader.peer.membership == membership


def test_server_that_missed_a_reconfig_gets_it_on_rejoining() -> None:
    world = ensemble(10, voters=5)
    leader = leader_of(world)
    away = next(i for i in range(1, 6) if i != leader.id)
    left = next(i for i in range(1, 6) if i not in (leader.id, away))
    world.stop(away)
    world.run_until(world.settled)
    membership = reconfigure(world, leaving=str(left))
    world.start(away)
    world.run_until(lambda: world.settled() and all_know(world, membership))
    assert all_know(world, membership)


def test_server_rejects_a_leader_with_an_older_membership() -> None:
    """A server with a newer membership rejects a leader with an older one.

    Two of five servers that missed the reconfiguration form no quorum, and must not mislead other servers.
    """
    world = ensemble(11, voters=3, spares=2)
    world.start(4, 5)
    world.run_until(world.settled)
    leader = leader_of(world)
    lagging = [i for i in (1, 2, 3) if i != leader.id]
    world.cut_off(leader.id, lagging[0])
    membership = reconfigure(world, members=",".join((line(leader.id), line(4), line(5))))
    world.run_until(
        lambda: all(world.nodes[i].peer.membership.version == membership.version for i in (leader.id, 4, 5))
    )
    for i in (leader.id, 4, 5):
        world.stop(i)
    world.heal()
    world.run(5_000)
    assert world.leader() is None
    world.start(4, 5)
    world.run_until(world.settled)
    assert leader_of(world).id in (4, 5)


@pytest.mark.parametrize("seed", range(6))
def test_next_leader_completes_an_uncommitted_reconfiguration(seed: int) -> None:
    """The next leader commits a reconfiguration that was logged but not committed.

    All servers log it and lose power before it is committed.
    """
    world = ensemble(20 + seed, voters=3, spares=1)
    world.start(4)
    world.run_until(world.settled)
    leader = leader_of(world)
    before = leader.peer.membership
    world.reconfigure(leader.id, joining=line(4))
    world.run_until(
        lambda: (
            all(
                n.disk.next_membership is not None and n.disk.synced == len(n.disk.log) > 0
                for n in world.nodes.values()
            )
            or leader.peer.membership != before
        )
    )
    for i in world.nodes:
        world.stop(i, power=True)
    world.start(1, 2, 3, 4)
    world.run_until(lambda: world.settled() and 4 in leader_of(world).peer.membership.voters)
    world.run_until(lambda: all_know(world, leader_of(world).peer.membership))
    assert all(n.disk.next_membership is None for n in world.nodes.values() if not n.queue)


def test_leader_that_resigns_after_a_reconfig_names_the_reconfig() -> None:
    """A leader that resigns because of a completed reconfiguration gives it as the reason, not the loss of a voter.

    The new epoch needs the acknowledgement of server 4, an observer that the uncommitted membership makes a voter. When
    the reconfiguration is completed, server 4 is not in sync.
    """
    world = ensemble(31, voters=3, observers=1)
    leader = leader_of(world)
    stays, leaves = (i for i in (1, 2, 3) if i != leader.id)
    world.reconfigure(leader.id, members=",".join(map(line, (leader.id, stays, 4))))
    world.run_until(lambda: all(world.nodes[i].disk.next_membership is not None for i in (1, 2, 3)))
    for i in world.nodes:
        world.stop(i)
    began = len(world.events)
    world.start(leader.id, leaves, 4)
    world.run_until(lambda: any(isinstance(event, LeaderEstablished) for _, _, event in world.events[began:]))
    assert leader_of(world) is leader and leader.peer.membership.voters == tuple(sorted((leader.id, stays, 4)))
    world.pause(4)
    world.run_until(lambda: leader.peer.state is PeerState.LOOKING)
    ended = world.emitted(PeerStateChanged, leader.id)[-1]
    assert isinstance(ended, PeerStateChanged)
    assert (ended.state, ended.caused_by) == ("LOOKING", "request reconfig")
    world.resume(4)
    world.run_until(world.settled)
    write(world)


def test_reconfig_logged_only_by_its_leader_is_undone() -> None:
    world = ensemble(30, voters=3)
    leader = leader_of(world)
    world.isolate(leader.id)
    world.reconfigure(leader.id, leaving=str(next(i for i in (1, 2, 3) if i != leader.id)))
    world.run_until(lambda: leader.disk.next_membership is not None)
    world.run_until(lambda: world.leader() not in (None, leader))
    write(world)
    world.heal()
    world.run_until(world.converged)
    assert leader.peer.membership.voters == (1, 2, 3)
    assert leader.disk.next_membership is None, "a stale proposal must not bind it for ever"


def stir(seed: int) -> World:
    """Start and stop servers of a world, alone or together, with faults.

    The driver checks all leaders, commits and replies.
    """
    world = ensemble(100 + seed, voters=3, spares=2)
    world.start(4, 5)
    random = world.random
    for _ in range(12):
        leader = world.leader()
        if leader is not None:
            change(world, leader)
        for i in world.nodes:
            world.write(i)
        hit = random.randrange(1, 6)
        kind = random.randrange(0, 4)
        if kind == 0:
            world.stop(hit, power=random.random() < 0.5)
        elif kind == 1:
            world.isolate(hit)
        elif kind == 2:
            world.cut_off(hit, 1 + hit % 5, both=False)
        world.run(random.randrange(50, 1500))
        if random.random() < 0.5:
            world.heal()
            world.start(1, 2, 3, 4, 5)
        world.run(random.randrange(50, 1500))
    world.heal()
    world.start(1, 2, 3, 4, 5)
    world.run_until(world.converged, 60_000)
    write(world)
    return world


def change(world: World, leader: Node) -> None:
    random = world.random
    i = random.randrange(1, 6)
    if random.random() < 0.4:
        members = [line(i) for i in range(1, 6) if random.random() < 0.6]
        world.reconfigure(leader.id, members=",".join(members) or line(i))
    elif i in leader.peer.membership.voters:
        world.reconfigure(leader.id, leaving=str(i))
    else:
        world.reconfigure(leader.id, joining=line(i, random.choice(("participant", "participant", "observer"))))


@pytest.mark.parametrize("seed", range(12))
def test_reconfigs_under_faults_lose_no_acknowledged_write(seed: int) -> None:
    stir(seed)


# ------ injected bugs ------------------------------------------------------------------------------------------------


@contextmanager
def only_the_old_members_decide() -> Iterator[None]:
    """Injected bug: activate a membership before a quorum of the new members has logged it."""

    def contains(self: JointQuorum, peers: Any) -> bool:
        return self._first.contains(peers)

    def reached(self: JointQuorum, marks: Any) -> int:
        return self._first.reached(marks)

    with broken(JointQuorum, contains=contains, reached=reached):
        yield


@contextmanager
def memberships_are_forgotten_in_a_restart() -> Iterator[None]:
    """Injected bug: write neither the active nor the proposed membership to disk."""
    to_disk = Core.to_disk

    def forgetful(self: Core, effect: Effect) -> None:
        if not isinstance(effect, SaveMembership | SaveNextMembership):
            to_disk(self, effect)

    with broken(Core, to_disk=forgetful):
        yield


@contextmanager
def a_proposed_membership_is_in_force_at_once() -> Iterator[None]:
    """Injected bug: activate a membership when it is logged, before a quorum of the old members has logged it.

    The ensemble can then split in two.
    """

    def see(self: Reconfiguration, membership: Membership) -> None:
        if membership.version > self.current.version:
            self.activate(membership, self._core.role.leader_id if self._core.role is not None else self._core.my_id)

    with broken(Reconfiguration, see=see):
        yield


@contextmanager
def a_leader_that_left_goes_on() -> Iterator[None]:
    """Injected bug: a leader that has handed over leadership continues to lead and to commit."""
    activate = Handover._activate

    def stays(self: Handover, membership: Membership, logged: Any) -> PeerId:
        designated = activate(self, membership, logged)
        self.successor = None
        return designated

    with broken(Handover, _activate=stays):
        yield


@pytest.mark.parametrize(
    ("bug", "first_seed", "shows"),
    [
        (only_the_old_members_decide, 0, "was acknowledged, but is not durable on a quorum"),
        (memberships_are_forgotten_in_a_restart, 195, "was acknowledged, but is not durable on a quorum"),
        (a_proposed_membership_is_in_force_at_once, 45, "not reached within 30000 ms"),
    ],
    ids=lambda bug: getattr(bug, "__name__", None),
)
def test_injected_reconfig_bug_is_detected(
    bug: Callable[[], AbstractContextManager[None]], first_seed: int, shows: str
) -> None:
    """Each injected bug is detected. The search starts near the first seed that finds it (1, 200 and 48)."""
    with bug(), pytest.raises(AssertionError, match=shows):
        for seed in range(first_seed, first_seed + 150):
            stir(seed)


def test_missing_leader_hand_over_after_reconfig_is_detected() -> None:
    """A leader that does not hand over after it has left the membership is detected, although no seed finds it.

    With a seed, the leader's learners leave it and then elect it again, so nothing goes wrong. In this test the leader
    has moved to a new address, so it cannot be elected again.
    """
    with a_leader_that_left_goes_on(), pytest.raises(AssertionError, match="not reached within 30000 ms"):
        test_leader_that_moves_to_a_new_address_hands_over()
