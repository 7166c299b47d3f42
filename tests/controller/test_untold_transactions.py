"""The journal contains the zxid that caused a decision, even if the watch event did not contain it.

Watch events have no zxid after a reconnection (SetWatches), and before ZooKeeper 3.9 (ZOOKEEPER-4655).
"""

from __future__ import annotations

import pytest

from tests.controller.controller_world import World
from zabka.journal.cause import registration_cause, transaction_cause
from zabka.journal.events import BrokerLivenessChanged, LeaderElected, TopicCreated, TopicDeleted, TopicPartition
from zabka.kafka.zk import znodes

T0 = TopicPartition("t", 0)


@pytest.fixture(params=[True, False], ids=["received", "untold"])
def world(request: pytest.FixtureRequest) -> World:
    made = World()
    made.start(1, auto_leader_rebalance_enable=False)
    made.join(2, 3, 4)
    made.create_topic("t", {0: [2, 3]})
    made.settle()
    made.nodes[1].session.sends_zxid = request.param
    made.journal.clear()
    return made


def last_election_cause(world: World) -> str:
    cause: str = world.events(LeaderElected)[-1].caused_by
    return cause


def handles(world: World, zxid: int) -> bool:
    """Run until the controller handles an event that this transaction caused. Return True.

    Fail if this does not happen within a second.
    """
    causes = world.active().controller.term.causes
    world.until(lambda: causes.cause == transaction_cause(zxid), 1_000)
    return True


def test_new_partitions_event_refers_to_the_topic_znode_write(world: World) -> None:
    world.create_topic("t", {0: [2, 3], 1: [3, 2]})
    written = world.ensemble.nodes[znodes.topic_path("t")].mzxid
    world.settle()
    assert [(e.partition, e.caused_by) for e in world.events(LeaderElected)] == [(1, transaction_cause(written))]


def test_topic_removal_event_refers_to_the_znode_deletion(world: World) -> None:
    world.ensemble.delete(znodes.topic_path("t"))
    removed = world.ensemble.zxid
    world.settle()
    assert [(e.topic, e.caused_by) for e in world.events(TopicDeleted)] == [("t", transaction_cause(removed))]


def test_preferred_election_is_attributed_to_its_znode_write(world: World) -> None:
    world.leave(2)
    world.settle()
    world.join(2)
    world.settle()
    world.set_isr("t", 0, [3, 2])
    world.ensemble.put(f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_0000000001", znodes.encode_partition_set([T0]))
    world.settle()
    asked = world.ensemble.put(znodes.PREFERRED_REPLICA_ELECTION, znodes.encode_partition_set([T0]))
    world.settle()
    assert world.brief("t")[0] == 2
    assert last_election_cause(world) == transaction_cause(asked.mzxid)


def test_log_dir_election_is_attributed_to_its_notification(world: World) -> None:
    world.offline_replicas[2] = {T0}
    path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000001"
    received = world.ensemble.put(path, znodes.encode_log_dir_event(2))
    assert handles(world, received.czxid)
    world.settle()
    assert world.brief("t")[0] == 3


def test_topic_deletion_event_refers_to_its_request_znode_write(world: World) -> None:
    asked = world.ensemble.put(f"{znodes.DELETE_TOPICS}/t")
    assert handles(world, asked.czxid)


def test_liveness_event_names_the_transaction_that_caused_it(world: World) -> None:
    world.join(5)
    joined = world.ensemble.nodes[znodes.broker_path(5)].czxid
    world.settle()
    epoch = world.ensemble.nodes[znodes.broker_path(2)].czxid
    world.leave(2)
    left = world.ensemble.zxid
    world.settle()
    assert [e.caused_by for e in world.events(BrokerLivenessChanged)] == [
        transaction_cause(joined),
        transaction_cause(left),
    ]
    assert last_election_cause(world) == registration_cause(2, epoch)


def test_topic_created_event_refers_to_the_topic_znode_creation(world: World) -> None:
    world.create_topic("u", {0: [3, 4]})
    world.settle()
    [made] = world.events(TopicCreated)
    assert made.caused_by.endswith(made.topic_id)
