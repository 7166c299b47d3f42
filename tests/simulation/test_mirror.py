"""Mirrored worlds: a simulated cluster gets the controller, leaders, ISRs and lag of a live one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from tests.simulation.live_states import ORDERS, SINGLE, lagging, live, with_broker_down
from zabka.ensemble.runtime.link_fault import LinkFault
from zabka.journal.events import TopicPartition
from zabka.simulation.mirror.live_state import (
    PARTITIONS_MAX,
    LivePartition,
    LiveState,
    LiveTopic,
    NoMirror,
    mirrored,
)
from zabka.simulation.mirror.mirrored_world import MirroredWorld

ALL = -1


@contextmanager
def built(state: LiveState, killed: str = "broker-1") -> Iterator[MirroredWorld]:
    mirror = MirroredWorld(1, mirrored(state, killed, ALL))
    try:
        mirror.build()
        yield mirror
    finally:
        mirror.world.end_world()
        gc.unfreeze()


def test_world_has_the_live_roles_leaders_and_isrs() -> None:
    with built(live(ORDERS, SINGLE)) as mirror:
        world, znodes = mirror.world, mirror.world.replication.znodes
        leader = world.leader()
        assert leader is not None
        assert leader.name == mirror.source.name("peer-2")
        assert world.record.state.controller_id == 3
        assert mirror.differences == []
        found = {
            (name.topic, name.partition): (state.leader, sorted(state.isr)) for name, state in znodes.states.items()
        }
        assert found == {("orders", 0): (2, [1, 2, 3]), ("orders", 1): (3, [1, 2, 3]), ("single", 0): (2, [2])}
        orders = znodes.topics["orders"].partitions
        assert {number: each.replicas for number, each in orders.items()} == {0: (1, 2, 3), 1: (3, 1, 2)}
        assert mirror.producing is not None
        assert mirror.producing.acknowledged > 0


def test_out_of_sync_replica_stays_out_and_has_its_lag() -> None:
    with built(live(lagging(80))) as mirror:
        world, name = mirror.world, TopicPartition("lagging", 0)
        assert mirror.differences == []
        world.run(5_000)
        assert world.replication.znodes.states[name].isr == (2,)
        replica = world.brokers[1].broker
        end = world.replication.leader_log_end(name)
        assert replica is not None
        assert end is not None
        assert end - replica.replicas.partitions[name].log.end_offset >= 80


def test_dead_broker_with_a_session_dies_in_the_world_too() -> None:
    brokers = with_broker_down(1, registered=True)
    with built(live(ORDERS, brokers=brokers), "broker-2") as mirror:
        assert mirror.world.brokers[1].process is None
        assert 1 in mirror.world.replication.znodes.brokers
        mirror.world.until(lambda: 1 not in mirror.world.replication.znodes.brokers)


def test_unregistered_broker_never_starts_in_the_world() -> None:
    partition = LivePartition(0, (1, 2, 3), 2, (2, 3))
    state = live(LiveTopic("orders", {}, (partition,)), brokers=with_broker_down(1, registered=False))
    with built(state, "broker-2") as mirror:
        assert mirror.differences == []
        assert "broker-1" not in {entry.node for entry in mirror.world.record.entries}


def test_brokers_with_other_numbers_keep_their_places() -> None:
    nodes = tuple(msgspec.structs.replace(each, id=each.id * 100 + 1) for each in live().brokers)
    partition = LivePartition(0, (301, 101), 301, (101, 301))
    state = live(LiveTopic("t", {}, (partition,)), brokers=nodes, controller=201)
    with built(state, "broker-301") as mirror:
        assert mirror.source.name("broker-301") == "broker-3"
        assert mirror.world.record.state.controller_id == 2
        assert mirror.world.replication.znodes.states[TopicPartition("t", 0)].leader == 3


def test_live_cut_of_a_link_is_a_fault_of_the_world() -> None:
    cut = LinkFault("broker-1", "broker-2", "cut")
    others = LinkFault("client:shop-*", "broker-1", "cut")
    with built(live(ORDERS, faults=(cut, others)), "broker-3") as mirror:
        assert [(fault.source, fault.target) for fault in mirror.world.brokers[1].faults.faults] == [
            ("broker-1", "broker-2")
        ]
        assert "Faults of other links: cut of clients to broker-1." in mirror.source.limits


def test_what_is_left_out_is_named() -> None:
    leaderless = LivePartition(1, (1,), -1, (1,))
    topic = LiveTopic("orders", {"retention.ms": "1"}, (*ORDERS.partitions[:1], leaderless))
    many = LiveTopic("wide", {}, tuple(LivePartition(each, (1,), 1, (1,)) for each in range(PARTITIONS_MAX)))
    internal = LiveTopic("__consumer_offsets", {}, ORDERS.partitions)
    found = mirrored(live(many, topic, internal), "broker-2", ALL)
    assert [(each.name, len(each.partitions)) for each in found.topics] == [("orders", 1), ("wide", PARTITIONS_MAX - 1)]
    assert f"1 of {PARTITIONS_MAX + 1} partitions: a forecast has at most {PARTITIONS_MAX}." in found.limits
    assert "Partitions that have no leader already: orders-1." in found.limits
    assert "Overrides of topics that do not decide who leads: retention.ms." in found.limits


@pytest.mark.parametrize(
    ("changes", "killed", "reason"),
    [
        ({"controller": -1}, "broker-1", "no controller now"),
        ({"zab_leader": -1}, "broker-1", "no known leader now"),
        ({}, "broker-9", "there is no node broker-9"),
        ({"brokers": with_broker_down(1, registered=True)}, "broker-1", "broker-1 is down already"),
        ({"peers": with_broker_down(2, registered=True)}, "peer-2", "peer-2 is down already"),
    ],
)
def test_state_without_a_forecast_is_refused(changes: dict[str, object], killed: str, reason: str) -> None:
    with pytest.raises(NoMirror, match=reason):
        mirrored(live(**changes), killed, ALL)
