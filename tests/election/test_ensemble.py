"""How clients, brokers and the controller are affected if the ensemble loses its leader or its quorum."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.exceptions import KazooException

from tests.election import broker_sessions
from zabka.ensemble.client.kazoo import KazooClient
from zabka.simulation.workloads.writer import Writer
from zabka.testing.cluster import Cluster, Peer, only
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.worlds.cluster import SimulatedCluster

LEADERS_KILLED = 10
LEADERS_KILLED_LIVE = 4


def another_leader(cluster: Cluster, dead: Peer) -> Peer:
    return cluster.until(
        lambda: (leader := cluster.zab_leader) is not None and leader.id != dead.id and leader,
        what="another ZAB leader",
    )


def kill_the_leader(cluster: Cluster) -> Peer:
    """Kill the ZAB leader, and wait for another one. Then restart the killed peer as a follower, and return the new
    leader.
    """
    dead = cluster.until(lambda: cluster.zab_leader)
    killed_us = cluster.now_us
    dead.kill()
    leader = another_leader(cluster, dead)
    (established,) = cluster.until(lambda: cluster.events("leader_established", after_us=killed_us))
    assert established["leader_id"] == leader.id
    dead.start()
    cluster.until(lambda: (dead.state, dead.phase) == ("FOLLOWING", "BROADCAST"), what=f"{dead.name} as a follower")
    return leader


def nothing_was_elected(cluster: Cluster, since_us: int) -> None:
    """Assert that no broker session expired, and that the controller and partition leaders have not changed.

    Elections of preferred replicas are allowed, because the controller runs them from time to time.
    """
    kinds = ("controller_elected", "controller_resigned", "leader_elected", "isr_changed")
    changes = cluster.events(*kinds, after_us=since_us)
    assert [change for change in changes if change.get("cause") != "preferred"] == []
    assert broker_sessions.expired(cluster, since_us) == []
    assert only(cluster.events("broker_session_changed", after_us=since_us), state="expired") == []


def kill_leaders(cluster: Cluster, count: int) -> None:
    """Kill ZAB leaders one after the other while a producer runs."""
    cluster.topics.create("orders", partitions=3)
    cluster.until(lambda: all(partition.in_sync for partition in cluster.topics["orders"].partitions))
    controller = cluster.until(lambda: cluster.controller)
    epoch = cluster.controller_epoch
    workload = cluster.workload("orders", records_per_s=50)
    cluster.until(lambda: workload.counts.acknowledged > 10)
    since_us = cluster.now_us

    for _ in range(count):
        kill_the_leader(cluster)

    cluster.until(lambda: all(broker.registered for broker in cluster.brokers.values()))
    nothing_was_elected(cluster, since_us)
    assert cluster.controller == controller
    assert cluster.controller_epoch == epoch
    # Brokers still acknowledge records, because producing does not need the ensemble.
    counts = workload.stop()
    assert (counts.failed, counts.lost, counts.verified) == (0, 0, True)
    epochs = [event["epoch"] for event in cluster.events("leader_established", after_us=since_us)]
    assert len(set(epochs)) == count
    assert epochs == sorted(epochs)


@contextmanager
def writing(hosts: str) -> Iterator[list[int]]:
    """Run a client that creates one znode after the other. Yield the list of the acknowledged numbers, which grows."""
    acknowledged: list[int] = []
    done = threading.Event()
    client = KazooClient(hosts, timeout=6.0)
    client.start()
    client.ensure_path("/written")

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            try:
                client.create(f"/written/{number}", str(number).encode())
            except KazooException:
                # It is unknown whether this unacknowledged write was applied.
                done.wait(0.02)
            else:
                acknowledged.append(number)

    thread = threading.Thread(target=write, name="writer")
    thread.start()
    try:
        yield acknowledged
    finally:
        done.set()
        thread.join(30)
        client.stop()
        client.close()


@pytest.mark.parametrize("count", [LEADERS_KILLED_LIVE, pytest.param(LEADERS_KILLED, marks=pytest.mark.long)])
def test_killing_leaders_in_turn_loses_no_acknowledged_write(zabka_cluster: LiveCluster, count: int) -> None:
    reader = KazooClient(zabka_cluster.zookeeper_connect, timeout=6.0)
    reader.start()
    try:
        session = reader.client_id
        with writing(zabka_cluster.zookeeper_connect) as acknowledged:
            zabka_cluster.until(lambda: len(acknowledged) > 100)
            kill_leaders(zabka_cluster, count)
            before = len(acknowledged)
            zabka_cluster.until(lambda: len(acknowledged) > before + 10)

        reader.sync("/written")
        stored = {int(name) for name in reader.get_children("/written")}
        assert [number for number in acknowledged if number not in stored] == []
        assert all(reader.get(f"/written/{number}")[0] == str(number).encode() for number in acknowledged[-100:])
        assert reader.client_id == session
        reader.delete("/written", recursive=True)
    finally:
        reader.stop()
        reader.close()


def test_killing_ten_zab_leaders_loses_no_acknowledged_write(zabka_world: SimulatedCluster) -> None:
    world = zabka_world.world
    client, machine = world.zookeeper_client("writer")
    writer = Writer(client, machine.runtime(), 20)
    zabka_world.until(lambda: writer.acknowledged > 10)

    kill_leaders(zabka_world, LEADERS_KILLED)

    before = writer.acknowledged
    zabka_world.until(lambda: writer.acknowledged > before + 10)
    assert writer.violations == []


def test_produce_works_without_zk_quorum_but_election_does_not(cluster: Cluster) -> None:
    cluster.topics.create("orders", partitions=3)
    cluster.until(lambda: all(partition.in_sync for partition in cluster.topics["orders"].partitions))
    controller = cluster.until(lambda: cluster.controller)
    epoch = cluster.controller_epoch
    session_s = int(cluster.settings()["zookeeper.session.timeout.ms"]) / 1000
    leader = cluster.until(lambda: cluster.zab_leader)
    other, left = (peer for peer in cluster.peers.values() if peer.id != leader.id)
    workload = cluster.workload("orders", records_per_s=50)
    cluster.until(lambda: workload.counts.acknowledged > 10)

    since_us = cluster.now_us
    # Kill the follower first. If the leader died first, the two other servers might elect one of themselves before the
    # second kill, and the last server would then wait for initLimit.
    other.kill()
    leader.kill()
    cluster.until(lambda: left.state == "LOOKING")
    # Wait longer than any session timeout. Without a quorum, no server can expire sessions.
    cluster.let_pass(session_s + 1)

    assert cluster.zab_leader is None
    assert cluster.produce("orders", ["served all the same"]) >= 0
    assert "served all the same" in cluster.consume("orders")
    nothing_was_elected(cluster, since_us)

    other.start()
    cluster.until_ready()
    # When the quorum returns, clients continue their sessions, and operations that need the ensemble work again.
    cluster.topics.create("payments")
    assert cluster.controller == controller
    assert cluster.controller_epoch == epoch
    assert only(cluster.events("broker_session_changed", after_us=since_us), state="expired") == []
    counts = workload.stop()
    assert (counts.failed, counts.lost, counts.verified) == (0, 0, True)


def test_broker_death_is_detected_once_a_quorum_returns(zabka_world: SimulatedCluster) -> None:
    orders = zabka_world.topics.create("orders", partitions=3)
    zabka_world.until(lambda: all(partition.in_sync for partition in orders.partitions))
    controller = zabka_world.until(lambda: zabka_world.controller)
    epoch = zabka_world.controller_epoch
    first, second, _ = zabka_world.peers.values()
    first.kill()
    second.kill()
    since_us = zabka_world.now_us
    controller.kill()

    zabka_world.let_pass(30)
    nothing_was_elected(zabka_world, since_us)

    first.start()
    zabka_world.until(lambda: zabka_world.controller_epoch == epoch + 1)
    zabka_world.until(lambda: all(not p.offline and p.leader != controller.id for p in orders.partitions))


def test_zab_leader_partitioned_from_its_followers_resigns(zabka_world: SimulatedCluster) -> None:
    leader = zabka_world.until(lambda: zabka_world.zab_leader)
    others = [peer for peer in zabka_world.peers.values() if peer.id != leader.id]
    for peer in others:
        zabka_world.faults.cut(leader, peer)

    successor = another_leader(zabka_world, leader)
    zabka_world.until(lambda: leader.state == "LOOKING")

    zabka_world.faults.heal()
    zabka_world.until(lambda: (leader.state, leader.phase) == ("FOLLOWING", "BROADCAST"))
    assert zabka_world.zab_leader == successor
