"""Kafka's broker and ours in one cluster while peers of our ensemble are killed.

Sessions survive each kill, and acknowledged records are stored in order, whichever broker is the controller.
"""

from __future__ import annotations

import gc
import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.interop_servers import Server
from tests.interop.mixed_cluster import KAFKA, OURS, SOCKETS_ARE_LEFT, MixedCluster, mixed_cluster, until
from tests.interop.outage_session import Session
from tests.interop.real_kafka import VerifiableProducer, verifiable_producer

pytestmark = [pytest.mark.long, pytest.mark.timeout(900), *SOCKETS_ARE_LEFT]

ALL_BROKERS = (*OURS, KAFKA)
THREE_WAYS = ((1, 101, 2), (101, 1, 2), (2, 101, 1))
LIBRARIES = ("confluent-kafka", "kafka-python")
CONTROLLERS = pytest.mark.parametrize("controllers", [OURS, (KAFKA,)], ids=["ours commands", "Kafka's commands"])
LONGER_THAN_A_SESSION_S = 10.0
GO_ON_S = 90.0
RUNS = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    with mixed_cluster(tmp_path_factory.mktemp("mixed"), peers=3) as running:
        yield running


@pytest.fixture(autouse=True)
def all_brokers_up(cluster: MixedCluster) -> Iterator[None]:
    cluster.start_the_dead()
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Clients:
    """Clients that run all the time: Kafka's own producer, and a producer and a group consumer of each of two
    libraries.
    """

    def __init__(
        self, cluster: MixedCluster, topic: str, producer: VerifiableProducer, sessions: list[Session]
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._producer = producer
        self.sessions = sessions

    def go_on(self) -> None:
        """Wait until each producer has received new acknowledgements, and each consumer has read new records."""
        before = {each: (each.consumed, each.acknowledged) for each in self.sessions}
        self._producer.until_acknowledged(self._producer.acknowledged_count + 200)

        for each, (read, acknowledged) in before.items():
            until(
                lambda each=each, read=read: each.ended_early() or each.consumed > read + 3,  # type: ignore[misc]
                f"the group of {each.library} stands still at {read}",
                GO_ON_S,
            )
            until(
                lambda each=each, acknowledged=acknowledged: each.ended_early() or each.acknowledged > acknowledged + 3,  # type: ignore[misc]
                f"the producer of {each.library} stands still at {acknowledged}",
                GO_ON_S,
            )
            assert each.ended_early() is None

    def verify(self) -> None:
        """Assert that each acknowledged record is stored at its offset, and that the consumer has read them in
        order.
        """
        self._producer.stop()
        outcomes = [each.finish() for each in self.sessions]
        assert [problem for outcome in outcomes for problem in outcome.problems] == []
        assert all(outcome.consumed >= outcome.acknowledged > 0 for outcome in outcomes)
        for partition in range(len(THREE_WAYS)):
            self._cluster.until_logs_equal(self._topic, ALL_BROKERS, partition)
            end = self._cluster.end_offset(self._topic, partition)
            kept = self._cluster.consume(self._topic, end, partition)
            acknowledged = self._producer.acknowledged[partition]
            assert {offset: kept[offset] for offset in acknowledged} == acknowledged


@pytest.fixture
def clients(cluster: MixedCluster, tmp_path: Path) -> Iterator[Clients]:
    """Yield clients with separate topics, whose partitions are led by three different brokers."""
    number = next(RUNS)
    names = {library: f"{library}-{number}" for library in LIBRARIES}
    mine = f"verified-{number}"
    for topic in (mine, *(f"outage-{name}" for name in names.values())):
        cluster.create(topic, *THREE_WAYS, min_insync_replicas="2")
    with verifiable_producer(cluster.bootstrap, mine, records_per_s=100) as producer:
        sessions = [Session(library, ",".join(cluster.bootstrap), tmp_path, name) for library, name in names.items()]
        try:
            made = Clients(cluster, mine, producer, sessions)
            made.go_on()
            yield made
        finally:
            for each in sessions:
                each.kill()


def back(cluster: MixedCluster, *peers: Server) -> None:
    """Start these peers again, and wait until all are part of a quorum."""
    for peer in peers:
        peer.start()
    until(lambda: all(peer.serves() for peer in cluster.ensemble.servers), "a peer does not come back")


def a_follower(cluster: MixedCluster) -> Server:
    return next(peer for peer in cluster.ensemble.servers if peer.mode() == "follower")


@CONTROLLERS
def test_kills_of_peers_lose_no_kafka_session_and_no_record(
    cluster: MixedCluster, clients: Clients, controllers: tuple[int, ...]
) -> None:
    cluster.make_controller(*controllers)
    epoch, lives = cluster.controller_epoch, cluster.lives
    victims: tuple[Callable[[MixedCluster], Server], ...] = (
        MixedCluster.zab_leader,
        a_follower,
        MixedCluster.zab_leader,
    )
    for find in victims:
        peer = find(cluster)
        peer.kill()
        cluster.zab_leader()
        clients.go_on()
        back(cluster, peer)
    assert cluster.controller_epoch == epoch
    assert cluster.lives == lives
    clients.verify()


@CONTROLLERS
def test_records_are_produced_and_consumed_without_a_quorum(
    cluster: MixedCluster, clients: Clients, controllers: tuple[int, ...]
) -> None:
    """Producers and consumers continue while the ensemble has no quorum, even for longer than the session timeout.

    No broker loses its session: only a quorum can expire sessions, and its new leader restarts all timeouts.
    """
    cluster.make_controller(*controllers)
    epoch, lives = cluster.controller_epoch, cluster.lives
    for peer in cluster.ensemble.servers:
        peer.kill()
    gone_s = time.monotonic()
    clients.go_on()
    time.sleep(max(0.0, gone_s + LONGER_THAN_A_SESSION_S - time.monotonic()))
    clients.go_on()
    back(cluster, *cluster.ensemble.servers)
    clients.go_on()
    assert cluster.controller_epoch == epoch
    assert cluster.lives == lives
    clients.verify()


@CONTROLLERS
def test_controller_and_zab_leader_killed_together_are_replaced(
    cluster: MixedCluster, clients: Clients, controllers: tuple[int, ...]
) -> None:
    cluster.make_controller(*controllers)
    dying, epoch = cluster.controller, cluster.controller_epoch
    peer = cluster.zab_leader()
    peer.kill()
    cluster.nodes[dying].kill()
    until(lambda: cluster.controller not in (-1, dying), "no new controller")
    clients.go_on()
    assert cluster.controller_epoch > epoch
    back(cluster, peer)
    cluster.start(dying)
    for session in clients.sessions:
        cluster.until_in_sync(session.topic, *[ALL_BROKERS] * len(THREE_WAYS))
    clients.verify()
