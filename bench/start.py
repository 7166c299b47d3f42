"""Benchmark of the time, CPU time and memory that a cluster needs to start (`make bench-start`).

The cluster has one or three nodes of each kind.  Each side starts its ZooKeeper servers, then its brokers, as a test
fixture does, and creates a topic.  The time ends when the topic has leaders and full ISRs.  zabka is measured twice:
its servers as separate processes, started like Apache's from their configuration files, and the fixture
`running_cluster`, which forks all nodes from one agent.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from bench.results import Figure, Measurement, Side
from bench.run import Json, Only, Quick, Run, bench_run
from bench.servers import Ensemble, KafkaCluster, Shape, cpu_s, descendants, number_in
from zabka.testing import running_cluster

SIZES = (1, 3)
TOPIC = "first"
FIGURES = (
    Figure("start_s", "start, s", ",.2f"),
    Figure("cpu_s", "CPU, s", ",.2f"),
    Figure("pss_mib", "PSS, MiB", ",.0f"),
)


def figures(began_s: float, pids: list[int]) -> dict[str, float]:
    """Return the time since `began_s`, and the CPU time and memory of the processes `pids` together."""
    start_s = time.monotonic() - began_s
    pss_kib = sum(number_in(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") for pid in pids)
    return {"start_s": start_s, "cpu_s": sum(map(cpu_s, pids)), "pss_mib": pss_kib / 1024}


def start_servers(side: Side, directory: Path, nodes: int) -> dict[str, float]:
    """Start a cluster from configuration files, and return its time, CPU time and memory."""
    settings = {"offsets.topic.replication.factor": nodes, "transaction.state.log.replication.factor": nodes}
    with ExitStack() as stack:
        began_s = time.monotonic()
        peers: Side = "ours" if side == "ours" else "zookeeper"
        ensemble = stack.enter_context(Ensemble(peers, directory / "ensemble", Shape(voters=nodes)))
        hosts = ",".join(ensemble.hosts)
        brokers = stack.enter_context(KafkaCluster(side, directory / "brokers", hosts, nodes, settings))
        brokers.create_topic(TOPIC, [[*range(1, nodes + 1)]])
        return figures(began_s, ensemble.pids + brokers.pids)


def start_fixture(nodes: int) -> dict[str, float]:
    """Start the fixture's cluster, and return the time, CPU time and memory of its agent and all nodes."""
    began_s = time.monotonic()
    with running_cluster(peers=nodes, brokers=nodes) as cluster:
        cluster.topics.create(TOPIC, partitions=1, replication_factor=nodes)
        return figures(began_s, [pid for pid in descendants(os.getpid()) if pid != os.getpid()])


def measure(run: Run, side: Side, nodes: int, number: int) -> None:
    """Start one cluster and add its figures to the run."""
    work = f"{nodes} ZooKeeper server{'s' * (nodes > 1)}, {nodes} broker{'s' * (nodes > 1)}"
    run.add(
        Measurement(f"{work}, from files", side, start_servers(side, run.directory / f"{side}{nodes}{number}", nodes))
    )
    if side == "ours":
        run.add(Measurement(f"{work}, fixture", side, start_fixture(nodes)))


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often each side is started")] = 3,
    only: Only = None,
    quick: Quick = False,
    as_json: Json = False,
) -> None:
    """Compare the time, CPU time and memory that zabka's and Apache's servers need to start."""
    with bench_run("start", as_json) as run:
        run.compare("Start of a cluster with one topic", FIGURES)
        sides = run.sides("kafka", only)
        for number in range(1 if quick else rounds):
            for nodes in SIZES[:1] if quick else SIZES:
                for side in reversed(sides) if number % 2 else sides:
                    measure(run, side, nodes, number)
