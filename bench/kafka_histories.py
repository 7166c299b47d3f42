"""`make kafka-histories`: producers and consumers work while brokers and peers are killed, frozen, cut off; then judge.

Real processes.  What the clients were told is judged as Jepsen's kafka workload does
(`zabka.journal.judges.kafka_analysis`): lost writes, inconsistent offsets, duplicates, polls and sends that go back,
polls that skip.  The cluster's journal is judged by the invariants beside it.  Exit code 0 where all held, 1 with a
line for everything that did not.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from bench.verdict import counted, end_with
from zabka.api.kafka.kafka_client import make_client
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
"""With every batch in the journal, the invariants follow the records through every replica's log."""
LAST_WORDS_S = 120.0
SETTLED_S = 3.0
"""After the last record, with every replica in sync, this long passes before a partition's end is taken for its end."""


class Judgement(NamedTuple):
    """What was judged, and what was found wrong."""

    sent: int
    acknowledged: int
    polls: int
    events: int
    wrong: list[str]


class Clients:
    """One producer and one consumer for each of some topics, on a loop in a thread of their own."""

    def __init__(self, bootstrap: str, topics: int) -> None:
        self.history = KafkaHistory()
        self.stopping = threading.Event()
        self.settled = threading.Event()
        self.failure: list[BaseException] = []
        self._bootstrap = bootstrap
        self._topics = [TopicPlan(f"history-{n}", PARTITIONS, 3, {"min.insync.replicas": "2"}) for n in range(topics)]
        self._thread = threading.Thread(target=self._run, name="clients")

    @property
    def topics(self) -> list[str]:
        """Their names."""
        return [topic.name for topic in self._topics]

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Wait until everything was read to its end."""
        self._thread.join(LAST_WORDS_S)
        if self.failure:
            raise self.failure[0]
        assert not self._thread.is_alive(), "the consumers did not come to an end"

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as reason:
            self.failure.append(reason)

    async def _work(self) -> None:
        runtime = AsyncioRuntime(asyncio.get_running_loop())
        channels = []
        work = []
        for topic in self._topics:
            client, channel = make_client(self._bootstrap, f"producer-{topic.name}")
            work.append(HistoryProducer(client, runtime, topic, self.history, PAUSE_MS).run(self.stopping.is_set))
            channels.append(channel)
            client, channel = make_client(self._bootstrap, f"consumer-{topic.name}")
            consumer = HistoryConsumer(
                client, runtime, topic, self.history, self.settled.is_set, lambda name, offset: True
            )
            work.append(consumer.run())
            channels.append(channel)
        await asyncio.gather(*work)
        for channel in channels:
            channel.close()
        # The transports close on the loop's next turns.
        await asyncio.sleep(0.01)


class Troubles:
    """Kills, freezes and cuts brokers and peers, one after the other; always mends before the next."""

    def __init__(self, cluster: LiveCluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(f"{seed}/troubles")
        self.done: Counter[str] = Counter()

    def _victim(self) -> Node:
        cluster, draw = self._cluster, self._random.random()
        if draw < 0.35:
            found: Node | None = cluster.controller
        elif draw < 0.5:
            found = cluster.zab_leader
        else:
            found = self._random.choice(list(cluster.brokers.values()))
        return found or self._random.choice(list(cluster.brokers.values()))

    def one(self) -> None:
        """Do one kind of harm for one to ten seconds: some of it outlasts a broker's session."""
        kind = self._random.choice(("kill", "kill", "pause", "pause", "cut", "cut one way", "stop"))
        victim, lasts_s = self._victim(), self._random.choice((1.0, 2.5, 8.0))
        if kind == "pause":
            victim.pause()
            self._cluster.let_pass(lasts_s)
            victim.resume()
        elif kind.startswith("cut"):
            others = [n for n in (*self._cluster.brokers.values(), *self._cluster.peers.values()) if n is not victim]
            fault = self._cluster.faults.cut(victim, self._random.choice(others), both_ways=kind == "cut")
            self._cluster.let_pass(lasts_s)
            fault.heal()
        else:
            if kind == "kill":
                victim.kill()
            else:
                victim.stop()
            self._cluster.let_pass(lasts_s)
            victim.start()
        self.done[kind] += 1
        self._cluster.let_pass(self._random.uniform(0.5, 2.0))


def _in_sync(cluster: LiveCluster, topics: list[str]) -> bool:
    return all(
        partition.leader >= 0 and len(partition.isr) == len(partition.replicas)
        for topic in topics
        for partition in cluster.topics[topic].partitions
    )


def record(cluster: LiveCluster, seconds: float, topics: int, seed: int) -> tuple[Judgement, Counter[str]]:
    """Let clients run under troubles for so long, and judge what they saw.  The cluster is whole again at the end."""
    clients = Clients(cluster.bootstrap, topics)
    clients.start()
    troubles = Troubles(cluster, seed)
    try:
        cluster.until(lambda: _in_sync(cluster, clients.topics), 60, "topics in sync")
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s and not clients.failure:
            troubles.one()
        cluster.heal()
        cluster.until(lambda: _in_sync(cluster, clients.topics), LAST_WORDS_S, "replicas in sync after all faults")
    finally:
        clients.stopping.set()
        cluster.let_pass(SETTLED_S)
        clients.settled.set()
    clients.end()
    events = [entry_from_dict(dict(event)) for event in cluster.events(after_us=-1)]
    wrong = [str(found) for found in clients.history.violations()]
    wrong += [f"{violation.invariant}: {violation.detail} (on {violation.node})" for violation in check(events)]
    history = clients.history
    return Judgement(len(history.sent), history.acknowledged, len(history.polled), len(events), wrong), troubles.done


def main(
    seconds: Annotated[float, typer.Option(help="How long to make trouble.")] = 120.0,
    topics: Annotated[int, typer.Option(help="Topics, each with a producer and a consumer.")] = 3,
    seed: Annotated[int, typer.Option(help="What the troubles are chosen by.")] = 1,
) -> None:
    """Record what real clients see of real brokers under faults, and judge it."""
    with tempfile.TemporaryDirectory(prefix="zabka-kafka-histories-") as directory:
        typer.echo(f"3 peers, 3 brokers, {topics} topics, {seconds:.0f} s of trouble, seed {seed}", err=True)
        cluster = start_live(Path(directory), peers=3, brokers=3, settings=FULL_JOURNAL)
        try:
            judgement, troubles = record(cluster, seconds, topics, seed)
        finally:
            stop_live(cluster)
    typer.echo(
        f"{judgement.acknowledged} of {judgement.sent} records acknowledged, {judgement.polls} polls, "
        f"{judgement.events} events; {counted(troubles)}"
    )
    end_with(judgement.wrong)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(main)

if __name__ == "__main__":
    app()
