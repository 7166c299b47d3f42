"""A world for controllers: a fake coordination service with real semantics, and brokers that record what they are told.

Everything runs on the simulation's scheduler.  Requests to the service take a millisecond each way, as do control
requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.leader_and_isr.v7.response import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kio.schema.stop_replica.v4.response import StopReplicaPartitionError, StopReplicaResponse
from kio.schema.update_metadata.v8.response import UpdateMetadataResponse

from controller.config import ControllerConfig
from controller.controller import KafkaController
from ensemble.client.service import (
    Check,
    Create,
    Delete,
    Op,
    OpResult,
    SessionState,
    SetData,
    StateListener,
    Watcher,
    WatchEvent,
)
from ensemble.errors import ConnectionLoss, ErrorCode, NoNode, SessionExpired, ZooKeeperError, error_for
from ensemble.ids import SessionId
from ensemble.records import EventType, Stat
from journal.events import Event, TopicPartition
from kafka_protocol.ports import ChannelBroken, Endpoint, KafkaMessage
from kafka_protocol.topic_ids import random_topic_id
from kafka_protocol.zk import znodes
from kafka_protocol.zk.znodes import BrokerEndpoint, BrokerInfo, LeaderAndIsr, ReplicaAssignment, TopicAssignment
from simulation.kernel.runtime import SimRuntime, run_task
from simulation.kernel.scheduler import Deadlock, Scheduler

LATENCY_US = 1_000


class Znode:
    def __init__(self, data: bytes | None, zxid: int, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.mtime_ms = 0
        self.version = self.cversion = 0
        self.owner = owner
        self.children: set[str] = set()

    def copy(self) -> Znode:
        made = copy(self)
        made.children = set(self.children)
        return made

    def stat(self) -> Stat:
        size = len(self.data or b"")
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime=0,
            mtime=self.mtime_ms,
            version=self.version,
            cversion=self.cversion,
            aversion=0,
            ephemeral_owner=self.owner,
            data_length=size,
            num_children=len(self.children),
            pzxid=self.pzxid,
        )


class FakeEnsemble:
    """The tree, in one place; every applied write has its zxid."""

    def __init__(self) -> None:
        self.zxid = 0x100000000
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0)}
        self.sessions: dict[int, FakeSession] = {}
        self.next_session = 0x1000

    # -- operations

    def apply(self, op: Op, session: int, fired: list[tuple[str, EventType]]) -> OpResult:
        if isinstance(op, Check):
            node = self.nodes.get(op.path)
            if node is None:
                return OpResult(ErrorCode.NO_NODE)
            return OpResult(ErrorCode.OK if node.version == op.version else ErrorCode.BAD_VERSION)
        if isinstance(op, Create):
            return self._create(op, session, fired)
        node = self.nodes.get(op.path)
        if node is None:
            return OpResult(ErrorCode.NO_NODE)
        if op.version not in (-1, node.version):
            return OpResult(ErrorCode.BAD_VERSION)
        if isinstance(op, SetData):
            node.data, node.version, node.mzxid = op.data, node.version + 1, self.zxid
            fired.append((op.path, EventType.DATA_CHANGED))
            return OpResult(ErrorCode.OK, None, node.stat())
        if node.children:
            return OpResult(ErrorCode.NOT_EMPTY)
        self._remove(op.path, fired)
        return OpResult(ErrorCode.OK)

    def _create(self, op: Create, session: int, fired: list[tuple[str, EventType]]) -> OpResult:
        parent_path, _, name = op.path.rpartition("/")
        parent = self.nodes.get(parent_path or "/")
        if parent is None:
            return OpResult(ErrorCode.NO_NODE)
        path = op.path
        if op.sequential:
            path, name = f"{path}{parent.cversion:010d}", f"{name}{parent.cversion:010d}"
        if path in self.nodes:
            return OpResult(ErrorCode.NODE_EXISTS)
        self.nodes[path] = Znode(op.data, self.zxid, session if op.ephemeral else 0)
        parent.children.add(name)
        parent.cversion += 1
        parent.pzxid = self.zxid
        fired += [(path, EventType.CREATED), (parent_path or "/", EventType.CHILDREN_CHANGED)]
        return OpResult(ErrorCode.OK, path, self.nodes[path].stat())

    def _remove(self, path: str, fired: list[tuple[str, EventType]]) -> None:
        parent_path, _, name = path.rpartition("/")
        del self.nodes[path]
        parent = self.nodes[parent_path or "/"]
        parent.children.discard(name)
        parent.cversion += 1
        parent.pzxid = self.zxid
        fired += [(path, EventType.DELETED), (parent_path or "/", EventType.CHILDREN_CHANGED)]

    def multi(self, ops: Sequence[Op], session: int) -> list[OpResult]:
        """All or nothing: on a failure the tree is put back."""
        self.zxid += 1
        touched = {path for op in ops for path in (op.path, op.path.rpartition("/")[0] or "/")}
        kept = {path: self.nodes[path].copy() for path in touched if path in self.nodes}
        fired: list[tuple[str, EventType]] = []
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            result = self.apply(op, session, fired)
            if result.error is not ErrorCode.OK:
                for path in touched:
                    self.nodes.pop(path, None)
                self.nodes.update(kept)
                after = len(ops) - index - 1
                return [OpResult(ErrorCode.OK)] * index + [result] + [OpResult(ErrorCode.RUNTIME_INCONSISTENCY)] * after
            results.append(result)
        self.fire(fired)
        return results

    def fire(self, fired: Sequence[tuple[str, EventType]]) -> None:
        for path, kind in fired:
            for session in list(self.sessions.values()):
                session.fire(path, kind)

    def end_session(self, session_id: int) -> None:
        """Close a session: its ephemerals go in one transaction."""
        self.zxid += 1
        fired: list[tuple[str, EventType]] = []
        for path in sorted(path for path, node in self.nodes.items() if node.owner == session_id):
            self._remove(path, fired)
        ended = self.sessions.pop(session_id, None)
        self.fire(fired)
        if ended is not None:
            ended.expire()

    # -- the tests' own hands, at once and without a session

    def put(self, path: str, data: bytes | None = None, *, owner: int = 0) -> Stat:
        """Create or set a znode, making what is missing above it."""
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.put(parent)
        if path in self.nodes:
            result = self.multi([SetData(path, data)], owner)[0]
        else:
            result = self.multi([Create(path, data, ephemeral=bool(owner))], owner)[0]
        assert result.stat is not None
        return result.stat

    def delete(self, path: str) -> None:
        for child in sorted(self.nodes[path].children):
            self.delete(f"{path}/{child}")
        self.multi([Delete(path)], 0)

    def data(self, path: str) -> bytes:
        return self.nodes[path].data or b""


class FakeSession:
    """A `CoordinationService` of one node."""

    def __init__(self, ensemble: FakeEnsemble, runtime: SimRuntime) -> None:
        self.ensemble = ensemble
        self.runtime = runtime
        self.state = SessionState.CLOSED
        self.session_id = SessionId(0)
        self.hold_watches = False
        self.lose_replies = 0
        """The next so many replies are lost, after the request was carried out."""
        self.lose_requests = 0
        self.lose_reply_to: Callable[[Sequence[Op]], bool] = lambda ops: False
        self.multis: list[list[Op]] = []
        self.in_flight = self.in_flight_max = 0
        self._listeners: list[StateListener] = []
        self._watchers: dict[tuple[str, str], dict[Watcher, None]] = {}
        self._held: list[tuple[Watcher, WatchEvent]] = []
        self._pending: list[Any] = []

    def open(self) -> None:
        self.session_id = SessionId(self.ensemble.next_session)
        self.ensemble.next_session += 1
        self.ensemble.sessions[self.session_id] = self
        self._set(SessionState.CONNECTED)

    async def start(self) -> None:
        self.open()

    async def renew(self) -> None:
        await self.runtime.sleep(2)
        self.open()

    async def close(self) -> None:
        self._set(SessionState.CLOSED)
        self.ensemble.end_session(self.session_id)

    def add_listener(self, listener: StateListener) -> None:
        self._listeners.append(listener)

    def _set(self, state: SessionState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)

    def expire(self) -> None:
        """The ensemble has ended this session; the node learns it when it runs."""
        session_id = self.session_id

        def learn() -> None:
            if self.session_id != session_id or self.state is SessionState.CLOSED:
                return
            pending, self._pending = self._pending, []
            for future in pending:
                if not future.done():
                    future.set_exception(SessionExpired())
            watchers, self._watchers = self._watchers, {}
            for (path, _), table in watchers.items():
                for watcher in table:
                    watcher(WatchEvent(EventType.NONE, path))
            self._set(SessionState.EXPIRED)

        self.runtime.scheduler.after(LATENCY_US, lambda: self.runtime.run(learn))

    # -- watches

    def _watch(self, kind: str, path: str, watcher: Watcher | None) -> None:
        if watcher is not None:
            self._watchers.setdefault((path, kind), {})[watcher] = None

    def fire(self, path: str, event: EventType) -> None:
        kinds = ["child"] if event is EventType.CHILDREN_CHANGED else ["data"]
        if event is EventType.DELETED:
            kinds.append("child")
        found: dict[Watcher, None] = {}
        for kind in kinds:
            found.update(self._watchers.pop((path, kind), {}))
        for watcher in found:
            seen = WatchEvent(event, path)
            if self.hold_watches:
                self._held.append((watcher, seen))
            else:
                self._tell(watcher, seen)

    def _tell(self, watcher: Watcher, seen: WatchEvent) -> None:
        self.runtime.scheduler.after(LATENCY_US, lambda: self.runtime.run(lambda: watcher(seen)))

    def release_watches(self) -> None:
        self.hold_watches = False
        held, self._held = self._held, []
        for watcher, seen in held:
            self._tell(watcher, seen)

    # -- requests

    def _request(self, run: Callable[[], Any], ops: Sequence[Op] = ()) -> Awaitable[Any]:
        future = self.runtime.future()
        session_id = self.session_id
        if session_id not in self.ensemble.sessions:
            future.set_exception(SessionExpired())
            return future
        self._pending.append(future)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)

        def arrive() -> None:
            result: Any = None
            error: ZooKeeperError | None = None
            lost = self._takes("lose_requests")
            if session_id not in self.ensemble.sessions:
                return
            if not lost:
                try:
                    result = run()
                except ZooKeeperError as raised:
                    error = raised
                lost = self._takes("lose_replies") or self.lose_reply_to(ops)
            if lost:
                error = ConnectionLoss()
            self.runtime.scheduler.after(LATENCY_US, lambda: self.runtime.run(lambda: answer(result, error)))

        def answer(result: Any, error: ZooKeeperError | None) -> None:
            self.in_flight -= 1
            if future in self._pending:
                self._pending.remove(future)
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.runtime.scheduler.after(LATENCY_US, arrive)
        return future

    def _takes(self, counter: str) -> bool:
        left: int = getattr(self, counter)
        setattr(self, counter, max(0, left - 1))
        return left > 0

    def _one(self, op: Op) -> OpResult:
        result = self.ensemble.multi([op], self.session_id)[0]
        if result.error is not ErrorCode.OK:
            raise error_for(result.error, op.path)
        return result

    def create(self, path: str, data: bytes | None = b"", **how: Any) -> Awaitable[tuple[str, Stat]]:
        def run() -> tuple[str, Stat]:
            result = self._one(Create(path, data, **how))
            assert result.path is not None and result.stat is not None
            return result.path, result.stat

        return self._request(run)

    async def create_chroot(self) -> None:
        return

    def delete(self, path: str, version: int = -1) -> Awaitable[None]:
        def run() -> None:
            self._one(Delete(path, version))

        return self._request(run)

    def exists(self, path: str, watcher: Watcher | None = None) -> Awaitable[Stat | None]:
        def run() -> Stat | None:
            self._watch("data", path, watcher)
            node = self.ensemble.nodes.get(path)
            return node.stat() if node else None

        return self._request(run)

    def get(self, path: str, watcher: Watcher | None = None) -> Awaitable[tuple[bytes, Stat]]:
        def run() -> tuple[bytes, Stat]:
            node = self.ensemble.nodes.get(path)
            if node is None:
                raise NoNode(path)
            self._watch("data", path, watcher)
            return node.data or b"", node.stat()

        return self._request(run)

    def set(self, path: str, data: bytes | None, version: int = -1) -> Awaitable[Stat]:
        return self._request(lambda: self._one(SetData(path, data, version)).stat)

    def get_children(self, path: str, watcher: Watcher | None = None) -> Awaitable[list[str]]:
        def run() -> list[str]:
            node = self.ensemble.nodes.get(path)
            if node is None:
                raise NoNode(path)
            self._watch("child", path, watcher)
            return sorted(node.children)

        return self._request(run)

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        kept = list(ops)
        self.multis.append(kept)
        return self._request(lambda: self.ensemble.multi(kept, self.session_id), kept)

    def sync(self, path: str) -> Awaitable[None]:
        return self._request(lambda: None)


class Told:
    """A control request as a broker received it."""

    def __init__(self, to: int, request: KafkaMessage, at_ms: int) -> None:
        self.to = to
        self.request = request
        self.kind = type(request).__name__.removesuffix("Request")
        self.at_ms = at_ms

    def __repr__(self) -> str:
        return f"{self.kind} to {self.to} epoch {self.request.controller_epoch}"

    def partitions(self) -> dict[TopicPartition, Any]:
        return {
            TopicPartition(topic.topic_name, row.partition_index): row
            for topic in self.request.topic_states
            for row in topic.partition_states
        }


class World:
    """Controllers, fake brokers and the ensemble between them."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.ensemble = FakeEnsemble()
        self.nodes: dict[int, Node] = {}
        self.told: list[Told] = []
        self.journal: list[tuple[int, Event]] = []
        self.unreachable: set[int] = set()
        self.refuse_deletes: set[int] = set()
        self.offline_replicas: dict[int, set[TopicPartition]] = {}
        """By broker: replicas whose log directory has failed."""
        self.random = Random(7)
        for path in znodes.PERSISTENT_PATHS:
            self.ensemble.put(path)

    # -- time

    def run(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)

    def until(self, done: Callable[[], object], limit_ms: int = 20_000) -> None:
        limit_us = self.scheduler.now_us + limit_ms * 1000
        while not done():
            due = self.scheduler.next_time_us()
            if due is None or due > limit_us:
                raise Deadlock("what the test waits for does not happen")
            self.scheduler.step()

    def settle(self) -> None:
        """Let everything that is under way come to its end (timers far off stay)."""
        self.run(300)

    # -- nodes that carry a controller

    def start(self, *broker_ids: int, **config: Any) -> None:
        """Start brokers and let the first election end."""
        for broker_id in broker_ids:
            self.nodes[broker_id] = Node(self, broker_id, ControllerConfig(**config))
            self.nodes[broker_id].start()
        self.settle()

    def kill(self, broker_id: int, *, expire: bool = True) -> None:
        """SIGKILL; with `expire` its session ends at once."""
        node = self.nodes.pop(broker_id)
        node.runtime.stop()
        self.unreachable.add(broker_id)
        if expire:
            self.ensemble.end_session(node.session.session_id)

    def active(self) -> Node:
        """The one node that /controller names."""
        broker_id = znodes.decode_controller(self.ensemble.data(znodes.CONTROLLER))
        assert broker_id is not None
        return self.nodes[broker_id]

    # -- brokers that are only registered

    def join(self, *broker_ids: int, rack: str | None = None, intact: bool = False) -> None:
        """Register brokers that do nothing but answer; `intact` ones say that their logs are."""
        for broker_id in broker_ids:
            session_id = 0x9000 + broker_id
            endpoints = (BrokerEndpoint("PLAINTEXT", f"b{broker_id}", 9092),)
            info = BrokerInfo(broker_id, endpoints, rack, log_intact=intact)
            path = znodes.broker_path(broker_id)
            data = znodes.encode_broker(info, 0)
            ops: list[Op] = [Create(path, None, ephemeral=True), SetData(path, data, 0)]
            assert self.ensemble.multi(ops, session_id)[1].stat is not None
            self.unreachable.discard(broker_id)

    def leave(self, *broker_ids: int) -> None:
        """Their sessions end, and they answer no more."""
        for broker_id in broker_ids:
            self.unreachable.add(broker_id)
            self.ensemble.end_session(0x9000 + broker_id)

    # -- topics

    def create_topic(self, topic: str, assignment: dict[int, Sequence[int]], **config: str) -> None:
        """What an administrator writes."""
        if config:
            self.set_config(topic, **config)
        rows = {n: ReplicaAssignment(tuple(replicas)) for n, replicas in assignment.items()}
        old = znodes.decode_topic(self.ensemble.data(znodes.topic_path(topic))) if self.has(topic) else None
        topic_id = old.topic_id if old else random_topic_id(self.random)
        self.ensemble.put(znodes.topic_path(topic), znodes.encode_topic(TopicAssignment(topic_id, rows)))

    def has(self, topic: str) -> bool:
        return znodes.topic_path(topic) in self.ensemble.nodes

    def set_config(self, topic: str, **config: str) -> None:
        overrides = {key.replace("_", "."): value for key, value in config.items()}
        self.ensemble.put(znodes.config_path("topics", topic), znodes.encode_config(overrides))

    def state(self, topic: str, partition: int = 0) -> LeaderAndIsr:
        """The state znode of a partition."""
        node = self.ensemble.nodes[znodes.partition_state_path(TopicPartition(topic, partition))]
        state = znodes.decode_partition_state(node.data, node.version)
        assert state is not None
        return state

    def brief(self, topic: str, partition: int = 0) -> tuple[int, tuple[int, ...], int]:
        """(leader, ISR, leader epoch)."""
        state = self.state(topic, partition)
        return state.leader, state.isr, state.leader_epoch

    def set_isr(self, topic: str, partition: int, isr: Sequence[int]) -> None:
        """What a leader with an old inter-broker protocol writes itself."""
        state = self.state(topic, partition)
        path = znodes.partition_state_path(TopicPartition(topic, partition))
        self.ensemble.put(path, znodes.encode_partition_state(state._replace(isr=tuple(isr))))

    # -- what was seen

    def requests(self, kind: str, to: int | None = None) -> list[Told]:
        return [told for told in self.told if told.kind == kind and to in (None, told.to)]

    def events(self, kind: type[Event], node: int | None = None) -> list[Any]:
        return [event for who, event in self.journal if isinstance(event, kind) and node in (None, who)]

    def call(self, request: Awaitable[Any]) -> Any:
        """Await something in the world's time."""

        raised: list[Exception] = []

        async def wait() -> Any:
            try:
                return await request
            except Exception as error:
                raised.append(error)

        result = run_task(self.scheduler, SimRuntime(self.scheduler, Random(1)), wait(), 30_000)
        if raised:
            raise raised[0]
        return result


class Node:
    """A broker's process: its runtime, session and controller; it treats expiry as a broker does."""

    def __init__(self, world: World, broker_id: int, config: ControllerConfig) -> None:
        self.world = world
        self.broker_id = broker_id
        self.config = config
        self.runtime = SimRuntime(world.scheduler, Random(broker_id))
        self.session = FakeSession(world.ensemble, self.runtime)
        self.channel = FakeChannel(world, self.runtime)
        self.controller = KafkaController(
            broker_id=broker_id,
            config=config,
            coordination=self.session,
            channel=self.channel,
            runtime=self.runtime,
            emit=lambda event: world.journal.append((broker_id, event)),
            broker_info=self.info,
        )
        world.unreachable.discard(broker_id)

    def info(self) -> BrokerInfo:
        return BrokerInfo(self.broker_id, (BrokerEndpoint("PLAINTEXT", f"b{self.broker_id}", 9092),))

    def start(self) -> None:
        self.session.open()
        self.session.add_listener(self._on_state)
        self.runtime.spawn(self.controller.startup(), "startup")

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self.runtime.spawn(self._renew(), "renew")

    async def _renew(self) -> None:
        await self.controller.session_expired()
        await self.session.renew()
        self.controller.session_renewed()

    def stop(self) -> None:
        """A clean stop, without a controlled shutdown."""

        async def stop() -> None:
            await self.controller.shutdown()
            await self.session.close()

        self.world.call(stop())
        self.runtime.stop()
        del self.world.nodes[self.broker_id]
        self.world.unreachable.add(self.broker_id)


class FakeChannel:
    """A `BrokerChannel` to brokers that record and agree."""

    def __init__(self, world: World, runtime: SimRuntime) -> None:
        self.world = world
        self.runtime = runtime
        self.forgotten: list[int] = []

    def forget(self, broker_id: int) -> None:
        self.forgotten.append(broker_id)

    def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        future = self.runtime.future()
        broken = to.broker_id in self.world.unreachable

        def arrive() -> None:
            if not broken:
                self.world.told.append(Told(to.broker_id, request, self.world.scheduler.now_us // 1000))
            self.world.scheduler.after(LATENCY_US, lambda: self.runtime.run(answer))

        def answer() -> None:
            if future.done():
                return
            if broken:
                future.set_exception(ChannelBroken(f"broker {to.broker_id} is down"))
            else:
                future.set_result(self._agree(to.broker_id, request))

        self.world.scheduler.after(LATENCY_US, arrive)
        return future

    def _obey(self, broker_id: int, request: KafkaMessage) -> LeaderAndIsrResponse:
        """Only replicas on a failed log directory are refused."""
        offline = self.world.offline_replicas.get(broker_id, ())
        topics = tuple(
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=tuple(
                    LeaderAndIsrPartitionError(
                        partition_index=row.partition_index,
                        error_code=KafkaError.kafka_storage_error
                        if (topic.topic_name, row.partition_index) in offline
                        else KafkaError.none,
                    )
                    for row in topic.partition_states
                ),
            )
            for topic in request.topic_states
        )
        return LeaderAndIsrResponse(error_code=KafkaError.none, topics=topics)

    def _agree(self, broker_id: int, request: KafkaMessage) -> KafkaMessage:
        name = type(request).__name__
        if name == "LeaderAndIsrRequest":
            return self._obey(broker_id, request)
        if name == "UpdateMetadataRequest":
            return UpdateMetadataResponse(error_code=KafkaError.none)
        refused = broker_id in self.world.refuse_deletes
        rows = tuple(
            StopReplicaPartitionError(
                topic_name=topic.topic_name,
                partition_index=row.partition_index,
                error_code=KafkaError.kafka_storage_error if refused else KafkaError.none,
            )
            for topic in request.topic_states
            for row in topic.partition_states
        )
        return StopReplicaResponse(error_code=KafkaError.none, partition_errors=rows)
