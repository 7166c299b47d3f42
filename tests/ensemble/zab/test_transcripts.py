"""All packets between a leader and a returning learner, compared one by one with the expected ones."""

from __future__ import annotations

from tests.ensemble.zab.zab_driver import World
from zabka.ensemble.ids import zxid_text
from zabka.ensemble.zab.effects import SendPackets
from zabka.ensemble.zab.messages import Ack, AckEpoch, Commit, Packet, Ping, Proposal, Snap
from zabka.journal.events import LearnerSynced


def packets_sent(world: World, source: int, target: int) -> list[str]:
    """Return the packets, except pings, that `source` has sent to `target` since recording started."""
    lines = []
    for _, node, effect in world.sent:
        if node == source and isinstance(effect, SendPackets):
            found = world.links.get(effect.link)
            if found is None or found[0].nodes[1 - found[1]].id == target:
                lines += [text(packet) for packet in effect.packets if not isinstance(packet, Ping)]
    return lines


def text(packet: Packet) -> str:
    name = type(packet).__name__
    if isinstance(packet, AckEpoch):
        return f"{name} {zxid_text(packet.last_zxid)} {packet.current_epoch}"
    if isinstance(packet, Proposal):
        return f"{name} {' '.join(zxid_text(txn.zxid) for txn in packet.txns)}"
    if isinstance(packet, Snap):
        return f"{name} {zxid_text(packet.zxid)} of {len(packet.snapshot.nodes)}"
    for field in ("epoch", "accepted_epoch"):
        if hasattr(packet, field):
            return f"{name} {getattr(packet, field)}"
    return f"{name} {zxid_text(packet.zxid)}" if hasattr(packet, "zxid") else name


def settled_world(writes: int = 2, **options: object) -> World:
    world = World(11, loss=0.0, **options)  # type: ignore[arg-type]
    world.cumulative = dict.fromkeys(world.nodes, False)
    world.start()
    world.run_until(lambda: world.settled() and world.leader() is world.nodes[3])
    for _ in range(writes):
        write_and_wait(world, 3)
    world.run(50)
    return world


def write_and_wait(world: World, node: int) -> None:
    before = len(world.acknowledged)
    world.write(node)
    world.run_until(lambda: len(world.acknowledged) > before)


def modes(world: World, node: int) -> list[str]:
    return [e.mode for e in world.emitted(LearnerSynced, node) if isinstance(e, LearnerSynced)]


def test_follower_with_an_older_log_gets_a_diff() -> None:
    world = settled_world()
    world.stop(1)
    write_and_wait(world, 3)
    world.record = True
    world.start(1)
    world.run_until(world.converged)
    assert packets_sent(world, 3, 1) == [
        "LeaderInfo 1",
        "Diff 0x100000003",
        "Proposal 0x100000003",
        "Commit 0x100000003",
        "NewLeader 0x100000000",
        "UpToDate",
    ]
    world.run(50)
    assert packets_sent(world, 1, 3) == [
        "FollowerInfo 1",
        "AckEpoch 0x100000002 -1",
        "Ack 0x100000000",
        "Ack 0x100000000",
    ]


def test_uncommitted_proposal_of_a_deposed_leader_is_truncated() -> None:
    world = settled_world()
    # The leader writes the proposal only to its own disk, and then dies.
    world.isolate(3)
    world.write(3)
    world.run(40)
    assert world.nodes[3].disk.last_durable() == 0x100000003
    world.stop(3)
    for other in (1, 2):
        world.break_link(3, other)  # Data on the wire is lost.
    world.heal()
    world.run_until(world.settled)
    assert 0x100000003 not in dict(world.committed)
    world.record = True
    world.start(3)
    world.run_until(world.converged)
    leader = world.leader()
    assert leader is not None
    assert packets_sent(world, leader.id, 3) == [
        "LeaderInfo 2",
        "Trunc 0x100000002",
        "NewLeader 0x200000000",
        "UpToDate",
    ]
    assert modes(world, 3)[-1:] == ["TRUNC"]
    assert [t.zxid for t in world.nodes[3].disk.log] == [0x100000001, 0x100000002]


def test_extra_log_of_a_deposed_leader_is_replaced_by_a_snapshot() -> None:
    world = settled_world()
    world.isolate(3)
    world.write(3)
    world.run(40)
    world.stop(3)
    for other in (1, 2):
        world.break_link(3, other)  # Data on the wire is lost.
    world.heal()
    world.run_until(world.settled)
    leader = world.leader()
    assert leader is not None
    write_and_wait(world, leader.id)
    world.record = True
    world.start(3)
    world.run_until(world.converged)
    assert packets_sent(world, leader.id, 3) == [
        "LeaderInfo 2",
        "Snap 0x200000001 of 3",
        "NewLeader 0x200000000",
        "UpToDate",
    ]
    assert modes(world, 3)[-1:] == ["SNAP"] and world.nodes[3].disk.log == []


def test_proposal_logged_by_one_follower_survives_its_leader() -> None:
    world = settled_world()
    world.cut_off(3, 1)  # No packet reaches server 1.
    world.write(3)
    world.run_until(lambda: any(t.zxid == 0x100000003 for t in world.nodes[2].disk.log))
    world.stop(3)
    world.heal()
    world.run_until(lambda: world.leader() is not None)
    leader = world.leader()
    assert leader is world.nodes[2]
    world.run_until(world.settled)
    assert 0x100000003 in dict(world.nodes[1].app.entries)


def test_write_is_proposed_acknowledged_and_committed() -> None:
    world = settled_world(0)
    world.record = True
    write_and_wait(world, 1)
    world.run(50)
    kinds = [
        (node, type(packet).__name__)
        for _, node, effect in world.sent
        if isinstance(effect, SendPackets)
        for packet in effect.packets
        if isinstance(packet, Proposal | Ack | Commit)
    ]
    assert sorted(kinds) == [(1, "Ack"), (2, "Ack"), (3, "Commit"), (3, "Commit"), (3, "Proposal"), (3, "Proposal")]
    assert kinds[:2] == [(3, "Proposal"), (3, "Proposal")]
