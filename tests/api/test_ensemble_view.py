"""How the API reads znodes: it shows valid znodes, and omits and reports invalid ones without raising an error."""

from __future__ import annotations

import asyncio
import json
import math
import selectors
from collections.abc import Awaitable
from random import Random
from typing import Any, cast

import msgspec
import pytest

from tests.api.api_server import settings
from tests.broker_sim.test_hostile_znodes import LAWFUL, ODD, RAW
from zabka.api.collector.agents import Agents
from zabka.api.collector.collector import Collector
from zabka.api.collector.joined_brokers import JoinedBrokers
from zabka.api.http.problems import Problem
from zabka.api.views import ensemble_view
from zabka.api.views.cluster import Views
from zabka.api.views.ensemble_view import (
    CHECK_INTERVAL_S,
    IDLE_INTERVAL_S,
    READ_TIMEOUT_S,
    WATCHED_S,
    EnsembleView,
    Fresh,
    PartitionZnodes,
    Reading,
    Registration,
)
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import SessionState
from zabka.ensemble.errors import NoAuth, NoNode, ZooKeeperError
from zabka.ensemble.records import ACL, Stat
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.cluster_state import ClusterState

GOOD: dict[str, object] = {
    "/brokers/ids/1": {"version": 4, "host": "h", "port": 9092, "endpoints": ["PLAINTEXT://h:9092"]},
    "/brokers/topics/good": {"version": 2, "partitions": {"0": [1]}},
    "/brokers/topics/good/partitions/0/state": {
        "version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1],
    },
}  # fmt: skip


class FakeClient:
    """Client session with an ensemble that contains `znodes`. Reads of the `refused` paths fail with NoAuth."""

    state = SessionState.CONNECTED

    def __init__(self, znodes: dict[str, bytes], refused: tuple[str, ...] = ()) -> None:
        self.znodes = znodes
        self.refused = refused

    def get(self, path: str) -> Awaitable[tuple[bytes, Stat]]:
        found = self.znodes.get(path)
        if path in self.refused:
            return _answered(NoAuth(path))
        if found is None:
            return _answered(NoNode(path))
        return _answered((found, Stat(7, 8, 0, 0, 3, 0, 0, 5, len(found), 0, 9)))

    def get_acl(self, path: str) -> Awaitable[tuple[list[ACL], Stat]]:
        return _answered(NoAuth(path))

    def get_children(self, path: str) -> Awaitable[list[str]]:
        below = [name.removeprefix(f"{path}/") for name in self.znodes if name.startswith(f"{path}/")]
        return _answered([name for name in below if "/" not in name])


def _answered(outcome: Any) -> Awaitable[Any]:
    """Return the outcome immediately, as an awaitable like the real client's."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
    answer.add_done_callback(lambda done: done.exception())
    return answer


def read(znodes: dict[str, bytes], refused: tuple[str, ...] = ()) -> Fresh:
    async def look() -> Fresh:
        view = EnsembleView("127.0.0.1:1", 6000)
        view._client = cast(Client, FakeClient(znodes, refused))
        return await view.read()

    return asyncio.run(asyncio.wait_for(look(), 20))


def as_json(znodes: dict[str, object]) -> dict[str, bytes]:
    return {path: json.dumps(value).encode() for path, value in znodes.items()}


def still_good(fresh: Fresh) -> bool:
    reading = fresh.reading
    return (
        not fresh.stale
        and reading.brokers[1] == Registration(7, 5, "h", 9092)
        and reading.topics["good"].partitions == {0: PartitionZnodes((1,), 1, 0, (1,), 1, 3)}
    )


def test_valid_znodes_are_read_and_not_reported_as_unreadable() -> None:
    znodes = {**as_json({**LAWFUL, **GOOD}), "/controller_epoch": b"4"}
    fresh = read(znodes)
    assert still_good(fresh)
    assert fresh.reading.unreadable == ()
    assert fresh.reading.controller.broker_id == 1
    assert fresh.reading.topics["bad"].config == {"min.insync.replicas": "2", "segment.bytes": "1024"}


@pytest.mark.parametrize(
    "path", ["/brokers/ids/78", "/brokers/topics/x", "/brokers/topics/good/partitions/1/state", "/config/topics/good"]
)
def test_too_deeply_nested_znode_is_skipped_and_reported(path: str) -> None:
    znodes = {**as_json(GOOD), path: b"[" * 200_000}
    znodes["/brokers/topics/good"] = b'{"version":2,"partitions":{"0":[1],"1":[1]}}'
    fresh = read(znodes)
    others = {n: p for n, p in fresh.reading.topics["good"].partitions.items() if n != 1}
    assert others == {0: PartitionZnodes((1,), 1, 0, (1,), 1, 3)}
    assert [line.partition(":")[0] for line in fresh.reading.unreadable] == [path]


def test_invalid_child_of_brokers_ids_is_reported() -> None:
    fresh = read(
        {**as_json(GOOD), "/brokers/ids/²": b"{}", "/brokers/ids/007": b"{}", "/brokers/ids/" + "9" * 9999: b""}
    )
    assert still_good(fresh) and len(fresh.reading.unreadable) == 3


def test_znode_without_read_permission_is_reported() -> None:
    fresh = read({**as_json(GOOD), "/brokers/topics/secret": b"{}"}, refused=("/brokers/topics/secret",))
    assert still_good(fresh)
    assert fresh.reading.unreadable == ("/brokers/topics/secret: its ACL does not allow reading it",)


def test_request_for_an_unreadable_znode_returns_403() -> None:
    async def ask() -> None:
        view = EnsembleView("127.0.0.1:1", 6000)
        view._client = cast(Client, FakeClient({"/secret": b"x"}, refused=("/secret",)))
        await view.znode("/secret")

    with pytest.raises(Problem, match="the ACL of /secret does not allow reading it") as refused:
        asyncio.run(ask())
    assert refused.value.status == 403


def test_topic_with_too_many_partitions_is_skipped() -> None:
    huge = {"version": 2, "partitions": {str(n): [1] for n in range(50_001)}}
    fresh = read(as_json({**GOOD, "/brokers/topics/huge": huge}))
    assert still_good(fresh)
    assert list(fresh.reading.topics) == ["good"] and len(fresh.reading.unreadable) == 1


def test_unreadable_znodes_after_the_first_100_are_only_counted() -> None:
    fresh = read({**as_json(GOOD), **{f"/brokers/topics/t{n}": b"[" for n in range(150)}})
    assert len(fresh.reading.unreadable) == 101
    assert fresh.reading.unreadable[-1] == "and 50 more"


@pytest.mark.parametrize("seed", range(20))
def test_cluster_is_shown_despite_invalid_znodes(tmp_path: Any, seed: int) -> None:
    random = Random(seed)
    znodes = as_json(GOOD)
    for path, lawful in LAWFUL.items():
        znodes[path] = random.choice(RAW) or b""
        if isinstance(lawful, dict) and lawful and random.random() < 0.8:
            changed = {**lawful, random.choice([*lawful]): random.choice(ODD)}
            znodes[path] = json.dumps(changed).encode()
    fresh = read(znodes)
    assert still_good(fresh)
    view, collector = EnsembleView("127.0.0.1:1", 6000), Collector(tmp_path)
    cluster = Views(settings(tmp_path), Agents([]), view, collector).cluster(fresh, [], [])
    collector.close()
    assert msgspec.json.decode(cluster.model_dump_json())["unreadable"] == list(fresh.reading.unreadable)


def test_ensemble_view_ends_when_its_session_task_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails() -> None:
        raise RecursionError("x")

    class Failing:
        state = SessionState.CONNECTING

        def __init__(self, hosts: str, connector: object, runtime: AsyncioRuntime, **_: object) -> None:
            self._runtime = runtime

        async def start(self) -> None:
            self._runtime.spawn(fails(), "session")
            await asyncio.Event().wait()

        async def close(self) -> None:
            return

    monkeypatch.setattr(ensemble_view, "Client", Failing)

    async def scenario() -> None:
        view = EnsembleView("127.0.0.1:1", 6000)
        for _ in range(2):
            with pytest.raises(RecursionError):
                await view.run()
        await view.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_ensemble_error_keeps_the_last_read_znodes() -> None:
    class Silent(FakeClient):
        async def get_children(self, path: str) -> list[str]:
            raise ZooKeeperError(path)

    async def look() -> Fresh:
        view = EnsembleView("127.0.0.1:1", 6000)
        view._client = cast(Client, Silent({}))
        return await view.read()

    assert asyncio.run(look()) == Fresh(Reading(), stale=True, age_ms=0)


class _Selector(selectors.DefaultSelector):
    """Selector that does not wait: it advances the virtual clock by the timeout."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now_s += timeout or 0.0
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop on virtual time: waiting takes no real time."""

    def __init__(self) -> None:
        self._waits = _Selector()
        super().__init__(self._waits)

    def time(self) -> float:
        return self._waits.now_s


class SlowClient(FakeClient):
    """Client of an ensemble that sends `answers` replies in total, `apart_s` seconds apart."""

    def __init__(self, znodes: dict[str, bytes], apart_s: float, answers: float = math.inf) -> None:
        super().__init__(znodes)
        self._apart_s, self._left = apart_s, answers
        self._last_s = 0.0

    def get(self, path: str) -> Awaitable[tuple[bytes, Stat]]:
        return self._later(super().get(path))

    def _later(self, outcome: Awaitable[Any]) -> Awaitable[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._last_s = max(self._last_s, loop.time()) + self._apart_s
        self._left -= 1
        if self._left >= 0:
            found = cast("asyncio.Future[Any]", outcome)
            give = answer.set_exception if found.exception() else answer.set_result
            loop.call_at(self._last_s, lambda: answer.done() or give(found.exception() or found.result()))
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return answer


def looked_slowly(client: SlowClient) -> tuple[Fresh, float]:
    """Return what the API read through this client, and how many seconds of virtual time the read took."""

    async def look() -> tuple[Fresh, float]:
        view = EnsembleView("127.0.0.1:1", 6000)
        view._client = cast(Client, client)
        return await view.read(), asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(look())


def test_slow_ensemble_that_keeps_replying_is_not_stale() -> None:
    fresh, took_s = looked_slowly(SlowClient(as_json(GOOD), READ_TIMEOUT_S * 0.9))
    assert took_s > 2 * READ_TIMEOUT_S
    assert still_good(fresh)


def test_ensemble_that_stops_replying_during_a_read_is_stale() -> None:
    answers = 4
    fresh, took_s = looked_slowly(SlowClient(as_json(GOOD), READ_TIMEOUT_S / 2, answers))
    assert fresh.stale
    assert took_s <= (answers / 2 + 1) * READ_TIMEOUT_S


def test_ensemble_read_times_out_while_replies_still_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble_view, "LOOK_S_MAX", 3 * READ_TIMEOUT_S)
    fresh, took_s = looked_slowly(SlowClient(as_json(GOOD), READ_TIMEOUT_S * 0.9))
    assert fresh.stale
    assert took_s == pytest.approx(3 * READ_TIMEOUT_S)


def test_ensemble_is_polled_often_only_while_clients_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("zabka.api.views.ensemble_view.time.monotonic", lambda: now[0])
    view = EnsembleView("127.0.0.1:1", 6000)
    view._client = cast(Client, FakeClient(as_json(GOOD)))
    asyncio.run(view._read(-1.0))
    assert view.interval_s == IDLE_INTERVAL_S
    asyncio.run(view.read())
    assert view.interval_s == CHECK_INTERVAL_S
    now[0] += WATCHED_S
    assert view.interval_s == IDLE_INTERVAL_S


def test_unresponsive_ensemble_is_polled_often() -> None:
    view = EnsembleView("127.0.0.1:1", 6000)
    asyncio.run(view._read(-1.0))
    assert view.interval_s == CHECK_INTERVAL_S


def looked_at(own: list[int]) -> EnsembleView:
    """Return an ensemble view that has read the broker znodes twice. Brokers not in `own` were started elsewhere."""

    async def look() -> EnsembleView:
        view = EnsembleView("127.0.0.1:1", 6000)
        view._client = cast(Client, FakeClient(as_json(GOOD)))
        looking = asyncio.create_task(JoinedBrokers(own, lambda _: None, ClusterState()).run(view))
        for _ in range(2):
            await view._read(-1.0)
        looking.cancel()
        return view

    return asyncio.run(asyncio.wait_for(look(), 20))


def test_brokers_of_the_cluster_do_not_shorten_the_poll_interval() -> None:
    assert looked_at([1]).interval_s == IDLE_INTERVAL_S


def test_joined_broker_shortens_the_ensemble_poll_interval() -> None:
    assert looked_at([]).interval_s == CHECK_INTERVAL_S
