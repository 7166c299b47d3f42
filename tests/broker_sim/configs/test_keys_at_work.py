"""Config keys that set a duration or a number: a broker applies the values that it reads from its file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from tests.broker_sim import broker_world
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.broker_process import BrokerProcess, host_environment
from zabka.broker_sim.configs.broker_config import KafkaConfig, config_from
from zabka.broker_sim.configs.replica_config import replica_config
from zabka.broker_sim.controlled_shutdown import ControlledShutdown
from zabka.broker_sim.quotas.client_throttling import PRODUCER_RATE, client_throttles
from zabka.broker_sim.quotas.connection_limits import connection_quotas
from zabka.broker_sim.quotas.connection_quotas import ConnectionLimits
from zabka.broker_sim.quotas.replication_throttles import ReplicationThrottles
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.simulation.engine.scheduler import Scheduler


def configured(**keys: object) -> KafkaConfig:
    given = {key.replace("_", "."): str(value) for key, value in keys.items()}
    return config_from({"broker.id": "1", "zookeeper.connect": "fake:2181", **given})


class Watch:
    """Clock that the test advances."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.runtime = SimRuntime(self.scheduler, Random(0))

    def wait(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)


# ---- quota windows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("windows", "seconds"), [(11, 1), (3, 1), (3, 4)])
def test_client_burst_can_use_quota_of_all_windows_but_one(windows: int, seconds: int) -> None:
    # As in Kafka's Rate.windowSize, the rate is computed as if all windows except the last had elapsed.
    watch = Watch()
    config = configured(quota_window_num=windows, quota_window_size_seconds=seconds)
    throttles = client_throttles(config, watch.runtime)
    throttles.take_over("clients/<default>", {PRODUCER_RATE: "1000"})
    allowed = 1_000 * (windows - 1) * seconds
    assert throttles.produce.note("app", allowed) == 0
    # This amount exceeds the quota by one second's worth, so the throttle time is one second.
    assert throttles.produce.note("app", 1_000) == 1_000


@pytest.mark.parametrize(("windows", "seconds"), [(11, 1), (2, 1), (2, 5)])
def test_connection_burst_can_use_quota_of_all_windows_but_one(windows: int, seconds: int) -> None:
    watch = Watch()
    config = configured(quota_window_num=windows, quota_window_size_seconds=seconds)
    quotas = connection_quotas(config, watch.runtime)
    quotas.configure(ConnectionLimits(creations_per_second=2))
    quotas.add_listener("PLAINTEXT", lambda: None)
    admitted: list[int] = []

    async def come() -> None:
        for number in range(100):
            await quotas.admit("PLAINTEXT", f"10.0.0.{number}")
            admitted.append(watch.scheduler.now_us)

    watch.runtime.spawn(come(), "come")
    watch.wait(1)
    # One connection more than the limit may be accepted, because the rate is checked before the new connection is
    # counted.
    assert len(admitted) - 2 * (windows - 1) * seconds in (0, 1)
    watch.runtime.stop()


@pytest.mark.parametrize(("windows", "seconds"), [(11, 1), (5, 1), (5, 3)])
def test_mutation_burst_can_use_the_quota_of_all_windows(windows: int, seconds: int) -> None:
    # The capacity of Kafka's TokenBucket is the quota times the length of all windows.
    watch = Watch()
    config = configured(controller_quota_window_num=windows, controller_quota_window_size_seconds=seconds)
    quota = client_throttles(config, watch.runtime).mutations
    quota.limit("", "app", 2)
    quota.take_tokens("app", 2 * windows * seconds)
    assert quota.owed_ms("app") == 0
    quota.take_tokens("app", 2)
    assert quota.owed_ms("app") == 1_000


@pytest.mark.parametrize("kind", ["leader", "moves"])
def test_replication_throttle_counts_bytes_of_all_windows(kind: str) -> None:
    prefix = "alter_log_dirs_" if kind == "moves" else ""
    for windows, seconds in ((11, 1), (2, 1), (2, 7)):
        watch = Watch()
        keys = {
            f"{prefix}replication_quota_window_num": windows,
            f"{prefix}replication_quota_window_size_seconds": seconds,
        }
        throttles = ReplicationThrottles(replica_config(configured(**keys)), watch.runtime)
        quota = getattr(throttles, kind)
        quota.limit(1)
        quota.note(1_000_000)
        watch.wait(windows * seconds * 1_000 - 1)
        assert quota.is_exceeded, "SampledStat.purgeObsoleteSamples keeps it until now"
        watch.wait(1)
        assert not quota.is_exceeded


# ---- time-outs and slots ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backoff_ms", [0, 700, 20_000])
def test_controlled_shutdown_waits_the_backoff_between_attempts(backoff_ms: int) -> None:
    watch = Watch()
    asked: list[int] = []

    async def others(path: str) -> list[str]:
        return ["1", "2"]

    def no_endpoint(controller_id: int) -> None:
        asked.append(watch.scheduler.now_us // 1000)

    leaving = ControlledShutdown(
        configured(controlled_shutdown_retry_backoff_ms=backoff_ms),
        cast(Any, SimpleNamespace(runtime=watch.runtime, channel=None, log_line=lambda text: None)),
        cast(Any, SimpleNamespace(get_children=others)),
        cast(Any, SimpleNamespace(endpoint=no_endpoint, controller_id=-1)),
        lambda: 1,
    )
    watch.runtime.spawn(leaving.leave(), "leave")
    watch.wait(60_000)
    assert asked == [0, backoff_ms, 2 * backoff_ms]


@pytest.fixture
def one_slot() -> Iterator[broker_world.Cluster]:
    cluster = broker_world.Cluster(1, max_incremental_fetch_session_cache_slots="1").start()
    cluster.run(cluster.client.create_topic("orders", 1, 1))
    yield cluster
    cluster.stop_all()


def test_fetch_session_cache_is_limited_to_its_configured_slots(one_slot: broker_world.Cluster) -> None:
    node = one_slot.nodes[1]
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]}]

    def begin() -> int:
        asked = request(
            ApiKey.FETCH, 12, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=1_000, isolation_level=0,
            session_id=0, session_epoch=0, topics=topics, forgotten_topics_data=[], rack_id="",
        )  # fmt: skip
        answer = one_slot.on(node, node.broker.handle(asked, "c", "PLAINTEXT"))
        return int(answer.session_id)

    assert begin() != 0 and begin() == 0
    one_slot.wait(121_000)
    assert begin() != 0, "a session unused for two minutes is evicted (FetchSessionCache.tryEvict)"


def test_idle_broker_connection_is_closed_after_max_idle_time(tmp_path: Path) -> None:
    async def run() -> None:
        loop = cast(Any, asyncio.get_running_loop())
        config = configured(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=tmp_path, connections_max_idle_ms=40_000)
        said = cast(Any, SimpleNamespace(write=None, high_watermarks_reached=dict))
        process = BrokerProcess(config, host_environment(structlog.get_logger(), said))
        await process._listen()
        (port,) = process._ports
        real_time, ahead_s = loop.time, 0.0
        loop.time = lambda: real_time() + ahead_s
        reader, writer = await asyncio.open_connection(*port._server.sockets[0].getsockname())  # type: ignore[union-attr]
        while not port.connections:  # noqa: ASYNC110
            await asyncio.sleep(0)
        ahead_s = 39.0
        port._close_idle()
        await asyncio.sleep(0)
        assert port.connections
        ahead_s = 41.0
        port._close_idle()
        assert await reader.read() == b"" and not port.connections
        writer.close()
        await port.close()

    asyncio.run(asyncio.wait_for(run(), 600))
