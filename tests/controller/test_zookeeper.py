"""The controller's ZooKeeper requests, one test per type of write (KafkaZkClientTest)."""

from __future__ import annotations

from random import Random

import pytest

from tests.controller.controller_world import World
from tests.controller.fake_ensemble import FakeSession
from tests.virtual_time.runtime import SimRuntime
from zabka.controller.causes import CurrentCauses
from zabka.controller.context import ControllerContext
from zabka.controller.eligibility import NoEligibleReplicas
from zabka.controller.partition_store import PartitionStore
from zabka.ensemble.client.service import Delete
from zabka.ensemble.errors import BadVersion, ErrorCode, NodeExists
from zabka.journal.events import ControllerResigned, Event, TopicPartition
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import ControllerMoved, FencedWriter, Zk
from zabka.kafka.zk.registration import next_broker_id, register_controller
from zabka.kafka.zk.znodes import LeaderAndIsr

GOOD, STALE, MISSING = (TopicPartition("t", n) for n in range(3))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def session(world: World) -> FakeSession:
    opened = FakeSession(world.ensemble, SimRuntime(world.scheduler, Random(0)))
    opened.open()
    return opened


@pytest.fixture
def zk(session: FakeSession) -> Zk:
    return Zk(session, session.runtime)


@pytest.mark.scenario(13)
def test_controller_epoch_is_created_once_and_incremented(world: World, session: FakeSession) -> None:
    path = znodes.CONTROLLER_EPOCH
    world.call(session.create(path, b"1"))
    with pytest.raises(NodeExists):
        world.call(session.create(path, b"1"))
    with pytest.raises(BadVersion):
        world.call(session.set(path, b"2", 7))
    assert world.call(session.set(path, b"2", 0)).version == 1


@pytest.mark.scenario(14)
def test_kraft_controller_znode_is_never_replaced(world: World, session: FakeSession, zk: Zk) -> None:
    world.ensemble.put(znodes.CONTROLLER, b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":7}')
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"12")
    assert world.call(register_controller(zk, 1, 0)) is None
    assert world.ensemble.data(znodes.CONTROLLER_EPOCH) == b"12"


@pytest.mark.scenario(69)
def test_batch_of_state_writes_returns_an_outcome_for_each_write(world: World, session: FakeSession, zk: Zk) -> None:
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"4")
    state = LeaderAndIsr(1, 0, (1, 2), 4)
    for partition in (GOOD, STALE):
        world.ensemble.put(znodes.partition_state_path(partition), znodes.encode_partition_state(state))
    journal: list[Event] = []
    writer = FencedWriter(zk, 1, 4, 0, journal.append)
    store = PartitionStore(writer, ControllerContext(4, 0), NoEligibleReplicas(), journal.append, CurrentCauses())
    changes = {
        GOOD: state._replace(isr=(1,)),
        STALE: state._replace(isr=(1,), partition_epoch=9),
        MISSING: state,
    }
    updates = world.call(store.update(changes))
    assert updates.written == {GOOD: state._replace(isr=(1,), partition_epoch=1)}
    assert updates.conflicted == [STALE]
    assert updates.failed == {MISSING: ErrorCode.NO_NODE}


@pytest.mark.scenario(70)
def test_notifications_are_numbered_and_their_removal_is_fenced(world: World, session: FakeSession, zk: Zk) -> None:
    content = znodes.encode_partition_set([GOOD])
    prefix = f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_"
    made = [world.call(session.create(prefix, content, sequential=True))[0] for _ in range(2)]
    assert made == [f"{prefix}0000000000", f"{prefix}0000000001"]
    assert world.ensemble.data(made[0]) == b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"1")
    journal: list[Event] = []
    removal = [Delete(path) for path in made]
    with pytest.raises(ControllerMoved):
        world.call(FencedWriter(zk, 1, 0, 7, journal.append).write(removal))
    assert len(world.ensemble.nodes[znodes.ISR_CHANGE_NOTIFICATION].children) == 2
    world.call(FencedWriter(zk, 1, 1, 0, journal.append).write(removal))
    assert not world.ensemble.nodes[znodes.ISR_CHANGE_NOTIFICATION].children


@pytest.mark.scenario(71)
def test_generated_broker_ids_start_above_the_reserved_ids(world: World, zk: Zk) -> None:
    assert [world.call(next_broker_id(zk, reserved_max=1000)) for _ in range(3)] == [1001, 1002, 1003]


@pytest.mark.parametrize(
    "path",
    ["/admin/delete_topics", "/admin", "/brokers/topics", "/isr_change_notification", "/log_dir_event_notification"],
)
@pytest.mark.parametrize("is_active_controller", [True, False])
def test_removed_parent_znode_is_recreated_and_watched(world: World, path: str, is_active_controller: bool) -> None:
    world.start(1, 2)
    world.join(3)
    if not is_active_controller:
        # Only the next controller reads this znode, when it is elected.
        world.active().session.hold_watches = True
    world.ensemble.delete(path)
    world.settle()
    if not is_active_controller:
        world.kill(world.active().broker_id)
        world.settle()
    assert path in world.ensemble.nodes
    assert not world.events(ControllerResigned)
    world.create_topic("t", {0: [3]})
    world.settle()
    assert world.brief("t") == (3, (3,), 0)
    world.ensemble.put(znodes.delete_topic_path("t"))
    world.settle()
    assert not world.has("t")
