"""Kafka clients of several libraries, while the cluster's nodes are killed one after the other.

No acknowledged record is lost, records are read in order, and no client has to be restarted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.outage_session import Outcome, Session
from zabka.broker_sim.groups.store import java_hash
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.nodes import Node

LIBRARIES = ("kcat", "confluent-kafka", "kafka-python", "aiokafka")
TWO_LIBRARIES = ("confluent-kafka", "aiokafka")
"""Two client libraries.

kafka-python is not one of them, because on a busy machine its consumer can drop out of its group (see
`outage_clients`).
"""
PARTITIONS = 3
OFFSETS_PARTITIONS = 10
SETTINGS = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "500",
}
QUICK = {
    **SETTINGS,
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "1500",
    "group.initial.rebalance.delay.ms": "0",
}
LONG_S = 180.0


def controller(cluster: LiveCluster, sessions: Sequence[Session]) -> Node | None:
    return cluster.controller


def leader(cluster: LiveCluster, sessions: Sequence[Session]) -> Node | None:
    """Return the leader of the first partition of the first session's topic."""
    return cluster.brokers.get(cluster.topics[sessions[0].topic].partitions[0].leader)


def coordinator(cluster: LiveCluster, sessions: Sequence[Session]) -> Node | None:
    """Return the coordinator of the first session's group."""
    number = java_hash(sessions[0].group) % OFFSETS_PARTITIONS
    return cluster.brokers.get(cluster.topics["__consumer_offsets"].partitions[number].leader)


def zab_leader(cluster: LiveCluster, sessions: Sequence[Session]) -> Node | None:
    return cluster.zab_leader


VICTIMS: tuple[Callable[[LiveCluster, Sequence[Session]], Node | None], ...] = (
    controller,
    leader,
    coordinator,
    zab_leader,
)


@contextmanager
def at_work(cluster: LiveCluster, libraries: Sequence[str], directory: Path) -> Iterator[list[Session]]:
    """Start a producer and a consumer of each library. Yield their sessions once each has written and read records."""
    for library in libraries:
        cluster.topics.create(f"outage-{library}", PARTITIONS, 3)
    sessions: list[Session] = []

    def all_at_work() -> bool:
        assert [early for each in sessions if (early := each.ended_early())] == []
        return all(each.consumed > 3 and each.acknowledged > 3 for each in sessions)

    try:
        for library in libraries:
            sessions.append(Session(library, cluster.bootstrap, directory))
        wait(cluster, sessions, all_at_work, "every client at work")
        yield sessions
    finally:
        for each in sessions:
            each.kill()


def wait(cluster: LiveCluster, sessions: Sequence[Session], condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition is true. If it times out, the error describes the progress of each client."""
    try:
        cluster.until(condition, 60, what)
    except ClusterFailed as failed:
        pytest.fail("\n".join([str(failed), *(each.stands() for each in sessions)]))


def kill_and_restart(cluster: LiveCluster, victim: Node, down_s: float) -> None:
    victim.kill()
    cluster.let_pass(down_s)
    victim.start()


def all_in_sync(cluster: LiveCluster) -> bool:
    names = (*cluster.topics.names(), "__consumer_offsets")
    return all(p.in_sync for name in names for p in cluster.topics[name].partitions)


def all_go_on(sessions: Sequence[Session]) -> Callable[[], bool]:
    """Return a condition that becomes true once every consumer has read more than three new records.

    The test fails if a client ends by itself.
    """
    before = [each.consumed for each in sessions]

    def new_for_all() -> bool:
        early = [words for each in sessions if (words := each.ended_early())]
        if early:
            pytest.fail("\n".join(early))
        return all(each.consumed > count + 3 for each, count in zip(sessions, before, strict=True))

    return new_for_all


def report(outcomes: Sequence[Outcome]) -> str:
    return "\n".join(
        f"{o.library}: {o.acknowledged} acknowledged, {o.consumed} read, {o.read_again} read again, longest without "
        f"an acknowledgement {o.produce_gap_s:.1f} s, without a record {o.consume_gap_s:.1f} s {o.problems}"
        for o in outcomes
    )


def finish(sessions: Sequence[Session]) -> None:
    outcomes = [each.finish() for each in sessions]
    sys.stdout.write(report(outcomes) + "\n")
    assert [problem for outcome in outcomes for problem in outcome.problems] == [], report(outcomes)
    assert all(outcome.consumed >= outcome.acknowledged > 0 for outcome in outcomes), report(outcomes)


@pytest.mark.zabka(peers=3, brokers=3, settings=QUICK)
def test_two_client_libraries_survive_coordinator_and_zab_loss(zabka_cluster: LiveCluster, tmp_path: Path) -> None:
    cluster = zabka_cluster
    with at_work(cluster, TWO_LIBRARIES, tmp_path) as sessions:
        for find in (coordinator, zab_leader):
            victim = cluster.until(lambda find=find: find(cluster, sessions), 30, find.__name__)
            victim.kill()
            wait(cluster, sessions, all_go_on(sessions), f"every client goes on after {find.__name__} {victim}")
            victim.start()
        finish(sessions)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.zabka(peers=3, brokers=3, settings=SETTINGS)
def test_clients_survive_kills_of_nodes_of_every_type(zabka_cluster: LiveCluster, tmp_path: Path) -> None:
    cluster = zabka_cluster
    with at_work(cluster, LIBRARIES, tmp_path) as sessions:
        deadline = time.monotonic() + LONG_S
        turn = 0
        killed: list[str] = []
        while time.monotonic() < deadline:
            find = VICTIMS[turn % len(VICTIMS)]
            victim = cluster.until(lambda find=find: find(cluster, sessions), 60, find.__name__)
            # Restart the broker after 10 s (its session has expired) and after 1 s (its session still exists),
            # alternately.
            kill_and_restart(cluster, victim, 10.0 if turn // len(VICTIMS) % 2 == 0 else 1.0)
            cluster.until(lambda: all_in_sync(cluster), 90, "full ISRs")
            wait(cluster, sessions, all_go_on(sessions), f"every client goes on after {find.__name__} {victim}")
            killed.append(f"{find.__name__} {victim}")
            turn += 1
        sys.stdout.write(f"killed and started again: {', '.join(killed)}\n")
        assert turn >= len(VICTIMS), "too slow to kill one of each"
        finish(sessions)
