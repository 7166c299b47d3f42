"""A live cluster with kills, pauses, network partitions and unclean elections, and clients of three libraries.

`python -m tests.pipeline.live_outage DATA [QUIET_S]` starts the cluster with `zabka up`, stops it with `zabka down`,
and leaves its journals in DATA. DATA/clients.json contains the acknowledgements that the clients received, and the
records that are still in the logs. A run takes about 80 seconds plus seven times QUIET_S, the quiet time after each
fault.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.outage_session import CLIENTS, Program
from zabka.compose.files import load_run
from zabka.testing.cluster import Partition
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.nodes import Broker, Node
from zabka.testing.live.topics import Topic

LIBRARIES = ("confluent-kafka", "aiokafka", "kafka-python")
ZABKA = Path(sys.executable).with_name("zabka")
FREE_PORTS = ("--port", "0", "--zk-port", "0", "--kafka-port", "0")
SETTINGS = {
    "zookeeper.session.timeout.ms": "4500",
    "replica.lag.time.max.ms": "1500",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "auto.leader.rebalance.enable": "false",
}
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
SHORT_S, LONG_S = 1.5, 8.0
"""Durations of faults in seconds: one that ends before any session expires, and one that lasts longer than a
session.
"""
CLIENTS_FILE = "clients.json"


def zabka(*arguments: str | Path, within_s: float = 120.0) -> str:
    """Run a zabka command and return its output.

    Raises AssertionError with the output if the command fails.
    """
    done = subprocess.run([ZABKA, *arguments], capture_output=True, text=True, timeout=within_s, check=False)
    if done.returncode:
        raise AssertionError(f"zabka {arguments[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def up(data: Path) -> Iterator[LiveCluster]:
    """Run a cluster of three peers and three brokers during the `with` block.

    It is started with `zabka up` and stopped with `zabka down`.
    """
    settings = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    zabka("up", "--detach", "--data", data, *FREE_PORTS, *settings)
    run = load_run(data)
    assert run is not None
    cluster = LiveCluster(run.url, data)
    try:
        yield cluster
    finally:
        cluster.close()
        zabka("down", "--data", data)


class Producers:
    """Three producers of each library: acks=all on topic `all`, and acks=1 on topics `one` and `risky`."""

    def __init__(self, cluster: LiveCluster, directory: Path) -> None:
        directory.mkdir()
        self._programs = {
            f"{library} {acks} {topic}": self._start(cluster, directory, library, acks, topic)
            for library in LIBRARIES
            for acks, topic in (("all", "all"), ("1", "one"), ("1", "risky"))
        }

    @staticmethod
    def _start(cluster: LiveCluster, directory: Path, library: str, acks: str, topic: str) -> Program:
        errors = directory / f"{library}-{acks}-{topic}.err"
        command = [sys.executable, str(CLIENTS), library, "produce", cluster.bootstrap, topic, "-", acks]
        return Program(command, errors)

    def at_work(self) -> bool:
        """Return whether each producer has received acknowledgements.

        Raises AssertionError if a producer has ended.
        """
        for name, program in self._programs.items():
            assert program.process.poll() is None, f"{name} ended: {program.errors()}"
        return all(len(program.lines) > 3 for program in self._programs.values())

    def finish(self) -> dict[str, list[list[int]]]:
        """Stop all producers.

        Return (number, partition, offset) of each acknowledged record, keyed by producer.
        """
        ends = [threading.Thread(target=program.end, args=(90.0,)) for program in self._programs.values()]
        for end in ends:
            end.start()
        for end in ends:
            end.join()
        return {
            name: [[int(value) for value in line.split()] for _, line in program.lines]
            for name, program in self._programs.items()
        }

    def kill(self) -> None:
        for program in self._programs.values():
            program.kill()


def _in_sync(cluster: LiveCluster) -> bool:
    names = (*cluster.topics.names(), "__transaction_state")
    return all(partition.in_sync for name in names for partition in cluster.topics[name].partitions)


def _recovered(cluster: LiveCluster) -> None:
    cluster.until_ready()
    cluster.until(lambda: _in_sync(cluster), 60, "full ISRs")


def _down(cluster: LiveCluster, node: Node, seconds: float) -> None:
    node.kill()
    cluster.let_pass(seconds)
    node.start()


def _paused(cluster: LiveCluster, node: Node, seconds: float) -> None:
    node.pause()
    cluster.let_pass(seconds)
    node.resume()


def _away_from_controller(cluster: LiveCluster, risky: Topic) -> tuple[Callable[[], Partition], Broker, Broker]:
    """Find a partition that has no replica on the controller's broker.

    Return three values: a function that reads the partition's state, the leader, and the follower.
    """
    controller = cluster.until(lambda: cluster.controller)
    number = next(each.partition for each in risky.partitions if controller.id not in each.replicas)
    found = risky.partitions[number]
    follower = next(each for each in found.replicas if each != found.leader)
    return lambda: risky.partitions[number], cluster.brokers[found.leader], cluster.brokers[follower]


def _follower_misses_records(cluster: LiveCluster, risky: Topic) -> None:
    """Cause an unclean election with a network partition between a leader and its follower.

    The leader is killed once it is alone in the ISR, so that the follower is elected. Then the former leader is started
    again.
    """
    partition, leader, follower = _away_from_controller(cluster, risky)
    cut = cluster.faults.cut(leader, follower)
    cluster.until(lambda: partition().isr == [leader.id], 30, "an ISR of the leader alone")
    cluster.let_pass(SHORT_S)
    leader.kill()
    cluster.until(lambda: partition().leader == follower.id, 30, "the first unclean election")
    cut.heal()
    cluster.let_pass(SHORT_S)
    leader.start()


def _last_replica_dies(cluster: LiveCluster, risky: Topic) -> None:
    """Cause an unclean election with two kills.

    The follower is killed, and then the leader. The follower is started first and elected, and then the former leader
    is started.
    """
    partition, leader, follower = _away_from_controller(cluster, risky)
    follower.kill()
    cluster.until(lambda: partition().isr == [leader.id], 30, "an ISR of the leader alone")
    cluster.let_pass(SHORT_S)
    leader.kill()
    cluster.until(lambda: partition().offline, 30, "a partition without a leader")
    follower.start()
    cluster.until(lambda: partition().leader == follower.id, 30, "the second unclean election")
    cluster.let_pass(SHORT_S)
    leader.start()


def _isolated(cluster: LiveCluster, node: Node, seconds: float) -> None:
    cut = cluster.faults.cut(node, "*")
    cluster.let_pass(seconds)
    cut.heal()


def _inject(cluster: LiveCluster, risky: Topic, quiet_s: float) -> None:
    """Inject five kills, two pauses and two network partitions. They cause two unclean elections."""

    def controller() -> Broker:
        return cluster.until(lambda: cluster.controller)

    def leader(topic: str) -> Broker:
        return cluster.brokers[cluster.topics[topic].partitions[0].leader]

    faults: tuple[Callable[[], None], ...] = (
        lambda: _down(cluster, controller(), LONG_S),
        lambda: _paused(cluster, leader("all"), LONG_S),
        lambda: _follower_misses_records(cluster, risky),
        lambda: _down(cluster, cluster.until(lambda: cluster.zab_leader), SHORT_S),
        lambda: _isolated(cluster, controller(), LONG_S),
        lambda: _last_replica_dies(cluster, risky),
        lambda: _paused(cluster, leader("one"), SHORT_S),
    )
    for fault in faults:
        fault()
        _recovered(cluster)
        cluster.let_pass(quiet_s)


def _left(cluster: LiveCluster, topic: str) -> list[tuple[int, int, str]]:
    """Return (partition, offset, value) of all records that the topic still contains."""
    return [
        (partition.partition, record.offset or 0, record.text)
        for partition in cluster.topics[topic].partitions
        for record in cluster.records(topic, partition.partition, timeout_s=30)
    ]


def play(data: Path, quiet_s: float = 0.0) -> None:
    """Run the whole outage. The journals and `clients.json` remain in the directory."""
    with up(data) as cluster:
        cluster.topics.create("all", 3, 3)
        cluster.topics.create("one", 3, 2)
        cluster.topics.create("gone", 2, 2)
        risky = cluster.topics.create("risky", assignment={0: [1, 2], 1: [2, 3], 2: [3, 1]}, config=UNCLEAN)
        workloads = [
            cluster.workload(topic, acks=acks) for topic, acks in (("all", "all"), ("one", "1"), ("risky", "1"))
        ]
        transactions = cluster.transactional_producer("all", transactional_id="tx", records_per_s=20, abort_every=3)
        producers = Producers(cluster, data / "clients")
        try:
            cluster.until(producers.at_work, 60, "acknowledgements of each producer")
            _inject(cluster, risky, quiet_s)
            cluster.topics["gone"].delete()
            acknowledged = producers.finish()
        finally:
            producers.kill()
        transactions.stop()
        for workload in workloads:
            workload.stop()
        left = {topic: _left(cluster, topic) for topic in ("all", "one", "risky")}
        (data / CLIENTS_FILE).write_text(json.dumps({"acknowledged": acknowledged, "left": left}))


if __name__ == "__main__":
    play(Path(sys.argv[1]), *map(float, sys.argv[2:]))
