"""One history of a partition with Apache Kafka's controller and with ours: the znodes are equal after every step.

Brokers 1 and 2, which are ours, host the replicas. The controller's broker hosts none. The test compares leader, ISR,
leader epoch, partition epoch and recovery state, and the assignment with its znode's version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mixed_cluster import KAFKA, SOCKETS_ARE_LEFT, MixedCluster, mixed_cluster, until, write
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import DELETE_HORIZON, BatchHeader, split_batches
from zabka.kafka.zk import znodes

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), *SOCKETS_ARE_LEFT]

A, B, OURS = 1, 2, 9
Step = tuple[str, dict[str, Any]]


class History:
    """Actions on topic t, and the state after each action."""

    def __init__(self, cluster: MixedCluster) -> None:
        self.cluster = cluster
        self.steps: list[Step] = []

    def create(self, **config: str) -> None:
        zk, overrides = self.cluster.zk, {name.replace("_", "."): value for name, value in config.items()}
        zk.create(znodes.config_path("topics", "t"), znodes.encode_config(overrides))
        topic = znodes.TopicAssignment("9cwKQfokS0uwyoxKG-zFFA", {0: znodes.ReplicaAssignment((A, B))})
        zk.create(znodes.topic_path("t"), znodes.encode_topic(topic))
        self.cluster.until_in_sync("t", (A, B))

    def move(self, *target: int) -> None:
        """Request a reassignment through the znode, and wait until it is complete."""
        self.ask(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments({TopicPartition("t", 0): target}))
        self.until_taken_up(znodes.REASSIGN_PARTITIONS)

    def ask(self, path: str, data: bytes) -> None:
        self.cluster.zk.create(path, data)

    def until_taken_up(self, path: str) -> None:
        until(lambda: not self.cluster.zk.exists(path), f"{path} is still there")

    def until_state(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        until(lambda: condition(self.cluster.state("t")), f"t-0 stays {self.cluster.state('t')}")

    def note(self, what: str) -> None:
        """Record the state of t-0 once it has not changed for a second."""
        seen: list[Step] = []

        def still() -> bool:
            seen.append((what, self._stand()))
            return len(seen) > 10 and len({json.dumps(stand) for _, stand in seen[-10:]}) == 1

        until(still, "t-0 does not settle")
        self.steps.append(seen[-1])

    def _stand(self) -> dict[str, Any]:
        state, found = self.cluster.zk.get(znodes.partition_state_path(TopicPartition("t", 0)))
        topic, stat = self.cluster.zk.get(znodes.topic_path("t"))
        fields = {name: value for name, value in json.loads(state).items() if name != "controller_epoch"}
        return {**dict(sorted(fields.items())), "PE": found.version, **json.loads(topic), "version": stat.version}


def elections_and_moves(history: History) -> None:
    cluster = history.cluster
    history.create()
    history.note("created")
    cluster.kill(A)
    history.until_state(lambda state: state["leader"] == B)
    history.note("the leader was killed")
    cluster.start(A)
    cluster.until_in_sync("t", (A, B))
    history.note("it is back in sync")
    history.ask(znodes.PREFERRED_REPLICA_ELECTION, znodes.encode_partition_set([TopicPartition("t", 0)]))
    history.until_taken_up(znodes.PREFERRED_REPLICA_ELECTION)
    history.note("a preferred election")
    cluster.nodes[A].stop()
    cluster.until_gone(A)
    history.note("the leader shut down")
    history.ask(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments({TopicPartition("t", 0): (A,)}))
    history.until_state(lambda state: state["leader_epoch"] == 4)
    history.note("a move to a dead broker")
    cluster.start(A)
    history.until_taken_up(znodes.REASSIGN_PARTITIONS)
    history.note("it is back, and the move is complete")
    history.move(B, A)
    history.note("grown to two replicas")
    history.move(A, B)
    history.note("in another order")
    history.move(A)
    history.note("shrunk to one")
    history.move(A)
    history.note("moved to where it is")


def an_unclean_election(history: History) -> None:
    cluster = history.cluster
    history.create(unclean_leader_election_enable="true")
    # Wait for this state, so that the follower has fetched and its leader has no other reason to remove it from
    # the ISR.
    history.note("created")
    cluster.kill(B)
    history.until_state(lambda state: state["isr"] == [A])
    history.note("the follower was killed")
    cluster.kill(A)
    history.until_state(lambda state: state["leader"] == -1)
    history.note("the leader was killed too")
    cluster.start(B)
    history.until_state(lambda state: state["leader"] == B)
    history.note("the follower is back")
    cluster.start(A)
    cluster.until_in_sync("t", (A, B))
    history.note("everybody is")


@contextmanager
def commanded_by(directory: Path, controller: int) -> Iterator[MixedCluster]:
    """Run brokers 1 and 2, and a third broker as controller."""
    ours, kafka = ((A, B, OURS), ()) if controller == OURS else ((A, B), (KAFKA,))
    with mixed_cluster(directory, ours=ours, kafka=kafka) as cluster:
        cluster.make_controller(controller)
        yield cluster


@pytest.mark.scenario(48)
@pytest.mark.scenario(50)
@pytest.mark.parametrize("act", [elections_and_moves, an_unclean_election])
def test_partition_history_is_equal_under_both_controllers(tmp_path: Path, act: Callable[[History], None]) -> None:
    histories: dict[int, list[Step]] = {}
    for controller in (KAFKA, OURS):
        with commanded_by(tmp_path / str(controller), controller) as cluster:
            history = History(cluster)
            act(history)
            assert cluster.controller == controller
            histories[controller] = history.steps
    assert histories[OURS] == histories[KAFKA]


def test_topic_deleted_by_kafka_controller_can_be_recreated(tmp_path: Path) -> None:
    # This project's brokers delete replicas only after an UpdateMetadata request has announced the deletion.
    with commanded_by(tmp_path, KAFKA) as cluster:
        cluster.create("t", (A, B), (B, A))
        cluster.zk.create(znodes.delete_topic_path("t"))
        until(lambda: not cluster.zk.exists(znodes.topic_path("t")), "t is still there")
        left = [log for broker in (A, B) for log in (cluster.nodes[broker].home / "logs").glob("t-*")]
        assert left == []
        cluster.create("t", (A, B))
        with cluster.producer() as producer:
            write(producer, "t", ["a"])


def test_kafka_replicates_our_tombstones_with_delete_horizons(tmp_path: Path) -> None:
    with commanded_by(tmp_path, KAFKA) as cluster:
        cluster.create("t", (A,), cleanup_policy="compact", segment_bytes="150", min_cleanable_dirty_ratio="0.01")
        with cluster.producer() as producer:
            for key, value in ((b"a", b"1"), (b"a", None), (b"b", b"1"), (b"b", b"2"), (b"c", b"1"), (b"d", b"1")):
                producer.send("t", key=key, value=value).get(20)
        logs = cluster.nodes[A].home / "logs" / "t-0"

        def horizons() -> list[BatchHeader]:
            headers = [h for log in sorted(logs.glob("*.log")) for h in split_batches(log.read_bytes()) or ()]
            return [header for header in headers if header.attributes & DELETE_HORIZON]

        until(horizons, "no log was compacted")
        move = znodes.encode_reassignments({TopicPartition("t", 0): (A, KAFKA)})
        cluster.zk.create(znodes.REASSIGN_PARTITIONS, move)
        # Kafka's follower checks every batch that it appends, so it accepts the compacted log only if it is valid.
        cluster.until_in_sync("t", (A, KAFKA))
