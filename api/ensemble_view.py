"""What the ensemble says: the API's own ZooKeeper session, and the last known answers for when there is none.

Everything is read from the znodes that the brokers and the controller use.  While no quorum serves, the last reading
is given out with its age, so that the page can say so instead of going blank.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable
from typing import Any, NamedTuple

import structlog

from api.problems import Problem
from ensemble.client.asyncio_connector import AsyncioConnector
from ensemble.client.client import Client
from ensemble.client.service import SessionState
from ensemble.errors import NoNode, ZooKeeperError
from ensemble.records import ACL, Stat
from ensemble.runtime.asyncio_runtime import AsyncioRuntime
from journal.events import TopicPartition
from kafka_protocol.zk import znodes

READ_TIMEOUT_S = 1.0
CACHE_S = 0.1
CHECK_INTERVAL_S = 0.5
TOPICS_MAX = 10_000

log = structlog.get_logger()


class ControllerZnodes(NamedTuple):
    """/controller and /controller_epoch; broker_id -1 while nobody is controller.

    `zxid` is the election's: one transaction writes both znodes.  0 where they are of two, so that the epoch is no word
    on who has it.
    """

    broker_id: int = -1
    controller_epoch: int = 0
    zk_version: int = 0
    timestamp_ms: int | None = None
    zxid: int = 0


class Registration(NamedTuple):
    """A broker's znode under /brokers/ids: its czxid, which is the broker epoch, its session, and where it listens."""

    broker_epoch: int
    session_id: int = 0
    host: str = ""
    port: int = 0


class PartitionZnodes(NamedTuple):
    """A partition's assignment and state znode; leader -1 for none, partition_epoch -1 where there is no state yet.

    `eligible` are those who are so by the configuration of this moment (`controller.eligibility`).
    """

    replicas: tuple[int, ...]
    leader: int = -1
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    controller_epoch: int = 0
    partition_epoch: int = -1
    eligible: tuple[int, ...] = ()


class TopicZnodes(NamedTuple):
    """A topic as the ensemble has it."""

    name: str
    topic_id: str
    config: dict[str, str]
    partitions: dict[int, PartitionZnodes]
    deleting: bool = False


class Reading(NamedTuple):
    """One look at the ensemble."""

    controller: ControllerZnodes = ControllerZnodes()
    brokers: dict[int, Registration] = {}
    topics: dict[str, TopicZnodes] = {}


class Fresh(NamedTuple):
    """A reading, whether it is out of date, and its age."""

    reading: Reading
    stale: bool
    age_ms: int


class EnsembleView:
    """The API's session with the ensemble."""

    def __init__(self, hosts: str, session_timeout_ms: int) -> None:
        self._hosts = hosts
        self._session_timeout_ms = session_timeout_ms
        self._client: Client | None = None
        self._last = Reading()
        self._read_s = 0.0
        self._known = False
        self._failed = True
        self._under_way: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Hold the session (opening a new one after an expiry) and keep the last reading fresh, until cancelled."""
        runtime = AsyncioRuntime(asyncio.get_running_loop(), on_failure=_say_failure)
        self._client = Client(
            self._hosts, AsyncioConnector(), runtime, session_timeout_ms=self._session_timeout_ms, name="api"
        )
        await self._client.start()
        while True:
            if self._client.state is SessionState.EXPIRED:
                await self._client.renew()
            await self.read()
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def close(self) -> None:
        """End the session."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._client.close(), 1.0)

    @property
    def connected(self) -> bool:
        """Whether a server serves this session now, which it does only with a quorum behind it."""
        return self._client is not None and self._client.state is SessionState.CONNECTED

    async def serving(self) -> bool:
        """Whether a quorum carries out requests now."""
        return not (await self.read(at_most_old_s=0.5)).stale

    async def read(self, at_most_old_s: float = CACHE_S) -> Fresh:
        """What the ensemble says; concurrent callers share one look."""
        if self._failed or time.monotonic() - self._read_s > at_most_old_s:
            if self._under_way is None:
                self._under_way = asyncio.create_task(self._look())
                self._under_way.add_done_callback(self._looked)
            await asyncio.shield(self._under_way)
        age_ms = int((time.monotonic() - self._read_s) * 1000) if self._known else 0
        return Fresh(self._last, self._failed, age_ms)

    def _looked(self, _: asyncio.Task[None]) -> None:
        self._under_way = None

    async def _look(self) -> None:
        client, self._failed = self._client, True
        if client is None or client.state is not SessionState.CONNECTED:
            return
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                self._last = await _read_all(client)
        except (ZooKeeperError, TimeoutError):
            return
        self._read_s, self._known, self._failed = began_s, True, False

    @property
    def known(self) -> bool:
        """Whether the ensemble was ever read."""
        return self._known

    async def znode(self, path: str) -> ZnodeReading:
        """One znode: data, Stat, children, ACL.  Raises Problem: 404 without the node, 503 without a quorum."""
        client = self._client
        if client is None or client.state is not SessionState.CONNECTED:
            raise Problem(503, "no quorum serves: znodes cannot be read now")
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                data, children, acl = client.get(path), client.get_children(path), client.get_acl(path)
                payload, stat = await data
                return ZnodeReading(payload, stat, await children, (await acl)[0])
        except NoNode:
            raise Problem(404, f"there is no znode {path}") from None
        except (ZooKeeperError, TimeoutError) as reason:
            raise Problem(503, f"the ensemble did not answer: {reason or 'timed out'}") from None


class ZnodeReading(NamedTuple):
    """A znode as it stands."""

    data: bytes
    stat: Stat
    children: list[str]
    acl: list[ACL]


def _say_failure(name: str, failure: BaseException) -> None:
    log.error("a task of the ensemble view failed", task=name, failure=repr(failure))


async def _or_none(answer: Awaitable[tuple[bytes, Stat]]) -> tuple[bytes, Stat] | None:
    try:
        return await answer
    except NoNode:
        return None


async def _children(client: Client, path: str) -> list[str]:
    try:
        names: list[str] = await client.get_children(path)
    except NoNode:
        return []
    return names


async def _read_all(client: Client) -> Reading:
    """One pipelined look: everything of a level is asked for before anything is awaited."""
    controller, epoch = client.get(znodes.CONTROLLER), client.get(znodes.CONTROLLER_EPOCH)
    every_broker = client.get(znodes.config_path("brokers", znodes.DEFAULT_ENTITY))
    ids, names, doomed = await asyncio.gather(
        _children(client, znodes.BROKER_IDS),
        _children(client, znodes.BROKER_TOPICS),
        _children(client, znodes.DELETE_TOPICS),
    )
    brokers = {int(i): client.get(znodes.broker_path(int(i))) for i in ids if i.isdigit()}
    names = names[:TOPICS_MAX]
    topics = [client.get(znodes.topic_path(name)) for name in names]
    configs = [client.get(znodes.config_path("topics", name)) for name in names]
    found = _controller(await _or_none(controller), await _or_none(epoch))
    registered = {i: _registration(*read) for i, b in brokers.items() if (read := await _or_none(b)) is not None}
    bodies = [_json((await _or_none(t) or (b"", None))[0]) for t in topics]
    configured = [await _or_none(c) for c in configs]
    overrides = [_json((c or (b"", None))[0]) for c in configured]
    common = _written(await _or_none(every_broker))
    states = await _states(client, names, bodies, [max(common, _written(c)) for c in configured])
    described = {}
    for name, body, override in zip(names, bodies, overrides, strict=True):
        assignment = {int(p): tuple(r) for p, r in body.get("partitions", {}).items()}
        described[name] = TopicZnodes(
            name,
            str(body.get("topic_id", "")),
            {str(k): str(v) for k, v in override.get("config", {}).items()},
            {p: states.get((name, p), PartitionZnodes(r)) for p, r in sorted(assignment.items())},
            name in doomed,
        )
    return Reading(found, registered, described)


async def _states(
    client: Client, names: list[str], bodies: list[dict[str, Any]], configured_by: list[int]
) -> dict[tuple[str, int], PartitionZnodes]:
    asked = []
    for name, body, zxid in zip(names, bodies, configured_by, strict=True):
        for number, replicas in body.get("partitions", {}).items():
            path = znodes.partition_state_path(TopicPartition(name, int(number)))
            asked.append((name, int(number), tuple(replicas), zxid, client.get(path)))
    states = {}
    for name, number, replicas, zxid, answer in asked:
        found = await _or_none(answer)
        if found is not None:
            raw = _json(found[0])
            states[name, number] = PartitionZnodes(
                replicas,
                leader=int(raw.get("leader", -1)),
                leader_epoch=int(raw.get("leader_epoch", 0)),
                isr=tuple(raw.get("isr", ())),
                controller_epoch=int(raw.get("controller_epoch", 0)),
                partition_epoch=found[1].version,
                eligible=eligible_by(found[0], zxid) if raw.get("eligible_leader_replicas") else (),
            )
    return states


def _written(config: tuple[bytes, Stat] | None) -> int:
    return 0 if config is None else config[1].mzxid


def eligible_by(state: bytes, configured_by: int) -> tuple[int, ...]:
    """Who is eligible by a state znode, which counts only as long as the configuration is the one it was judged by."""
    found = znodes.decode_partition_state(state, 0)
    return found.eligible if found is not None and found.eligible_by_zxid == configured_by else ()


def _controller(controller: tuple[bytes, Stat] | None, epoch: tuple[bytes, Stat] | None) -> ControllerZnodes:
    number, version = (0, 0) if epoch is None else (int(epoch[0] or b"0"), epoch[1].version)
    if controller is None:
        return ControllerZnodes(-1, number, version)
    raw = _json(controller[0])
    timestamp = str(raw.get("timestamp", ""))
    elected = controller[1].czxid
    return ControllerZnodes(
        int(raw.get("brokerid", -1)),
        number,
        version,
        int(timestamp) if timestamp.isdigit() else None,
        elected if epoch is not None and epoch[1].mzxid == elected else 0,
    )


def _registration(data: bytes, stat: Stat) -> Registration:
    """Where it listens is told twice: `host` and `port` are of its plaintext listener, and null where it has none."""
    raw = _json(data)
    host, port = raw.get("host"), raw.get("port")
    if not isinstance(host, str) or not isinstance(port, int) or port <= 0:
        first = next(iter(raw.get("endpoints") or ()), "")
        host, _, digits = str(first).partition("://")[2].rpartition(":")
        port = int(digits) if digits.isdigit() else 0
    return Registration(stat.czxid, stat.ephemeral_owner, host.strip("[]"), port)


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
