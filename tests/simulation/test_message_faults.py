"""Faults of messages between two nodes: hold, drop or delay messages of a type.

Also tests that a node can be stopped at an event of its journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from zabka.ensemble.server.net.quorum_packets import COMMIT, SIGNATURE, SNAP, packet_bytes
from zabka.journal.events import FaultInjected, FaultRemoved, PeerStateChanged, TxnCommitted
from zabka.simulation.cluster.world import World
from zabka.simulation.faults.event_stops import EventStop
from zabka.simulation.faults.message_faults import UnknownKind, _QuorumFrames
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.settings import WorldSettings


class Ensemble:
    """Three simulated peers with a leader, and a client connected to the leader."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.world = stage.world
        self.world.start()
        self.world.until(stage.everybody_serves, 10_000, "an ensemble that serves")
        leader = self.world.leader()
        assert leader is not None
        self.leader = leader.name
        self.follower = next(machine for machine in self.world.peers.values() if machine is not leader)
        self.stage.join("a", (leader.peer_id,), 10_000)

    def create(self, path: str) -> None:
        assert self.stage.ask("a", "create", path, "") == path

    def follower_has(self, path: str) -> bool:
        service = self.follower.service
        return service is not None and path in service.tree.nodes


@contextmanager
def ensemble() -> Iterator[Ensemble]:
    world = World(1, WorldSettings(brokers=0))
    try:
        yield Ensemble(Stage(world))
    finally:
        world.end_world()


def test_held_proposals_arrive_after_they_are_released() -> None:
    with ensemble() as it:
        release = it.stage.messages.hold(it.leader, it.follower.name, "PROPOSAL")
        it.create("/x")
        it.world.run(500)
        assert not it.follower_has("/x")
        release()
        it.world.run(50)
        assert it.follower_has("/x")
        faults = [entry.event for entry in it.world.record.entries if entry.node == "world"]
    begun = FaultInjected("f1", "hold PROPOSAL", it.leader, it.follower.name, False, requester="seed")
    assert faults == [begun, FaultRemoved("f1")]


def test_delayed_commits_arrive_after_their_delay() -> None:
    with ensemble() as it:
        it.stage.messages.delay(it.leader, it.follower.name, "COMMIT", 300)
        it.create("/x")
        it.world.run(250)
        assert not it.follower_has("/x")
        it.world.run(100)
        assert it.follower_has("/x")


def test_follower_that_misses_a_proposal_syncs_again() -> None:
    with ensemble() as it:
        it.stage.messages.drop(it.leader, it.follower.name, "PROPOSAL")
        it.create("/x")
        it.create("/y")
        it.world.until(lambda: it.follower_has("/y"), 10_000, "a follower with both znodes")
        states = [e.event for e in it.world.record.entries if e.node == it.follower.name]
        assert it.follower_has("/x")
    assert [e.state for e in states if isinstance(e, PeerStateChanged)].count("LOOKING") == 2


def test_held_leader_and_isr_request_delays_a_new_leader() -> None:
    world = World(1, WorldSettings())
    stage = Stage(world)
    world.start()
    world.until(lambda: world.unsettled() is None, what="a settled cluster")
    controller = world.record.state.controller_id
    other = next(broker for broker in world.brokers if broker != controller)
    release = stage.messages.hold(f"broker-{controller}", f"broker-{other}", "LeaderAndIsr")
    made = stage.kafka.admin.create_topic("orders", assignment={0: (other,)}, timeout_ms=200)
    stage.kafka_machine.begin(made, "a topic")
    world.run(1_000)
    running = world.brokers[other].broker
    assert running is not None and not running.replicas.partitions
    release()
    world.until(lambda: bool(running.replicas.partitions), 5_000, "the replica")
    world.end_world()


def test_message_of_an_unknown_type_is_rejected() -> None:
    with ensemble() as it, pytest.raises(UnknownKind, match="no message 'PROPOSALS'; there are REQUEST"):
        it.stage.messages.hold(it.leader, it.follower.name, "PROPOSALS")


def test_quorum_packets_are_split_from_chunks_of_any_size() -> None:
    snapshot = packet_bytes(SNAP, 1) + b"tree" + SIGNATURE
    packets = [packet_bytes(COMMIT, 1), snapshot, packet_bytes(COMMIT, 2, b"data", b"\0\0\0\1\0\0\0\1a\0\0\0\1b")]
    frames = _QuorumFrames()
    found = [frame for at in b"".join(packets) for frame in frames.written(bytes([at]))]
    assert [frame.data for frame in found] == packets
    assert [frame.kind for frame in found] == ["COMMIT", "SNAP", "COMMIT"]
    assert frames.partial == 0


@pytest.mark.parametrize(("before", "written"), [(True, 0), (False, 1)])
def test_node_can_be_stopped_before_or_after_an_event(before: bool, written: int) -> None:
    with ensemble() as it:
        node = it.follower.name
        stop = EventStop(it.world, node, "txn_committed", before=before, fields={"path": "/x"})
        it.create("/x")
        it.world.run(500)
        assert stop.happened and it.follower.process is None
        assert _commits(it, node) == written


def test_node_continues_after_its_planned_stop_is_cancelled() -> None:
    with ensemble() as it:
        stop = EventStop(it.world, it.follower.name, "txn_committed")
        stop.cancel()
        it.create("/x")
        it.world.run(100)
        assert not stop.happened and it.follower_has("/x")


def _commits(it: Ensemble, node: str) -> int:
    """Return how often a node has journaled the commit of a write to /x."""
    return sum(
        isinstance(entry.event, TxnCommitted) and entry.event.path == "/x"
        for entry in it.world.record.entries
        if entry.node == node
    )
