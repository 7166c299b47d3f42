"""Record and check what clients of real processes observe under faults: `make histories`, `make kafka-histories`.

zookeeper  Clients write, read and watch while peers are killed, paused and isolated.  The checks are linearizability of
           writes and quorum reads (sync, then getData) of each znode, FIFO order per session, and that ephemerals
           exist exactly as long as their session.
kafka      Producers and consumers work while brokers and peers are killed, stopped, paused and isolated.  The checks
           find lost writes, inconsistent offsets, duplicates, and polls and sends out of order, as in Jepsen's
           Kafka workload, and violated invariants of the cluster's journal.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Annotated, Literal, NamedTuple

import typer

from bench.run import Quick, bench_run
from zabka.api.kafka.kafka_client import make_client
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.history_clients import ALIVE, HISTORIES, SESSION_TIMEOUT_MS, History, Player, check_history
from zabka.ensemble.errors import NodeExists
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.checkers.invariants import check as invariant_violations
from zabka.journal.checkers.kafka_analysis import KafkaHistory
from zabka.journal.events import entry_from_dict
from zabka.kafka.client.history_clients import HistoryConsumer, HistoryProducer, TopicPlan
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.nodes import Node
from zabka.testing.live.start import start_live, stop_live

PARTITIONS, PAUSE_MS = 3, 20
FULL_JOURNAL = {"zabka.journal.level": "full"}
"""Setting that makes brokers journal each batch, so that invariants can check the path of records through the logs."""
LAST_S = 120.0
"""Time limit after the last fault for replicas to be in sync, sessions to be removed, and consumers to have read all
records.
"""
SETTLED_S = 3.0
"""Time after the last record until the log end offset of a partition counts as final, if all replicas are in sync."""
Victim = Callable[[LiveCluster, random.Random], Node | None]
"""Function that chooses the node on which to inject the next fault; None stands for any broker."""


class FaultInjector:
    """Injects faults of kinds that are chosen randomly from `kinds`.

    Kinds are kill, kill two, stop, pause, isolate (from all nodes), cut (the link to one other node), cut one way. Each
    fault lasts one of `lasts_s` seconds and is followed by a pause of up to `rest_s`.
    """

    def __init__(
        self, cluster: LiveCluster, seed: int, victim: Victim, kinds: Sequence[str], lasts_s: Sequence[float],
        rest_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.done: Counter[str] = Counter()
        self._cluster = cluster
        self._random = random.Random(f"{seed}/faults")
        self._victim = victim
        self._kinds = kinds
        self._lasts_s = lasts_s
        self._rest_s = rest_s

    def run(self, seconds: float, stopped: Callable[[], bool]) -> None:
        """Inject faults for that many seconds, or until `stopped` returns True."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not stopped():
            self.inject()

    def inject(self) -> None:
        """Inject one fault.  Raises ClusterFailed if it cannot be healed."""
        cluster, kind, lasts_s = self._cluster, self._random.choice(self._kinds), self._random.choice(self._lasts_s)
        victim = self._victim(cluster, self._random) or self._random.choice(list(cluster.brokers.values()))
        others: list[Node] = [n for n in (*cluster.peers.values(), *cluster.brokers.values()) if n is not victim]
        if kind == "pause":
            victim.pause()
            cluster.let_pass(lasts_s)
            victim.resume()
        elif kind in ("isolate", "cut", "cut one way"):
            target = "*" if kind == "isolate" else self._random.choice(others)
            fault = cluster.faults.cut(victim, target, both_ways=kind != "cut one way")
            cluster.let_pass(lasts_s)
            fault.heal()
        else:
            second = next(n for n in others if type(n) is type(victim))
            victims = [victim, second] if kind == "kill two" else [victim]
            for node in victims:
                node.stop() if kind == "stop" else node.kill()
            cluster.let_pass(lasts_s)
            for node in victims:
                node.start()
        self.done[f"{victim.name.split('-')[0]} {kind}"] += 1
        cluster.let_pass(self._random.uniform(self._rest_s / 4, self._rest_s))


def counted(done: Counter[str]) -> str:
    """Return the numbers of injected faults by kind as text, for the summary of a run."""
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(done.items())) or "none"


class Checked(NamedTuple):
    """Result of a check: counts of the recorded operations, violations, and injected faults."""

    counts: dict[str, int]
    wrong: list[str]
    faults: Counter[str]


def journal_violations(cluster: LiveCluster) -> tuple[int, list[str]]:
    """Return the number of events in the cluster's journal, and the invariants that they violate."""
    events = [entry_from_dict(dict(event)) for event in cluster.events(after_us=-1)]
    return len(events), [f"{each.invariant}: {each.detail} (on {each.node})" for each in invariant_violations(events)]


def _peer(cluster: LiveCluster, draw: random.Random) -> Node | None:
    leader = cluster.zab_leader
    if leader is not None and draw.random() < 0.6:
        return leader
    return draw.choice([peer for peer in cluster.peers.values() if peer is not leader])


def _client(hosts: str, name: str) -> Client:
    runtime = AsyncioRuntime(asyncio.get_running_loop())
    return Client(hosts, AsyncioConnector(), runtime, session_timeout_ms=SESSION_TIMEOUT_MS, name=name)


async def _play(
    hosts: str, clients: int, seed: int, history: History, ready: threading.Event, stopping: threading.Event
) -> list[str]:
    """Run the ZooKeeper clients until `stopping`. Return the ephemerals that wrongly exist or are missing."""
    observer = _client(hosts, "observer")
    await observer.start()
    for path in (HISTORIES, ALIVE):
        with suppress(NodeExists):
            await observer.create(path, b"")
    ready.set()
    names = [f"client-{i}" for i in range(1, clients + 1)]
    players = [Player(name, _client(hosts, name), history, seed) for name in names]
    await asyncio.gather(*(player.play(stopping.is_set) for player in players))
    async with asyncio.timeout(LAST_S):
        wrong = [line for line in await asyncio.gather(*(p.check_alive() for p in players)) if line is not None]
        await asyncio.gather(*(player.close_session() for player in players))
        # Wait until the sessions of clients that could not reconnect have expired, and their ephemerals are deleted.
        await observer.sync(ALIVE)
        while await observer.get_children(ALIVE):
            await asyncio.sleep(0.2)
            await observer.sync(ALIVE)
        await observer.close()
    return wrong


def check_zookeeper(cluster: LiveCluster, seconds: float, clients: int, seed: int) -> Checked:
    """Run ZooKeeper clients while injecting faults, and check their recorded history. Heal all faults before
    returning.
    """
    history, ready, stopping = History(), threading.Event(), threading.Event()
    kinds = ("kill", "kill", "pause", "pause", "isolate", "kill two")
    injector = FaultInjector(cluster, seed, _peer, kinds, lasts_s=(0.5, 1.0, 3.0), rest_s=1.5)
    with ThreadPoolExecutor(1) as pool:
        connect = cluster.zookeeper_connect
        playing = pool.submit(lambda: asyncio.run(_play(connect, clients, seed, history, ready, stopping)))
        try:
            ready.wait(LAST_S)
            injector.run(seconds, playing.done)
        finally:
            stopping.set()
        wrong = playing.result()
    found = check_history(history, wrong)
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
    """Run one producer and one consumer per topic until the consumers have read everything."""
    runtime = AsyncioRuntime(asyncio.get_running_loop())
    channels, producing, consuming = [], [], []
    for topic in topics:
        client, channel = make_client(bootstrap, f"producer-{topic.name}")
        producing.append(HistoryProducer(client, runtime, topic, history, PAUSE_MS).run(stopping.is_set))
        channels.append(channel)
        client, channel = make_client(bootstrap, f"consumer-{topic.name}")
        consumer = HistoryConsumer(client, runtime, topic, history, settled.is_set, lambda name, offset: True)
        consuming.append(consumer.run())
        channels.append(channel)
    consumed = asyncio.gather(*consuming)
    await asyncio.gather(*producing)
    async with asyncio.timeout(LAST_S):
        await consumed
    for channel in channels:
        channel.close()
    # asyncio closes the transports in the next iterations of the loop.
    await asyncio.sleep(0.01)


def check_kafka(cluster: LiveCluster, seconds: float, clients: int, seed: int) -> Checked:
    """Run Kafka clients while injecting faults, and check their recorded history. Heal all faults before returning."""
    history, stopping, settled = KafkaHistory(), threading.Event(), threading.Event()
    plans = [TopicPlan(f"history-{n}", PARTITIONS, 3, {"min.insync.replicas": "2"}) for n in range(clients)]
    kinds = ("kill", "kill", "pause", "pause", "cut", "cut", "cut one way", "stop")
    # Some faults last longer than a broker's session timeout.
    injector = FaultInjector(cluster, seed, _broker_or_leader, kinds, lasts_s=(1.0, 2.5, 8.0), rest_s=2.0)

    def in_sync() -> bool:
        partitions = [each for plan in plans for each in cluster.topics[plan.name].partitions]
        return all(each.leader >= 0 and len(each.isr) == len(each.replicas) for each in partitions)

    with ThreadPoolExecutor(1) as pool:
        bootstrap = cluster.bootstrap
        working = pool.submit(lambda: asyncio.run(_produce_and_consume(bootstrap, plans, history, stopping, settled)))
        try:
            cluster.until(in_sync, 60, "topics in sync")
            injector.run(seconds, working.done)
            cluster.heal()
            cluster.until(in_sync, LAST_S, "replicas in sync after all faults")
        finally:
            stopping.set()
            cluster.let_pass(SETTLED_S)
            settled.set()
        working.result()
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
    clients: Annotated[
        int | None, typer.Option(help="Clients [6]; for Kafka producers, and as many consumers [3]")
    ] = None,
    peers: Annotated[int, typer.Option(help="Peers of the ensemble")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the clients and the faults")] = 1,
    quick: Quick = False,
) -> None:
    """Record what clients of a real cluster observe under faults, and check it."""
    kafka = system == "kafka"
    check = check_kafka if kafka else check_zookeeper
    with bench_run(f"{system}-histories") as run:
        brokers, settings = (3, FULL_JOURNAL) if kafka else (1, {})
        cluster = start_live(run.directory, peers=peers, brokers=brokers, settings=settings)
        try:
            checked = check(cluster, 10.0 if quick else seconds, clients or (3 if kafka else 6), seed)
        finally:
            stop_live(cluster)
        run.result(", ".join(f"{count} {what}" for what, count in checked.counts.items()))
        run.result(counted(checked.faults))
        run.failures += checked.wrong
        run.result(f"{len(checked.wrong)} violations")
