"""What clients of real processes see under faults, recorded and checked: `make histories`, `make kafka-histories`.

zookeeper  Clients write, read and watch while peers are killed, paused and isolated.  Checked are linearizability of
           writes and quorum reads (sync, then getData) of each znode, FIFO order per session, and ephemerals, which
           live exactly as long as their session.
kafka      Producers and consumers work while brokers and peers are killed, stopped, paused and cut off.  Checked
           are lost writes, inconsistent offsets, duplicates, and polls and sends out of order, as in Jepsen's Kafka
           workload, and the invariants of the cluster's journal.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Literal, NamedTuple

import typer

from bench.faults import FaultInjector, counted
from bench.run import Quick, bench_run
from zabka.api.kafka.kafka_client import make_client
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.history_clients import ALIVE, HISTORIES, SESSION_TIMEOUT_MS, History, Player, judge
from zabka.ensemble.errors import ConnectionLoss, NodeExists
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.events import entry_from_dict
from zabka.journal.judges.invariants import check
from zabka.journal.judges.kafka_analysis import KafkaHistory
from zabka.kafka.client.history_clients import HistoryConsumer, HistoryProducer, TopicPlan
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.nodes import Node
from zabka.testing.live.start import start_live, stop_live

PARTITIONS = 3
PAUSE_MS = 20
FULL_JOURNAL = {"zabka.journal.level": "full"}
"""With each batch in the journal, the invariants follow the records through the log of each replica."""
LAST_S = 120.0
"""Within this time after the faults replicas are in sync, expired sessions are removed, and consumers have read all."""
SETTLED_S = 3.0
"""The end of a partition is final this long after the last record, with all replicas in sync."""


class Checked(NamedTuple):
    """What was recorded, violations, and the faults."""

    counts: dict[str, int]
    wrong: list[str]
    faults: Counter[str]


def journal_violations(cluster: LiveCluster) -> tuple[int, list[str]]:
    """The number of events in the cluster's journal, and the violated invariants."""
    events = [entry_from_dict(dict(event)) for event in cluster.events(after_us=-1)]
    return len(events), [f"{each.invariant}: {each.detail} (on {each.node})" for each in check(events)]


def _peer(cluster: LiveCluster, draw: random.Random) -> Node | None:
    leader = cluster.zab_leader
    if leader is not None and draw.random() < 0.6:
        return leader
    return draw.choice([peer for peer in cluster.peers.values() if peer is not leader])


def _client(hosts: str, name: str) -> Client:
    runtime = AsyncioRuntime(asyncio.get_running_loop())
    return Client(hosts, AsyncioConnector(), runtime, session_timeout_ms=SESSION_TIMEOUT_MS, name=name)


async def _create(client: Client, path: str) -> None:
    while True:
        try:
            await client.create(path, b"")
        except ConnectionLoss:
            continue
        except NodeExists:
            pass
        return


async def _play(hosts: str, clients: int, seed: int, history: History, stopping: Callable[[], bool]) -> list[str]:
    """Run the clients until `stopping`; the ephemerals that are wrong."""
    observer = _client(hosts, "observer")
    await observer.start()
    for path in (HISTORIES, ALIVE):
        await _create(observer, path)
    names = [f"client-{i}" for i in range(1, clients + 1)]
    players = [Player(name, _client(hosts, name), history, seed) for name in names]
    await asyncio.gather(*(player.play(stopping) for player in players))
    async with asyncio.timeout(LAST_S):
        wrong = [line for line in await asyncio.gather(*(p.check_alive() for p in players)) if line is not None]
        await asyncio.gather(*(player.end() for player in players))
        # The session of a client that did not come back ends by its timeout.
        await observer.sync(ALIVE)
        while await observer.get_children(ALIVE):
            await asyncio.sleep(0.2)
            await observer.sync(ALIVE)
        await observer.close()
    return wrong


def check_zookeeper(cluster: LiveCluster, seconds: float, clients: int, seed: int) -> Checked:
    """Let clients run under faults and check what they saw.  The ensemble is whole again at the end."""
    history, stopping = History(), threading.Event()
    kinds = ("kill", "kill", "pause", "pause", "isolate", "kill two")
    injector = FaultInjector(cluster, seed, _peer, kinds, lasts_s=(0.5, 1.0, 3.0), rest_s=1.5)
    with ThreadPoolExecutor(1) as pool:
        connect = cluster.zookeeper_connect
        playing = pool.submit(lambda: asyncio.run(_play(connect, clients, seed, history, stopping.is_set)))
        try:
            injector.run(seconds, playing.done)
        finally:
            stopping.set()
        wrong = playing.result()
    found = judge(history, wrong)
    counts = {
        "writes and quorum reads": found.operations,
        "znodes": found.keys,
        "ordered replies": found.seen,
        "sessions expired": found.sessions_expired,
    }
    return Checked(counts, found.wrong, injector.done)


def _broker_or_leader(cluster: LiveCluster, draw: random.Random) -> Node | None:
    number = draw.random()
    return cluster.controller if number < 0.35 else cluster.zab_leader if number < 0.5 else None


async def _produce_and_consume(
    bootstrap: str, topics: list[TopicPlan], history: KafkaHistory, stopping: threading.Event, settled: threading.Event
) -> None:
    """One producer and one consumer for each topic, until the consumers have read everything."""
    runtime = AsyncioRuntime(asyncio.get_running_loop())
    channels, work = [], []
    for topic in topics:
        client, channel = make_client(bootstrap, f"producer-{topic.name}")
        work.append(HistoryProducer(client, runtime, topic, history, PAUSE_MS).run(stopping.is_set))
        channels.append(channel)
        client, channel = make_client(bootstrap, f"consumer-{topic.name}")
        work.append(HistoryConsumer(client, runtime, topic, history, settled.is_set, lambda name, offset: True).run())
        channels.append(channel)
    await asyncio.gather(*work)
    for channel in channels:
        channel.close()
    # The transports close in the next turns of the loop.
    await asyncio.sleep(0.01)


def check_kafka(cluster: LiveCluster, seconds: float, topics: int, seed: int) -> Checked:
    """Let clients run under faults and check what they saw.  The cluster is whole again at the end."""
    history, stopping, settled = KafkaHistory(), threading.Event(), threading.Event()
    plans = [TopicPlan(f"history-{n}", PARTITIONS, 3, {"min.insync.replicas": "2"}) for n in range(topics)]
    kinds = ("kill", "kill", "pause", "pause", "cut", "cut", "cut one way", "stop")
    # Some faults outlast a broker's session.
    injector = FaultInjector(cluster, seed, _broker_or_leader, kinds, lasts_s=(1.0, 2.5, 8.0), rest_s=2.0)

    def in_sync() -> bool:
        partitions = [each for plan in plans for each in cluster.topics[plan.name].partitions]
        return all(each.leader >= 0 and len(each.isr) == len(each.replicas) for each in partitions)

    with ThreadPoolExecutor(1) as pool:
        bootstrap = cluster.bootstrap
        clients = pool.submit(lambda: asyncio.run(_produce_and_consume(bootstrap, plans, history, stopping, settled)))
        try:
            cluster.until(in_sync, 60, "topics in sync")
            injector.run(seconds, clients.done)
            cluster.heal()
            cluster.until(in_sync, LAST_S, "replicas in sync after all faults")
        finally:
            stopping.set()
            cluster.let_pass(SETTLED_S)
            settled.set()
        clients.result(LAST_S)
    events, violations = journal_violations(cluster)
    counts = {
        "records sent": len(history.sent),
        "acknowledged": history.acknowledged,
        "polls": len(history.polled),
        "events": events,
    }
    return Checked(counts, [*map(str, history.violations()), *violations], injector.done)


def main(
    system: Annotated[Literal["zookeeper", "kafka"], typer.Argument(help="Whose clients")] = "zookeeper",
    seconds: Annotated[float, typer.Option(help="How long to inject faults")] = 120.0,
    clients: Annotated[int, typer.Option(help="Clients of the ensemble")] = 6,
    topics: Annotated[int, typer.Option(help="Topics, each with a producer and a consumer")] = 3,
    peers: Annotated[int, typer.Option(help="Peers of the ensemble")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the clients and the faults")] = 1,
    quick: Quick = False,
) -> None:
    """Record what clients of a real cluster see under faults, and check it."""
    with bench_run(f"{system}-histories") as run:
        kafka = system == "kafka"
        settings = FULL_JOURNAL if kafka else {}
        cluster = start_live(run.directory, peers=peers, brokers=3 if kafka else 1, settings=settings)
        try:
            duration = 10.0 if quick else seconds
            if kafka:
                checked = check_kafka(cluster, duration, topics, seed)
            else:
                checked = check_zookeeper(cluster, duration, clients, seed)
        finally:
            stop_live(cluster)
        run.result(", ".join(f"{count} {what}" for what, count in checked.counts.items()))
        run.result(counted(checked.faults))
        run.failures += checked.wrong
        run.result(f"{len(checked.wrong)} violations")
