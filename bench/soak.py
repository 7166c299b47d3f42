"""A cluster under steady load and faults for an hour: `make soak`.

The processes and the client (librdkafka) are real. Every minute a node is killed or paused, and every port receives
garbage. At the end, the program checks that no acknowledged record is missing or changed, and that the cluster's
journal violates no invariant. It also checks that the memory and file descriptors of each process did not grow over the
second half of the time.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import typer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bench.histories import FaultInjector, counted, journal_violations
from bench.results import Figure, Measurement
from bench.run import Json, Quick, Run, bench_run
from bench.servers import descendants, number_in
from zabka.compose.topology import load
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.nodes import Node
from zabka.testing.live.start import start_live, stop_live

TOPIC = "soak"
PARTITIONS = 6
VALUE_BYTES = 100
SAMPLE_S, REPORT_S = 10.0, 60.0
FLUSH_S, READ_S = 120.0, 300.0
FAULT_S = (1.0, 3.0, 12.0)
"""Fault durations: shorter than the replicas' maximum lag, longer than it, and longer than a broker's session
timeout.
"""
GROWTH_MAX = 1.05
WARM_S = 300.0
"""Processes younger than this are not measured, because they are still filling their caches."""
SLACK_KIB, SLACK_DESCRIPTORS = 2048, 20
HELD_OPEN_MAX = 30
LENGTHS = (0x7FFFFFFF, 0x0FFFFFFF, 0x000FFFFE, 1, 0, -1, -(1 << 31))
FIGURES = (
    Figure("before_mib", "RSS MiB, third quarter", ",.1f", ""),
    Figure("after_mib", "fourth", ",.1f", ""),
    Figure("before_descriptors", "descriptors, third quarter", ",.0f", ""),
    Figure("after_descriptors", "fourth", ",.0f", ""),
)


class Records:
    """Counts of sent records by outcome, and the acknowledged records."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        """Number of records by outcome: sent, acknowledged, or the name of the error."""
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        """Acknowledged values by partition and offset."""
        self.wrong: list[str] = []

    def acknowledge(self, partition: int, offset: int, value: bytes) -> None:
        """Note that the broker has acknowledged the record with this value."""
        if (partition, offset) in self.acknowledged:
            self.wrong.append(f"two records were acknowledged for {(partition, offset)}")
        self.acknowledged[partition, offset] = value

    def produce(self, bootstrap: str, rate: int, stopping: threading.Event) -> None:
        """Send records at a steady rate with librdkafka, idempotent and with acks=all, until `stopping`."""

        def delivered(error: KafkaError | None, message: Any) -> None:
            self.outcomes["acknowledged" if error is None else str(error.name())] += 1
            if error is None:
                self.acknowledge(message.partition(), message.offset(), message.value())

        settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        producer = Producer({**settings, "message.timeout.ms": 120_000, "on_delivery": delivered, "log_level": 0})
        begin = time.perf_counter()
        while not stopping.is_set():
            number = self.outcomes["sent"]
            producer.poll(0)
            while (wait_s := begin + number / rate - time.perf_counter()) > 0:
                producer.poll(wait_s)
            # If the producer's queue is full, send the record in the next iteration.
            with suppress(BufferError):
                producer.produce(TOPIC, b"%-*d" % (VALUE_BYTES, number), partition=number % PARTITIONS)
                self.outcomes["sent"] += 1
        producer.flush(FLUSH_S)

    def violations(self, bootstrap: str) -> list[str]:
        """Return one line for each acknowledged record that is missing from its offset or has another value there."""
        expected, wrong = dict(self.acknowledged), list(self.wrong)
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "soak-reader", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
        deadline = time.monotonic() + READ_S
        while expected and time.monotonic() < deadline:
            for message in consumer.consume(5_000, timeout=1.0):
                place = (message.partition() or 0, message.offset() or 0)
                if message.error() is None and (value := expected.pop(place, message.value())) != message.value():
                    wrong.append(f"{place}: {value!r} was acknowledged, {message.value()!r} is stored")
        consumer.close()
        return wrong + [f"{place}: {value!r} was acknowledged and is missing" for place, value in expected.items()]


def garbage(draw: random.Random) -> bytes:
    """Bytes that begin like those of a ZooKeeper, Kafka, HTTP or TLS client, and then deviate from the protocol."""
    path = draw.choice(("cluster", "journal?after=x", "../../../etc/passwd", "brokers/1/kill"))
    begins = (
        b"",
        draw.choice((b"srvr", b"mntr", b"zzzz")),
        b"\x16\x03\x01\x02\x00\x01\x00",
        struct.pack(">i", draw.choice(LENGTHS)),
        struct.pack(">iiqiqi", 44, 0, draw.getrandbits(62), 10_000, draw.getrandbits(62), 16),
        struct.pack(">ihhi", 74, draw.choice((0, 1, 3, 18, 999)), draw.choice((0, 9, 77, -1)), draw.getrandbits(31)),
        f"{draw.choice(('GET', 'POST', 'BREW'))} /api/v1/{path} HTTP/1.1\r\nContent-Length: 99999999999\r\n".encode(),
    )
    return draw.choice(begins) + draw.randbytes(draw.choice((0, 10, 64, 3_000, 70_000)))


def send_garbage(addresses: Sequence[tuple[str, int]], seed: int, stopping: threading.Event) -> int:
    """Connect to one port after another and send garbage until `stopping`; return the number of connections."""
    draw, made = random.Random(f"{seed}/garbage"), 0
    held: list[socket.socket] = []
    while not stopping.wait(0.1):
        # The connection is refused or times out if a node is dead or paused.
        with suppress(OSError):
            held.append(socket.create_connection(draw.choice(addresses), 0.5))
            made += 1
            held[-1].settimeout(0.2)
            held[-1].sendall(garbage(draw))
            if draw.random() < 0.3:
                held[-1].recv(4096)
        while held and (len(held) > HELD_OPEN_MAX or draw.random() < 0.5):
            connection = held.pop(draw.randrange(len(held)))
            if draw.random() < 0.3:
                # With a linger time of zero, close() resets the connection (RST).
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
    for connection in held:
        connection.close()
    return made


def ports(cluster: LiveCluster) -> list[tuple[str, int]]:
    """Return all ports of the cluster."""
    topology = load(cluster.data)
    assert topology is not None
    found = [(p.address, port) for p in topology.peers for port in (p.client_port, p.quorum_port, p.election_port)]
    found += [(broker.advertised, broker.port) for broker in topology.brokers]
    found += [("127.0.0.1", host.agent_port) for host in topology.hosts]
    return [*found, ("127.0.0.1", int(cluster.url.rsplit(":", 1)[1]))]


Usage = dict[tuple[str, int], list[tuple[float, int, int]]]
"""Samples (seconds, resident KiB, descriptors), keyed by node and process id. A restarted node has a new process id."""


def take(usage: Usage, pids: Mapping[str, int], at_s: float) -> None:
    """Add one sample of each node's process to `usage`."""
    for node, pid in pids.items():
        with suppress(OSError):
            resident, open_files = number_in(Path(f"/proc/{pid}/status"), "VmRSS:"), Path(f"/proc/{pid}/fd").iterdir()
            usage.setdefault((node, pid), []).append((at_s, resident, len(list(open_files))))


def levels(usage: Usage, since_s: float) -> list[Measurement]:
    """Return, per process, the median memory and descriptors in both halves of the time after `since_s`.

    Processes that ran too briefly are omitted. Growth between the halves is recorded as a problem.
    """
    found = []
    for (node, pid), samples in usage.items():
        kept = [sample for sample in samples if sample[0] >= max(since_s, samples[0][0] + WARM_S)]
        if len(kept) < 8:
            continue
        halves = kept[: len(kept) // 2], kept[len(kept) // 2 :]
        before_kib, after_kib = (median(kib for _, kib, _ in half) for half in halves)
        before, after = (median(count for *_, count in half) for half in halves)
        grew = after_kib > before_kib * GROWTH_MAX and after_kib > before_kib + SLACK_KIB
        problems = [f"grew from {before_kib / 1024:.1f} to {after_kib / 1024:.1f} MiB"] if grew else []
        problems += [f"went from {before:.0f} to {after:.0f} descriptors"] if after > before + SLACK_DESCRIPTORS else []
        values = (before_kib / 1024, after_kib / 1024, before, after)
        figures = {figure.key: value for figure, value in zip(FIGURES, values, strict=True)}
        found.append(Measurement(f"{node}, pid {pid}", "ours", figures, problems))
    return found


def processes(cluster: LiveCluster) -> dict[str, int]:
    """Return the ids of all processes of the cluster, keyed by name.

    Nodes are named `peer-N` or `broker-N`; the other processes (agent and API) are named `other-N`.
    """
    named = {}
    for kind in ("peers", "brokers"):
        for node in cluster.get(f"/api/v1/{kind}"):
            if node["pid"] is not None:
                named[f"{kind[:-1]}-{node['id']}"] = int(node["pid"])
    assert cluster.process is not None
    others = [pid for pid in descendants(cluster.process.pid) if pid not in named.values()]
    return {**named, **{f"other-{number}": pid for number, pid in enumerate(others)}}


def _victim(cluster: LiveCluster, draw: random.Random) -> Node | None:
    return draw.choice([cluster.controller, cluster.zab_leader, *cluster.brokers.values(), *cluster.peers.values()])


class Plan(NamedTuple):
    """Plan of a soak run: duration, records per second, seconds between faults, and the seed for faults and garbage."""

    seconds: float
    rate: int
    fault_every_s: float
    seed: int


def soak(run: Run, cluster: LiveCluster, plan: Plan) -> None:
    """Run the whole plan and record the results."""
    config = {"min.insync.replicas": "2", "retention.ms": "-1"}
    topic = {"name": TOPIC, "partitions": PARTITIONS, "replication_factor": 3, "config": config}
    cluster.post("/api/v1/topics", topic)
    usage: Usage = {}
    injector = FaultInjector(cluster, plan.seed, _victim, ("kill", "pause"), FAULT_S)
    records, stopping = Records(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        producer = pool.submit(records.produce, cluster.bootstrap, plan.rate, stopping)
        garbage_sent = pool.submit(send_garbage, ports(cluster), plan.seed, stopping)
        try:
            _inject(run, cluster, plan, injector, usage, records)
        finally:
            stopping.set()
        producer.result()
    run.failures += records.violations(cluster.bootstrap)
    events, violations = journal_violations(cluster)
    run.failures += violations
    for measurement in levels(usage, plan.seconds / 2):
        run.add(measurement)
    run.result(f"records: {counted(records.outcomes)}")
    run.result(f"{counted(injector.done)}; {garbage_sent.result()} garbage connections; {events} events")


def _inject(
    run: Run, cluster: LiveCluster, plan: Plan, injector: FaultInjector, usage: Usage, records: Records
) -> None:
    """Inject faults for the planned time, and sample the processes meanwhile.  All faults are healed when this
    returns.
    """
    began, next_fault, next_report = time.monotonic(), plan.fault_every_s, REPORT_S
    while (now := time.monotonic() - began) < plan.seconds:
        with suppress(ClusterFailed):
            take(usage, processes(cluster), now)
        if now >= next_fault:
            injector.inject()
            next_fault += plan.fault_every_s
        if now >= next_report:
            run.note(f"{now / 60:3.0f} of {plan.seconds / 60:.0f} min: {counted(records.outcomes + injector.done)}")
            next_report += REPORT_S
        cluster.let_pass(SAMPLE_S)
    cluster.heal()


def main(
    minutes: Annotated[float, typer.Option(help="Duration")] = 60.0,
    rate: Annotated[int, typer.Option(help="Records a second")] = 500,
    fault_every: Annotated[float, typer.Option(help="Seconds between faults")] = 60.0,
    seed: Annotated[int, typer.Option(help="Seed of faults and garbage")] = 1,
    quick: Quick = False,
    as_json: Json = False,
) -> None:
    """Produce steadily under faults and garbage, then check records, journal, memory and descriptors."""
    plan = Plan(60.0, rate, 15.0, seed) if quick else Plan(minutes * 60, rate, fault_every, seed)
    with bench_run("soak", as_json) as run:
        run.compare(f"3 peers, 3 brokers, {rate} records/s for {plan.seconds / 60:g} min, seed {seed}", FIGURES)
        cluster = start_live(run.directory, peers=3, brokers=3)
        try:
            soak(run, cluster, plan)
        finally:
            stop_live(cluster)
        run.result("no violations" if not run.failures else f"{len(run.failures)} violations")
