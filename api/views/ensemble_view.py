"""Reads the cluster's state through a ZooKeeper session of the API, and caches the last reading.

All data come from the znodes that the brokers and the controller use. Without a quorum, the last reading is returned
with its age, so that the page can show both instead of showing nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Awaitable, Sequence
from typing import NamedTuple

import structlog

from zabka.api.http.problems import Problem
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import SessionState
from zabka.ensemble.errors import NoAuth, NoNode, ZooKeeperError
from zabka.ensemble.records import ACL, Stat
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.events import TopicPartition
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes.json_content import INT32_MAX, plain_number

READ_TIMEOUT_S = 1.0
"""An ensemble that does not respond within this time counts as having no quorum."""
LOOK_S_MAX = 20.0
"""Time limit for reading the cluster's state from the ensemble once.

With PARTITIONS_MAX partitions, this takes three seconds on two busy cores.
"""
_NOTED_S = READ_TIMEOUT_S / 10
CLOSE_WAIT_MS = 1_000
CACHE_S = 0.1
CHECK_INTERVAL_S = 0.5
IDLE_INTERVAL_S = 2.0
"""Interval in seconds between two readings of the ensemble's state while no client requests it."""
WATCHED_S = 5.0
"""A client counts as watching for this long after its last request."""
TOPICS_MAX = 10_000
PARTITIONS_MAX = 50_000
"""Maximum number of partitions to read. A topic that would exceed it is omitted, so that the whole cluster can be read
twice a second.
"""
UNREADABLE_MAX = 100
"""Maximum number of unreadable znodes to list in a reading."""
_INT64_MAX = 2**63 - 1

log = structlog.get_logger()


class ControllerZnodes(NamedTuple):
    """Content of /controller and /controller_epoch. broker_id is -1 if there is no controller.

    `zxid` is the zxid of the election, if one transaction has written both znodes. It is 0 if two transactions wrote
    them, because the epoch can then be that of another controller.
    """

    broker_id: int = -1
    controller_epoch: int = 0
    zk_version: int = 0
    timestamp_ms: int | None = None
    zxid: int = 0


class Registration(NamedTuple):
    """A broker's znode in /brokers/ids: its czxid (the broker epoch), its session, and its listener."""

    broker_epoch: int
    session_id: int = 0
    host: str = ""
    port: int = 0


class PartitionZnodes(NamedTuple):
    """A partition's replica assignment and the content of its state znode.

    leader is -1 if there is no leader, partition_epoch is -1 if there is no state znode. `eligible` are the eligible
    leader replicas under the current configuration (`zabka.controller.eligibility`).
    """

    replicas: tuple[int, ...]
    leader: int = -1
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    controller_epoch: int = 0
    partition_epoch: int = -1
    eligible: tuple[int, ...] = ()


class TopicZnodes(NamedTuple):
    """A topic as its znodes describe it."""

    name: str
    topic_id: str
    config: dict[str, str]
    partitions: dict[int, PartitionZnodes]
    deleting: bool = False


class Reading(NamedTuple):
    """One reading of the ensemble. `unreadable` lists the omitted znodes, each with the reason."""

    controller: ControllerZnodes = ControllerZnodes()
    brokers: dict[int, Registration] = {}
    topics: dict[str, TopicZnodes] = {}
    unreadable: tuple[str, ...] = ()


class Fresh(NamedTuple):
    """A reading of the ensemble, its age, and whether it is stale."""

    reading: Reading
    stale: bool
    age_ms: int


class EnsembleView:
    """The API's session with the ensemble, and the last reading of the cluster's state."""

    def __init__(self, hosts: str, session_timeout_ms: int, tls: ssl.SSLContext | None = None) -> None:
        """Set up the view of the ensemble at `hosts`; `tls` is the TLS context of the session, None for plain text."""
        self._hosts = hosts
        self._tls = tls
        self._session_timeout_ms = session_timeout_ms
        self._client: Client | None = None
        self._last = Reading()
        self._read_s = 0.0
        self._known = False
        self._failed = True
        self._under_way: asyncio.Task[None] | None = None
        self._looks = asyncio.Event()
        """Event that is set after each reading of the ensemble's state, and then replaced by a new event."""
        self._asked_s = -WATCHED_S

    async def run(self) -> None:
        """Read the ensemble repeatedly through one session, until cancelled.

        If the session expires, open a new one. If a task of the session fails, raise its error, because the session
        then cannot be kept open.
        """
        await self.close()
        broken: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        def session_failed(task: str, failure: BaseException) -> None:
            log.error("task failed", task=task, failure=repr(failure))
            if not broken.done():
                broken.set_result(failure)

        runtime = AsyncioRuntime(asyncio.get_running_loop(), on_failure=session_failed)
        self._client = Client(
            self._hosts,
            AsyncioConnector(ssl_context=self._tls),
            runtime,
            session_timeout_ms=self._session_timeout_ms,
            name="api",
        )
        holding = asyncio.create_task(self._hold(self._client))
        try:
            await asyncio.wait((holding, broken), return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                raise broken.result()
            await holding
        finally:
            holding.cancel()

    async def _hold(self, client: Client) -> None:
        await client.start()
        while True:
            if client.state is SessionState.EXPIRED:
                await client.renew()
            await self._read(CACHE_S)
            await asyncio.sleep(self.interval_s)

    @property
    def interval_s(self) -> float:
        """Interval until the next automatic reading. It is longer while no client reads."""
        is_idle = time.monotonic() - self._asked_s >= WATCHED_S and not self._failed
        return IDLE_INTERVAL_S if is_idle else CHECK_INTERVAL_S

    async def close(self) -> None:
        """Close the session. Do not wait if there is no connection, for example because the peers have stopped."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                await self._client.close(wait_ms=CLOSE_WAIT_MS if self.connected else 0)

    @property
    def connected(self) -> bool:
        """Whether the session is currently connected to a server. Servers accept sessions only while there is a
        quorum.
        """
        return self._client is not None and self._client.state is SessionState.CONNECTED

    async def serving(self) -> bool:
        """Return whether the ensemble currently has a quorum and processes requests."""
        return not (await self.read(at_most_old_s=0.5)).stale

    async def read(self, at_most_old_s: float = CACHE_S) -> Fresh:
        """Return the state of the ensemble. Concurrent callers share one reading."""
        self.look_often()
        return await self._read(at_most_old_s)

    def look_often(self) -> None:
        """Make `run` repeat the reading twice a second for WATCHED_S."""
        self._asked_s = time.monotonic()

    async def next_look(self) -> Fresh:
        """Wait for the next reading of the ensemble's state, and return it.

        It does not matter which client requested the reading.
        """
        await self._looks.wait()
        return self._fresh()

    async def _read(self, at_most_old_s: float) -> Fresh:
        if self._failed or time.monotonic() - self._read_s > at_most_old_s:
            if self._under_way is None:
                self._under_way = asyncio.create_task(self._look())
                self._under_way.add_done_callback(self._looked)
            await asyncio.shield(self._under_way)
        return self._fresh()

    def _fresh(self) -> Fresh:
        age_ms = int((time.monotonic() - self._read_s) * 1000) if self._known else 0
        return Fresh(self._last, self._failed, age_ms)

    def _looked(self, _: asyncio.Task[None]) -> None:
        self._under_way = None
        looks, self._looks = self._looks, asyncio.Event()
        looks.set()

    async def _look(self) -> None:
        client, self._failed = self._client, True
        if client is None or client.state is not SessionState.CONNECTED:
            return
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(LOOK_S_MAX), asyncio.timeout(READ_TIMEOUT_S) as silence:
                self._last = await _Look(client, silence).reading()
        except (ZooKeeperError, TimeoutError):
            return
        self._read_s, self._known, self._failed = began_s, True, False

    @property
    def known(self) -> bool:
        """Whether the ensemble has been read at least once."""
        return self._known

    async def znode(self, path: str) -> ZnodeReading:
        """Read a znode: data, Stat, children and ACL.

        Raises Problem: 403 if its ACL does not allow reading it, 404 if it does not exist, 503 without a quorum.
        """
        client = self._client
        if client is None or client.state is not SessionState.CONNECTED:
            raise Problem(503, "no quorum: znodes cannot be read now")
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                data, children, acl = client.get(path), client.get_children(path), client.get_acl(path)
                payload, stat = await data
                return ZnodeReading(payload, stat, await children, (await acl)[0])
        except NoNode:
            raise Problem(404, f"there is no znode {path}") from None
        except NoAuth:
            raise Problem(403, f"the ACL of {path} does not allow reading it") from None
        except (ZooKeeperError, TimeoutError) as reason:
            raise Problem(503, f"the ensemble did not respond: {reason or 'timed out'}") from None


class ZnodeReading(NamedTuple):
    """The current content of a znode."""

    data: bytes
    stat: Stat
    children: list[str]
    acl: list[ACL]


class _Look:
    """One reading of the cluster's znodes. All requests for one tree level are sent before the first reply is awaited.

    Any client can write znodes, so invalid znodes are omitted and listed. The reading ends if no reply arrives for
    `silence`. Each reply restarts this timeout, because reading tens of thousands of partitions takes longer than one
    reply may take.
    """

    def __init__(self, client: Client, silence: asyncio.Timeout) -> None:
        self._client = client
        self._silence = silence
        self._noted_s = 0.0
        self._unreadable: list[str] = []

    async def reading(self) -> Reading:
        """Read the state of the whole cluster. Raises ZooKeeperError if the ensemble does not respond."""
        client = self._client
        controller, epoch = client.get(znodes.CONTROLLER), client.get(znodes.CONTROLLER_EPOCH)
        every_broker = client.get(znodes.config_path("brokers", znodes.DEFAULT_ENTITY))
        ids, names, doomed = await asyncio.gather(
            self._children(znodes.BROKER_IDS),
            self._children(znodes.BROKER_TOPICS),
            self._children(znodes.DELETE_TOPICS),
        )
        if len(names) > TOPICS_MAX:
            self._leave_out(znodes.BROKER_TOPICS, f"{len(names)} topics, of which {TOPICS_MAX} are shown")
        names = names[:TOPICS_MAX]
        numbers = self._numbers(ids)
        brokers = [self._get(znodes.broker_path(i)) for i in numbers]
        topics = [self._get(znodes.topic_path(name)) for name in names]
        configs = [self._get(znodes.config_path("topics", name)) for name in names]
        found = self._controller(
            await self._found(znodes.CONTROLLER, controller), await self._found(znodes.CONTROLLER_EPOCH, epoch)
        )
        common = _written(await self._found(znodes.config_path("brokers", znodes.DEFAULT_ENTITY), every_broker))
        registered = {i: await self._registration(i, answer) for i, answer in zip(numbers, brokers, strict=True)}
        bodies = await self._topics(names, topics)
        overrides = {name: await self._config(name, c) for name, c in zip(names, configs, strict=True)}
        states = await self._partitions(bodies, {n: max(common, zxid) for n, (_, zxid) in overrides.items()})
        described = {
            name: TopicZnodes(name, body.topic_id or "", overrides[name][0], states[name], name in doomed)
            for name, body in bodies.items()
        }
        known = {i: registration for i, registration in registered.items() if registration is not None}
        return Reading(found, known, described, self._named())

    def _leave_out(self, path: str, reason: str) -> None:
        self._unreadable.append(f"{path}: {reason}")

    def _named(self) -> tuple[str, ...]:
        more = len(self._unreadable) - UNREADABLE_MAX
        return (*self._unreadable[:UNREADABLE_MAX], *([f"and {more} more"] if more > 0 else []))

    def _get(self, path: str) -> Awaitable[tuple[bytes, Stat]]:
        # The ensemble could not have replied before the request was sent, so do not count the time until then as
        # silence.
        self._put_off_silence()
        return self._client.get(path)

    def _put_off_silence(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._noted_s + _NOTED_S:
            self._noted_s = now_s
            self._silence.reschedule(now_s + READ_TIMEOUT_S)

    async def _found(self, path: str, answer: Awaitable[tuple[bytes, Stat]]) -> tuple[bytes, Stat] | None:
        found = None
        try:
            found = await answer
        except NoNode:
            pass
        except NoAuth:
            self._leave_out(path, "its ACL does not allow reading it")
        self._put_off_silence()
        return found

    async def _children(self, path: str) -> list[str]:
        try:
            names: list[str] = await self._client.get_children(path)
        except NoNode:
            return []
        except NoAuth:
            self._leave_out(path, "its ACL does not allow reading it")
            return []
        return names

    def _numbers(self, ids: list[str]) -> list[int]:
        numbers = []
        for name in ids:
            number = plain_number(name, INT32_MAX)
            if number is None or str(number) != name:
                self._leave_out(f"{znodes.BROKER_IDS}/{name}", "not the id of a broker")
            else:
                numbers.append(number)
        return numbers

    def _controller(self, controller: tuple[bytes, Stat] | None, epoch: tuple[bytes, Stat] | None) -> ControllerZnodes:
        number, version = 0, 0
        if epoch is not None:
            decoded, version = znodes.decode_controller_epoch(epoch[0]), epoch[1].version
            if decoded is None:
                self._leave_out(znodes.CONTROLLER_EPOCH, "not a controller epoch")
            number = decoded or 0
        if controller is None:
            return ControllerZnodes(-1, number, version)
        broker_id = znodes.decode_controller(controller[0])
        if broker_id is None:
            self._leave_out(znodes.CONTROLLER, "not a controller's registration")
            return ControllerZnodes(-1, number, version)
        timestamp = (znodes.decode(controller[0]) or {}).get("timestamp")
        elected = controller[1].czxid
        return ControllerZnodes(
            broker_id,
            number,
            version,
            plain_number(str(timestamp), _INT64_MAX),
            elected if epoch is not None and epoch[1].mzxid == elected else 0,
        )

    async def _registration(self, broker_id: int, answer: Awaitable[tuple[bytes, Stat]]) -> Registration | None:
        """Return a broker's registration with its first plaintext listener, or else with its first listener."""
        path = znodes.broker_path(broker_id)
        found = await self._found(path, answer)
        if found is None:
            return None
        info = znodes.decode_broker(broker_id, found[0])
        if info is None or not _is_text(*(e.host for e in info.endpoints)):
            self._leave_out(path, "not a broker's registration")
            return None
        plain = [e for e in info.endpoints if e.security_protocol == "PLAINTEXT"]
        first = (plain or info.endpoints)[0]
        return Registration(found[1].czxid, found[1].ephemeral_owner, first.host, first.port)

    async def _topics(
        self, names: list[str], answers: Sequence[Awaitable[tuple[bytes, Stat]]]
    ) -> dict[str, znodes.TopicAssignment]:
        bodies: dict[str, znodes.TopicAssignment] = {}
        partitions = 0
        for name, answer in zip(names, answers, strict=True):
            path = znodes.topic_path(name)
            found = await self._found(path, answer)
            if found is None:
                continue
            body = znodes.decode_topic(found[0])
            if body is None:
                self._leave_out(path, "not a topic's assignment")
            elif partitions + len(body.partitions) > PARTITIONS_MAX:
                self._leave_out(path, f"with its partitions there would be more than {PARTITIONS_MAX}")
            else:
                partitions += len(body.partitions)
                bodies[name] = body
        return bodies

    async def _config(self, name: str, answer: Awaitable[tuple[bytes, Stat]]) -> tuple[dict[str, str], int]:
        """Return a topic's overrides and the zxid of the last change to them, or 0 if there are no overrides."""
        path = znodes.config_path("topics", name)
        found = await self._found(path, answer)
        if found is None:
            return {}, 0
        config = znodes.decode_config(found[0]) if found[0] else {}
        if config is None or not _is_text(*config, *config.values()):
            self._leave_out(path, "not a configuration")
            config = {}
        return config, _written(found)

    async def _partitions(
        self, bodies: dict[str, znodes.TopicAssignment], configured_by: dict[str, int]
    ) -> dict[str, dict[int, PartitionZnodes]]:
        asked = []
        for name, body in bodies.items():
            for number, assigned in body.partitions.items():
                path = znodes.partition_state_path(TopicPartition(name, number))
                asked.append((name, number, assigned.replicas, path, self._get(path)))
        states: dict[str, dict[int, PartitionZnodes]] = {name: {} for name in bodies}
        for name, number, replicas, path, answer in asked:
            found = await self._found(path, answer)
            if found is None:
                states[name][number] = PartitionZnodes(replicas)
                continue
            state = znodes.decode_partition_state(found[0], found[1].version)
            if state is None:
                self._leave_out(path, "not a partition's state")
                continue
            states[name][number] = PartitionZnodes(
                replicas,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                controller_epoch=state.controller_epoch,
                partition_epoch=found[1].version,
                eligible=eligible_by(found[0], configured_by[name]),
            )
        return states


def _is_text(*values: str) -> bool:
    """Return whether an HTTP response can contain these strings. Decoded JSON may contain half a surrogate pair."""
    try:
        for value in values:
            value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _written(config: tuple[bytes, Stat] | None) -> int:
    return 0 if config is None else config[1].mzxid


def eligible_by(state: bytes, configured_by: int) -> tuple[int, ...]:
    """Return the eligible leader replicas that a partition's state znode contains.

    Return an empty tuple if the topic's configuration has changed since the controller determined them, because they
    are then no longer valid.
    """
    found = znodes.decode_partition_state(state, 0)
    return found.eligible if found is not None and found.eligible_by_zxid == configured_by else ()
