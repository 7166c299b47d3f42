"""Batches of ZooKeeper requests, their retries, fencing, the event queue, and the queues of requests to brokers."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from random import Random

import pytest
from kio.schema.update_metadata.v8.request import UpdateMetadataRequest

from tests.controller.controller_world import World
from tests.controller.fake_ensemble import FakeSession
from tests.virtual_time.runtime import SimRuntime
from zabka.controller import channel_manager
from zabka.controller.channel_manager import ControllerChannelManager, QueueFull
from zabka.controller.config import ControllerConfig
from zabka.controller.events import ControllerEvent, EventQueue
from zabka.ensemble.client.service import Create, Delete, SessionState, SetData
from zabka.ensemble.errors import ErrorCode, NoNode, SessionExpired
from zabka.journal.cause import START
from zabka.journal.events import ControllerPropagated, ControllerReady, Event, WriteFenced
from zabka.kafka.ports import BrokerChannel, Endpoint, KafkaMessage
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import ControllerMoved, FencedWriter, Zk
from zabka.kafka.zk.znodes import BrokerEndpoint, BrokerInfo


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


def paths(world: World, count: int) -> list[str]:
    names = [f"/a/{n}" for n in range(count)]
    for name in names:
        world.ensemble.put(name, name.encode())
    return names


def test_batch_has_ten_requests_in_flight_and_ordered_results(world: World, session: FakeSession, zk: Zk) -> None:
    names = paths(world, 35)
    outcomes = world.call(zk.batch([partial(session.get, name) for name in names]))
    assert [outcome.value[0].decode() for outcome in outcomes] == names
    assert session.in_flight_max == 10


def test_lost_requests_are_retried_and_marked_as_repeated(world: World, session: FakeSession, zk: Zk) -> None:
    names = paths(world, 12)
    session.lose_requests = 3
    outcomes = world.call(zk.batch([partial(session.get, name) for name in names]))
    assert [outcome.value[0].decode() for outcome in outcomes] == names
    assert [outcome.repeated for outcome in outcomes] == [True] * 3 + [False] * 9


def test_attempt_returns_errors_but_a_plain_call_raises_them(world: World, session: FakeSession, zk: Zk) -> None:
    assert world.call(zk.attempt(lambda: session.get("/no"))).error is ErrorCode.NO_NODE
    with pytest.raises(NoNode):
        world.call(zk.call(lambda: session.get("/no")))


def test_session_expiry_ends_a_batch(world: World, session: FakeSession, zk: Zk) -> None:
    names = paths(world, 30)
    world.scheduler.after(3_000, lambda: world.ensemble.end_session(session.session_id))
    with pytest.raises(SessionExpired):
        world.call(zk.batch([partial(session.get, name) for name in names]))


def test_requests_of_a_closed_session_are_not_retried_forever(world: World, session: FakeSession, zk: Zk) -> None:
    session.lose_requests = 10**6
    session.state = SessionState.CLOSED
    with pytest.raises(SessionExpired):
        world.call(zk.call(lambda: session.get("/")))


def test_batch_with_a_current_fence_returns_an_error_per_write(world: World, zk: Zk) -> None:
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"1")
    writer = FencedWriter(zk, 1, 1, 0, lambda event: None)
    ops = [Create("/a", b"1"), Create("/a", b"2"), SetData("/a", b"3", 7), Delete("/no"), SetData("/a", b"4", 0)]
    written = world.call(writer.write(ops))
    assert [row.error for row in written] == [
        ErrorCode.OK,
        ErrorCode.NODE_EXISTS,
        ErrorCode.BAD_VERSION,
        ErrorCode.NO_NODE,
        ErrorCode.OK,
    ]
    assert written[4].stat is not None and written[4].stat.version == 1


def test_stale_epoch_fence_is_journaled_and_stops_the_batch(world: World, session: FakeSession, zk: Zk) -> None:
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"1")
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"2")
    emitted: list[Event] = []
    writer = FencedWriter(zk, 1, 1, 0, emitted.append)
    with pytest.raises(ControllerMoved):
        world.call(writer.write([Create(f"/x{n}", b"") for n in range(100)]))
    assert not any(path.startswith("/x") for path in world.ensemble.nodes)
    assert 1 <= len(emitted) <= 10 and len(session.multis) <= 10
    assert emitted[0] == WriteFenced(1, 1, "create", "/x0", epoch_version=0)


# ---- the event queue ------------------------------------------------------------------------------------------


def test_controller_events_run_in_order_until_queue_is_cleared(world: World) -> None:
    runtime = SimRuntime(world.scheduler, Random(0))
    log: list[str] = []

    async def handler(event: ControllerEvent) -> None:
        await event.process()

    def event(name: str) -> ControllerEvent:
        async def process() -> None:
            log.append(f"{name} begins")
            await runtime.sleep(10)
            log.append(f"{name} ends")

        return ControllerEvent(name, process, START, lambda: log.append(f"{name} preempted"))

    queue = EventQueue(runtime, handler)
    queue.start("events")
    for name in "abc":
        queue.put(event(name))
    world.run(5)
    last = event("d")
    queue.clear_and_put(last)
    assert log == ["a begins", "b preempted", "c preempted"]
    assert world.call(queue.wait(last)) is True
    assert log[3:] == ["a ends", "d begins", "d ends"]
    assert world.call(queue.wait(last)) is True
    slow = event("e")
    queue.put(slow)
    assert world.call(queue.wait(slow, timeout_ms=5)) is False
    queue.stop()
    assert log[-1] == "e preempted" and world.call(queue.wait(slow)) is True


# ---- the request queues to brokers ----------------------------------------------------------------------------


def test_full_request_queue_raises_and_unknown_broker_is_skipped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.controller.controller_world import FakeChannel

    monkeypatch.setattr(channel_manager, "REQUESTS_QUEUED_MAX", 5)
    runtime = SimRuntime(world.scheduler, Random(0))
    channels = ControllerChannelManager(FakeChannel(world, runtime), runtime, ControllerConfig(), lambda: None)
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=1, topic_states=(), live_brokers=())
    channels.send(7, request)
    channels.startup([BrokerInfo(7, (BrokerEndpoint("PLAINTEXT", "h", 1),))])
    world.unreachable.add(7)
    for _ in range(5):
        channels.send(7, request)
    with pytest.raises(QueueFull):
        channels.send(7, request)
    channels.remove_broker(7)
    assert channels.queue_size(7) == 0
    channels.shutdown()


def _recording(world: World, runtime: SimRuntime, called: list[Endpoint]) -> BrokerChannel:
    """Return a channel that stores the endpoint of each call."""
    from tests.controller.controller_world import FakeChannel

    class Channel(FakeChannel):
        def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
            called.append(to)
            return super().call(to, request, timeout_ms)

    return Channel(world, runtime)


def test_control_requests_use_the_inter_broker_listener(world: World) -> None:
    runtime = SimRuntime(world.scheduler, Random(0))
    from tests.controller.controller_world import FakeChannel

    config = ControllerConfig(inter_broker_listener_name="IN")
    channels = ControllerChannelManager(FakeChannel(world, runtime), runtime, config, lambda: None)
    info = BrokerInfo(7, (BrokerEndpoint("OUT", "o", 1), BrokerEndpoint("IN", "i", 2)))
    assert channels.endpoint(info) == Endpoint(7, "i", 2)
    assert channels.endpoint(info._replace(endpoints=info.endpoints[:1])) is None


def test_broker_without_the_listener_gets_requests_after_it_has_it(world: World) -> None:
    runtime, called = SimRuntime(world.scheduler, Random(0)), list[Endpoint]()
    config = ControllerConfig(inter_broker_listener_name="IN", control_plane_listener_name="CONTROL")
    channels = ControllerChannelManager(_recording(world, runtime, called), runtime, config, lambda: None)
    info = BrokerInfo(7, (BrokerEndpoint("OUT", "o", 1), BrokerEndpoint("CONTROL", "c", 2)))
    channels.startup([info._replace(endpoints=info.endpoints[:1])])
    channels.send(7, UpdateMetadataRequest(controller_id=1, controller_epoch=1, topic_states=(), live_brokers=()))
    world.run(5_000)
    assert called == [] and channels.queue_size(7) == 1
    channels.update_endpoint(info)
    world.run(200)
    assert called == [Endpoint(7, "c", 2, "CONTROL")] and channels.queue_size(7) == 0
    channels.shutdown()


def test_control_requests_use_the_control_plane_listener_if_set(world: World) -> None:
    runtime, called = SimRuntime(world.scheduler, Random(0)), list[Endpoint]()
    config = ControllerConfig(inter_broker_listener_name="IN", control_plane_listener_name="CONTROL")
    channels = ControllerChannelManager(_recording(world, runtime, called), runtime, config, lambda: None)
    info = BrokerInfo(7, (BrokerEndpoint("IN", "i", 1), BrokerEndpoint("CONTROL", "c", 2)))
    channels.startup([info])
    channels.send(7, UpdateMetadataRequest(controller_id=1, controller_epoch=1, topic_states=(), live_brokers=()))
    world.run(5)
    assert called == [Endpoint(7, "c", 2, "CONTROL")] and channels.endpoint(info) == Endpoint(7, "i", 1)
    channels.shutdown()


def test_simultaneous_state_writes_are_sent_in_few_fenced_multis(world: World, zk: Zk, session: FakeSession) -> None:
    names = paths(world, 120)
    events: list[Event] = []
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"1")
    writer = FencedWriter(zk, 1, 1, 0, events.append)
    written = world.call(writer.write_together([SetData(name, b"new", 0) for name in names]))
    assert [each.error for each in written] == [ErrorCode.OK] * 120
    assert [len(ops) for ops in session.multis] == [51, 51, 21]
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"2")
    with pytest.raises(ControllerMoved):
        world.call(writer.write_together([SetData(name, b"newer", 1) for name in names[:2]]))
    assert [event.path for event in events if isinstance(event, WriteFenced)] == names[:2]


def test_conflicting_state_write_does_not_fail_rest_of_batch(world: World, zk: Zk) -> None:
    names = paths(world, 5)
    world.ensemble.put(names[2], b"changed meanwhile")
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"1")
    writer = FencedWriter(zk, 1, 1, 0, lambda event: None)
    written = world.call(writer.write_together([SetData(name, b"new", 0) for name in names]))
    assert [each.error for each in written] == [ErrorCode.OK] * 2 + [ErrorCode.BAD_VERSION] + [ErrorCode.OK] * 2


def test_write_batch_with_a_lost_reply_may_have_been_applied(world: World, session: FakeSession, zk: Zk) -> None:
    names = paths(world, 3)
    world.ensemble.put(znodes.CONTROLLER_EPOCH, b"1")
    writer = FencedWriter(zk, 1, 1, 0, lambda event: None)
    session.lose_replies = 1
    written = world.call(writer.write_together([SetData(name, b"new", 0) for name in names]))
    assert all(each.error is ErrorCode.BAD_VERSION and each.repeated for each in written)


def test_propagation_event_is_emitted_after_all_brokers_replied(world: World) -> None:
    world.start(1, 2, 3)
    world.create_topic("t", {0: [2, 3], 1: [3, 2]})
    world.settle()
    assert [event.controller_epoch for event in world.events(ControllerReady)] == [1]
    assert [event.controller_epoch for event in world.events(ControllerPropagated)] == [1]
