"""Container znodes, TTL znodes and quotas of our peers and Apache ZooKeeper.

Both implementations use one data directory in turn, or are members of one ensemble.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.interop.real_zookeeper import MixedEnsemble, needs_java
from zabka.ensemble.client import connect
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import WatchEvent
from zabka.ensemble.records import EventType

KEYS = "extendedTypesEnabled=true\nenforceQuota=true\nznode.container.checkIntervalMs=300\n"
STATS = "/zookeeper/quota/q/zookeeper_stats"


def mixed(directory: Path, peers: int, tick_time: int = 300) -> MixedEnsemble:
    ensemble = MixedEnsemble(directory, peers, tick_time)
    for i in ensemble.client_ports:
        with ensemble.config(i).open("a") as config:
            config.write(KEYS)
    return ensemble


async def make(client: Client, name: str) -> None:
    """Create a container with a child, a TTL znode (ten minutes), and a znode with a quota."""
    await client.create_container(f"/container-{name}")
    await client.create(f"/container-{name}/child")
    await client.create_with_ttl(f"/ttl-{name}", b"data", ttl_ms=600_000)
    await client.create(f"/q/{name}", b"12345")


async def look(client: Client, *names: str) -> tuple[object, ...]:
    """Return the data and Stats of these znodes, and the usage of the quota."""
    seen: list[object] = [(await client.get(STATS))[0]]
    for name in names:
        for path in (f"/container-{name}", f"/ttl-{name}", f"/q/{name}"):
            data, stat = await client.get(path)
            seen.append((path, data, stat))
    return tuple(seen)


@needs_java
def test_containers_and_ttl_nodes_move_to_zookeeper_and_back(tmp_path: Path) -> None:
    ensemble = mixed(tmp_path, 1)

    async def first() -> tuple[object, ...]:
        async with asyncio.timeout(30), connect(ensemble.hosts) as client:
            for path in ("/q", "/zookeeper/quota/q"):
                await client.create(path)
            await client.create("/zookeeper/quota/q/zookeeper_limits", b"count=-1,bytes=-1=;byteHardLimit=1000")
            await client.create(STATS, b"")
            await make(client, "ours")
            return await look(client, "ours")

    async def second() -> tuple[object, ...]:
        async with asyncio.timeout(30), connect(ensemble.hosts) as client:
            before = await look(client, "ours")
            await make(client, "theirs")
            assert before[0] == b"count=2,bytes=5"
            return before, await look(client, "ours", "theirs")

    async def third() -> tuple[object, ...]:
        async with asyncio.timeout(30), connect(ensemble.hosts) as client:
            return await look(client, "ours", "theirs")

    try:
        ensemble.start()
        ensemble.wait_for_quorum()
        made = asyncio.run(first())
        ensemble.kill(1)
        ensemble.start_java(1)
        ensemble.wait_for_quorum()
        found, theirs = asyncio.run(second())
        assert found == made
        assert "digest" not in ensemble.java_log(1).lower(), ensemble.java_log(1)
        ensemble.kill(1)
        ensemble.start()
        ensemble.wait_for_quorum()
        assert asyncio.run(third()) == theirs
        assert asyncio.run(lapse(ensemble, 1, "/container-theirs")) == "gone"
    finally:
        ensemble.close()


async def lapse(ensemble: MixedEnsemble, at: int, container: str) -> str:
    """Delete a container's child, and wait until the leader has deleted the container, as read from server `at`."""
    async with asyncio.timeout(30), connect(f"127.0.0.1:{ensemble.client_ports[at]}") as client:
        gone = asyncio.Event()

        def on_event(event: WatchEvent) -> None:
            if event.type is EventType.DELETED:
                gone.set()

        await client.add_watch(container, on_event)
        await client.delete(f"{container}/child")
        await gone.wait()
        return "gone"


@needs_java
def test_our_leader_deletes_expired_znodes_of_a_java_follower(tmp_path: Path) -> None:
    ensemble = mixed(tmp_path, 3)

    async def scene() -> None:
        async with asyncio.timeout(30), connect(f"127.0.0.1:{ensemble.client_ports[1]}") as client:
            await client.create("/q")
            await make(client, "theirs")
            short, _ = await client.create_with_ttl("/short", ttl_ms=1)
            gone = asyncio.Event()
            await client.add_watch(short, lambda event: gone.set() if event.type is EventType.DELETED else None)
            if await client.exists(short) is not None:
                await gone.wait()
            assert await client.exists("/ttl-theirs") is not None
        assert await lapse(ensemble, 1, "/container-theirs") == "gone"

    try:
        ensemble.start(2, 3)
        assert ensemble.wait_for_quorum() == 3
        ensemble.start_java(1)
        ensemble.wait_for_quorum()
        asyncio.run(scene())
        assert "digest" not in ensemble.java_log(1).lower(), ensemble.java_log(1)
    finally:
        ensemble.close()


@needs_java
@pytest.mark.parametrize("java", [False, True])
def test_ttl_can_be_checked_several_times_within_a_tick(tmp_path: Path, java: bool) -> None:
    ensemble = mixed(tmp_path, 1, tick_time=20_000)
    # Java reads this system property without the prefix `zookeeper.`, so it cannot be set in zoo.cfg.
    ensemble.java_options = ("-Dznode.container.checkIntervalMs=300",)

    async def scene() -> float:
        async with asyncio.timeout(30), connect(ensemble.hosts) as client:
            gone = asyncio.Event()
            await client.create("/short-lived")
            path, _ = await client.create_with_ttl("/short-lived/node", ttl_ms=400)
            await client.add_watch(path, lambda event: gone.set() if event.type is EventType.DELETED else None)
            began_s = time.monotonic()
            await gone.wait()
            return time.monotonic() - began_s

    try:
        if java:
            ensemble.start_java(1)
        else:
            ensemble.start(1)
        ensemble.wait_for_quorum()
        assert asyncio.run(scene()) < 5, "a tick is four times as long"
    finally:
        ensemble.close()
