"""Quorums: majorities, hierarchical quorums with weights, joint quorums of two memberships, and their text format."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.ensemble.zab.zab_driver import World
from zabka.ensemble.ids import Epoch, PeerId, Zxid
from zabka.ensemble.zab.election import preferred
from zabka.ensemble.zab.membership import BadMembership, Membership
from zabka.ensemble.zab.messages import Vote
from zabka.ensemble.zab.quorum import HierarchicalQuorum, JointQuorum, Quorum, QuorumSystem

NINE = HierarchicalQuorum({1: (1, 2, 3), 2: (4, 5, 6), 3: (7, 8, 9)}, {})
WEIGHTED = HierarchicalQuorum({1: (1, 2, 3, 4)}, {PeerId(1): 3, PeerId(4): 0})


def ids(*numbers: int) -> dict[PeerId, None]:
    return dict.fromkeys(PeerId(number) for number in numbers)


@pytest.mark.parametrize(("size", "needed"), [(1, 1), (2, 2), (3, 2), (5, 3), (7, 4)])
def test_majority_is_more_than_half_of_the_voters(size: int, needed: int) -> None:
    quorum = Quorum(range(1, size + 1))
    assert quorum.contains(ids(*range(1, needed + 1)))
    assert not quorum.contains(ids(*range(1, needed), 8, 9))
    marks = {PeerId(i): 10 * i for i in range(1, size + 1)}
    assert quorum.reached(marks) == 10 * (size - needed + 1)
    assert quorum.reached({PeerId(99): 5}) == -1


def test_hierarchical_quorum_needs_majorities_in_most_groups() -> None:
    assert NINE.contains(ids(1, 2, 4, 5))
    assert not NINE.contains(ids(1, 2, 3, 4, 7))
    assert NINE.reached({PeerId(i): i for i in range(1, 10)}) == 5


def test_quorum_uses_weights_and_ignores_servers_of_weight_zero() -> None:
    assert WEIGHTED.contains(ids(1))
    assert not WEIGHTED.contains(ids(2, 3, 4))
    assert (WEIGHTED.weight(PeerId(1)), WEIGHTED.weight(PeerId(4)), WEIGHTED.weight(PeerId(7))) == (3, 0, 0)


def test_group_of_weight_zero_does_not_count_for_a_quorum() -> None:
    quorum = HierarchicalQuorum({1: (1, 2, 3), 2: (4, 5)}, {PeerId(4): 0, PeerId(5): 0})
    assert quorum.contains(ids(1, 2))
    assert not quorum.contains(ids(1, 4, 5))


def test_joint_quorum_is_a_quorum_of_both_memberships() -> None:
    joint = JointQuorum(Quorum((1, 2, 3)), Quorum((3, 4, 5)))
    assert joint.voters == (1, 2, 3, 4, 5)
    assert joint.contains(ids(1, 3, 4))
    assert not joint.contains(ids(1, 2, 3))
    assert not joint.contains(ids(3, 4, 5))
    assert joint.reached({PeerId(1): 9, PeerId(2): 8, PeerId(3): 7, PeerId(4): 6, PeerId(5): 1}) == 6


@pytest.mark.parametrize(
    "quorum",
    [Quorum(range(1, 6)), WEIGHTED, JointQuorum(Quorum((1, 2, 3)), WEIGHTED), NINE],
    ids=lambda q: type(q).__name__,
)
def test_any_two_quorums_share_a_server(quorum: QuorumSystem) -> None:
    voters = quorum.voters
    quorums = [set(c) for size in range(len(voters) + 1) for c in combinations(voters, size) if quorum.contains(c)]
    assert all(one & other for one in quorums for other in quorums)


def test_server_of_weight_zero_is_never_preferred_or_needed() -> None:
    light, heavy = Vote(PeerId(4), Zxid(9), Epoch(2)), Vote(PeerId(2), Zxid(1), Epoch(1))
    assert not preferred(light, heavy, WEIGHTED)
    assert preferred(heavy, light, WEIGHTED)
    assert preferred(Vote(PeerId(1), Zxid(1), Epoch(1)), light, WEIGHTED)


# ---- as text --------------------------------------------------------------------------------------------------------

HIERARCHY = """server.1=a:1:2:participant
server.2=b:1:2:participant;0.0.0.0:3
server.3=c:1:2:observer
group.1=1:2
weight.1=2
weight.2=1
version=10000000a"""


def test_membership_is_written_and_read_in_zookeepers_format() -> None:
    membership = Membership.parse(HIERARCHY)
    assert (membership.voters, membership.observers, membership.version) == ((1, 2), (3,), 0x10000000A)
    assert membership.text == HIERARCHY
    assert isinstance(membership.quorum, HierarchicalQuorum)
    assert isinstance(Membership.parse("server.1=a:1:2\nversion=0").quorum, Quorum)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server.x=a:1:2", "not a number"),
        ("server.1=a:1", "expected host:quorumPort:electionPort"),
        ("servers.1=a:1:2", "is no key"),
        ("server.1=a:1:2\ngroup.1=1:1", "multiple groups"),
        ("server.1=a:1:2\ngroup.1=1:2", "no participant"),
        ("server.1=a:1:2\nserver.2=b:1:2\ngroup.1=1", "server 2 is not in a group"),
        ("server.1=a:1:2\nweight.1=2", "server 1 is not in a group"),
        ("server.1=a:1:2\ngroup.1=1\nweight.1=0", "weight 0"),
        ("server.1=a:1:2\nversion=q", "hexadecimal"),
    ],
)
def test_invalid_membership_is_reported_in_one_line(text: str, message: str) -> None:
    with pytest.raises(BadMembership, match=message):
        Membership.parse(text)


# ---- in an ensemble -------------------------------------------------------------------------------------------------


def membership_text(size: int, extra: str) -> str:
    return "".join(f"server.{i}=h{i}:1:2:participant\n" for i in range(1, size + 1)) + extra + "version=0"


@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_ensemble_of_any_size_survives_the_loss_of_a_minority(size: int) -> None:
    world = World(size, voters=size)
    world.start()
    world.run_until(world.settled)
    for i in range(1, (size - 1) // 2 + 1):
        world.stop(i)
    world.run_until(world.settled)
    leader = world.leader()
    assert leader is not None
    world.write(leader.id)
    world.run_until(lambda: len(world.acknowledged) == 1 and world.converged())


def test_server_of_weight_zero_follows_but_never_leads() -> None:
    world = World(3, voters=3, membership=membership_text(3, "group.1=1:2:3\nweight.3=0\n"))
    world.start()
    world.run_until(world.settled)
    assert [n.id for n in world.nodes.values() if n.app.leading is not None] == [2]
    world.stop(2)
    world.run(3_000)
    assert world.leader() is None, "server 1 has one of two votes that count"
    world.start(2)
    world.run_until(world.settled)


def test_quorum_needs_majorities_in_two_of_three_groups() -> None:
    groups = "group.1=1:2:3\ngroup.2=4:5:6\ngroup.3=7:8:9\n"
    world = World(4, voters=9, membership=membership_text(9, groups))
    for i in (1, 2, 3, 4, 7):
        world.start(i)
    world.run(3_000)
    assert world.leader() is None, "five of nine, but most of one group alone"
    world.start(5)
    world.run_until(world.settled)
    leader = world.leader()
    assert leader is not None
