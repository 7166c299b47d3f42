"""`make soak`: an hour of steady producing while nodes are killed and frozen and every port hears garbage; then judge.

Real processes, a real client (librdkafka).  What must hold: no acknowledged record is missing or has changed, the
cluster's journal satisfies its invariants, and memory and descriptors of every process are level over the second half.
Exit code 0 where all of it holds, 1 with a line for everything that does not.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.garbage import Garbage
from bench.usage import Usage, descendants
from bench.verdict import counted, end_with
from zabka.compose.topology import load
from zabka.journal.events import entry_from_dict
from zabka.journal.judges.invariants import check
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.nodes import Node
from zabka.testing.live.start import start_live, stop_live

TOPIC = "soak"
PARTITIONS = 6
VALUE_BYTES = 100
SAMPLE_S = 10.0
REPORT_S = 60.0
FLUSH_S = 120.0
READ_S = 300.0
FROZEN_S = (1.0, 3.0, 12.0)
"""How long harm lasts: below the lag of replicas, above it, and beyond a broker's session."""


class Acknowledged(NamedTuple):
    """A record that the cluster said it has."""

    partition: int
    offset: int
    value: bytes


class SteadyProducer:
    """librdkafka, idempotent and with acks=all, at a steady rate from a thread of its own.  Use with `with`."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.refused: Counter[str] = Counter()
        self.sent = 0
        self._rate = rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer")
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                "on_delivery": self._delivered,
                "log_level": 0,
            }
        )

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused[str(error.name())] += 1
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and value is not None
        self.acknowledged.append(Acknowledged(partition, offset, value))

    def _run(self) -> None:
        begin = time.perf_counter()
        padding = b"." * VALUE_BYTES
        while not self._stopping.is_set():
            self._producer.poll(max(0.0, begin + self.sent / self._rate - time.perf_counter()))
            value = (b"%d " % self.sent + padding)[:VALUE_BYTES]
            # Where the queue is full a record is not sent at all; the next turn tries again.
            with suppress(BufferError):
                self._producer.produce(TOPIC, value, partition=self.sent % PARTITIONS)
                self.sent += 1
        self._producer.flush(FLUSH_S)


class Harm:
    """A kill or a freeze, each mended before the next."""

    def __init__(self, cluster: LiveCluster, seed: int) -> None:
        self._cluster = cluster
        self._draw = random.Random(f"{seed}/harm")
        self.done: Counter[str] = Counter()

    def one(self) -> None:
        """Harm one node for a while.  Raises ClusterFailed where it cannot be mended."""
        draw, cluster = self._draw, self._cluster
        everyone = [*cluster.brokers.values(), *cluster.peers.values()]
        victim: Node = draw.choice([cluster.controller, cluster.zab_leader, *everyone]) or draw.choice(everyone)
        kind, lasts_s = draw.choice(("kill", "freeze")), draw.choice(FROZEN_S)
        if kind == "kill":
            victim.kill()
            cluster.let_pass(lasts_s)
            victim.start()
        else:
            victim.pause()
            cluster.let_pass(lasts_s)
            victim.resume()
        self.done[f"{kind} of a {'broker' if victim.name.startswith('broker') else 'peer'}"] += 1


def ports(cluster: LiveCluster) -> list[tuple[str, int]]:
    """Everything that the cluster listens on."""
    topology = load(cluster.data)
    assert topology is not None
    numbers = [(peer.address, port) for peer in topology.peers for port in _ports_of(peer)]
    numbers += [(broker.advertised, broker.port) for broker in topology.brokers]
    numbers += [("127.0.0.1", host.agent_port) for host in topology.hosts]
    return [*numbers, ("127.0.0.1", int(cluster.url.rsplit(":", 1)[1]))]


def _ports_of(peer: Any) -> tuple[int, int, int]:
    return peer.client_port, peer.quorum_port, peer.election_port


def processes(cluster: LiveCluster) -> dict[str, int]:
    """Every process by what it is: nodes by their names, the rest (agent, API) by their place."""
    named = {}
    for kind in ("peers", "brokers"):
        for node in cluster.get(f"/api/v1/{kind}"):
            if node["pid"] is not None:
                named[f"{kind[:-1]}-{node['id']}"] = int(node["pid"])
    assert cluster.process is not None
    others = [pid for pid in descendants(cluster.process.pid) if pid not in named.values()]
    return {**named, **{f"other-{number}": pid for number, pid in enumerate(others)}}


def run(cluster: LiveCluster, plan: Plan) -> tuple[SteadyProducer, Harm, Garbage, Usage]:
    """Let it all happen for so long; the cluster is whole again at the end."""
    configs = {"min.insync.replicas": "2", "retention.ms": "-1"}
    cluster.post("/api/v1/topics", _topic(configs))
    usage, harm = Usage(), Harm(cluster, plan.seed)
    began = time.monotonic()
    with SteadyProducer(cluster.bootstrap, plan.rate) as producer, Garbage(ports(cluster), plan.seed) as garbage:
        next_harm, next_report = plan.harm_every_s, REPORT_S
        while (now := time.monotonic() - began) < plan.seconds:
            with suppress(ClusterFailed):
                usage.take(processes(cluster), now)
            if now >= next_harm:
                harm.one()
                next_harm += plan.harm_every_s
            if now >= next_report:
                _say(now, plan, producer, harm, garbage)
                next_report += REPORT_S
            cluster.let_pass(SAMPLE_S)
        cluster.heal()
    return producer, harm, garbage, usage


def _topic(configs: dict[str, str]) -> dict[str, Any]:
    return {"name": TOPIC, "partitions": PARTITIONS, "replication_factor": 3, "config": configs}


def _say(now: float, plan: Plan, producer: SteadyProducer, harm: Harm, garbage: Garbage) -> None:
    typer.echo(
        f"{now / 60:3.0f} of {plan.seconds / 60:.0f} min: {len(producer.acknowledged)} of {producer.sent} acknowledged,"
        f" {harm.done.total()} faults, {garbage.connections} garbage connections",
        err=True,
    )


def missing(bootstrap: str, acknowledged: list[Acknowledged]) -> list[str]:
    """A line for each acknowledged record that is not where the cluster said, or is another by now."""
    wanted = {(record.partition, record.offset): record.value for record in acknowledged}
    wrong = [] if len(wanted) == len(acknowledged) else ["two records were acknowledged for one offset"]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "soak-reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    deadline = time.monotonic() + READ_S
    while wanted and time.monotonic() < deadline:
        for message in consumer.consume(5_000, timeout=1.0):
            if message.error() is None:
                place = (message.partition() or 0, message.offset() or 0)
                value = wanted.pop(place, None)
                if value is not None and value != message.value():
                    wrong.append(f"{place}: {value!r} was acknowledged, {message.value()!r} stands there")
    consumer.close()
    return wrong + [f"{place}: {value!r} was acknowledged and is gone" for place, value in sorted(wanted.items())]


class Plan(NamedTuple):
    """What is done for how long."""

    seconds: float
    rate: int
    harm_every_s: float
    seed: int


def main(
    minutes: Annotated[float, typer.Option(help="How long.")] = 60.0,
    rate: Annotated[int, typer.Option(help="Records a second.")] = 500,
    harm_every: Annotated[float, typer.Option(help="Seconds from one kill or freeze to the next.")] = 60.0,
    seed: Annotated[int, typer.Option(help="What harm and garbage are chosen by.")] = 1,
) -> None:
    """Produce steadily under kills, freezes and garbage; then judge records, journal, memory and descriptors."""
    plan = Plan(minutes * 60, rate, harm_every, seed)
    with tempfile.TemporaryDirectory(prefix="zabka-soak-") as directory:
        typer.echo(f"3 peers, 3 brokers, {rate} records/s for {minutes:.0f} min, seed {seed}", err=True)
        cluster = start_live(Path(directory), peers=3, brokers=3)
        try:
            producer, harm, garbage, usage = run(cluster, plan)
            wrong = missing(cluster.bootstrap, producer.acknowledged)
            events = [entry_from_dict(dict(event)) for event in cluster.events(after_us=-1)]
        finally:
            stop_live(cluster)
    wrong += [f"{violation.invariant}: {violation.detail} (on {violation.node})" for violation in check(events)]
    wrong += usage.rising(plan.seconds / 2)
    typer.echo(
        f"{len(producer.acknowledged)} of {producer.sent} records acknowledged, refused: "
        f"{counted(producer.refused) or 'none'}; {counted(harm.done)}; {garbage.connections} garbage connections; "
        f"{len(events)} events"
    )
    typer.echo(f"memory and descriptors, third and last quarter:\n{chr(10).join(usage.table(plan.seconds / 2))}")
    end_with(wrong)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(main)

if __name__ == "__main__":
    app()
