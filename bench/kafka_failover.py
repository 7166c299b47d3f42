"""The controller's broker dies: when has every partition a leader again?  `python -m bench.kafka_failover`.

Five brokers over one ensemble, ours or Apache Kafka's.  The broker that is controller is killed; the clock of the
failover starts when the ensemble has dropped its session (detection, the session's time-out), and ends when a surviving
broker's Metadata shows a leader for every partition.  The stages between come from our journals and from Kafka's logs.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer
from kazoo.client import KazooClient
from rich.console import Console
from rich.table import Table

from bench.interrupts import interruptible
from bench.kafka_clusters import TITLES, KafkaCluster, KafkaSide, running_kafka, sides_to_measure
from bench.kafka_metadata import MetadataPoll
from bench.load import CannotMeasure

BROKERS = 5
REPLICAS = 3
SESSION_MS = 6_000
DEADLINE_S = 300.0
POLL_S = 0.05
SETTLE_S = 5.0
"""So that what the topics' creation left to do is not counted as failover: checkpoints, idle fetches, compilation."""
CREATED_AT_ONCE = 500
"""Partitions of one topic: a request to create ten thousand at once outlasts every client's patience."""
COLUMNS = ("partitions", "", "detect", "elect", "read", "decide", "propagate", "after detection")
SETTINGS = {"zookeeper.session.timeout.ms": SESSION_MS, "auto.leader.rebalance.enable": "false"}
_LOG_LINE = re.compile(r"^\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]? \w+ \S+ (.*)")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Failover(NamedTuple):
    """How long each stage took, in milliseconds; all but the first begin after the session's end."""

    detect_ms: float
    elect_ms: float
    read_ms: float
    decide_ms: float
    propagate_ms: float

    @property
    def total_ms(self) -> float:
        """From detection until every partition has a leader again."""
        return sum(self[1:])


class Moments(NamedTuple):
    """When the new controller was elected, had read the cluster, and had decided, in seconds of the wall clock."""

    elected: float
    read: float
    decided: float


def assignments(partitions: int) -> Iterator[tuple[str, list[list[int]]]]:
    """Topics that spread leaders and replicas evenly over the brokers."""
    for first in range(0, partitions, CREATED_AT_ONCE):
        numbers = range(first, min(partitions, first + CREATED_AT_ONCE))
        yield f"failover-{first}", [[(n + r) % BROKERS + 1 for r in range(REPLICAS)] for n in numbers]


class ControllerWatch:
    """Asks the ensemble who is controller, and notes when nobody was."""

    def __init__(self, hosts: str) -> None:
        self._client = KazooClient(hosts=hosts, timeout=30)
        self._client.start(timeout=60)

    def controller(self) -> int | None:
        """The controller's id, None while there is none."""
        try:
            data, _ = self._client.get("/controller")
        except Exception:  # kazoo's NoNodeError, and whatever befalls a busy connection.
            return None
        return int(json.loads(data)["brokerid"])

    def registered(self, broker: int) -> bool:
        """Is that broker's session alive?"""
        return self._client.exists(f"/brokers/ids/{broker}") is not None

    def close(self) -> None:
        """Disconnect."""
        self._client.stop()
        self._client.close()


def _until(what: str, condition: Callable[[], bool], poll_s: float = 0.005) -> float:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise CannotMeasure(f"{what} did not come true within {DEADLINE_S:.0f} s")
        time.sleep(poll_s)
    return time.time()


def fail_over(cluster: KafkaCluster, hosts: str) -> Failover:
    """Kill the controller's broker and time what follows.  Raises CannotMeasure."""
    watch = ControllerWatch(hosts)
    try:
        _until("a controller", lambda: watch.controller() is not None)
        victim = watch.controller()
        assert victim is not None
        killed = time.time()
        cluster.kill(victim)
        detected = _until("the session's end", lambda: not watch.registered(victim))
        _until("another controller", lambda: watch.controller() not in (None, victim))
        successor = watch.controller()
        assert successor is not None
    finally:
        watch.close()
    with MetadataPoll(cluster.address(next(n for n in cluster.brokers if n != successor))) as metadata:
        whole = _until("a leader for every partition", lambda: metadata.has_leaders(without=victim), POLL_S)
    at = _account(cluster, successor, detected)
    # The ensemble was asked every few milliseconds, and may have been quicker.
    stages = [killed, min(detected, at.elected), at.elected, at.read, at.decided, max(whole, at.decided)]
    return Failover(*((after - before) * 1000 for before, after in pairwise(stages)))


def _account(cluster: KafkaCluster, successor: int, since: float) -> Moments:
    """What the successor says itself, once it has said it.  Raises CannotMeasure."""
    told: list[Moments] = []

    def has_told() -> bool:
        with suppress(CannotMeasure):
            ours = cluster.side == "ours"
            told.append(journal_moments(cluster.home(successor), since) if ours else log_moments(cluster, since))
        return bool(told)

    _until("the successor's own account", has_told, POLL_S)
    return told[0]


def journal_moments(home: Path, since: float) -> Moments:
    """Out of the journal of our broker that was elected."""
    for path in sorted(home.rglob("broker-*.????????????.jsonl")):
        elected = 0.0
        for line in path.read_text().splitlines():
            event = json.loads(line)
            at = event["wall_us"] / 1e6
            if at < since - 1:
                continue
            if event["type"] == "controller_elected":
                elected = at
            elif event["type"] == "controller_ready" and elected:
                decided = at
                return Moments(elected, decided - event["decide_ms"] / 1000, decided)
    raise CannotMeasure(f"no controller_ready in the journals below {home}")


def log_moments(cluster: KafkaCluster, since: float) -> Moments:
    """Out of the log of the Kafka broker that was elected."""
    for n in cluster.brokers:
        found: dict[str, float] = {}
        for line in (cluster.home(n) / "server.log").read_text(errors="replace").splitlines():
            matched = _LOG_LINE.match(line)
            if matched is None:
                continue
            at = datetime.strptime(matched[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()
            if at < since - 1:
                continue
            for stage, text in KAFKA_SAYS.items():
                if text in matched[2]:
                    found.setdefault(stage, at)
        if found.keys() >= KAFKA_SAYS.keys():
            return Moments(found["elected"], found["read"], found["decided"])
    raise CannotMeasure("no Kafka broker's log shows a whole failover")


KAFKA_SAYS = {
    "elected": "successfully elected as the controller",
    "read": "Sending update metadata request",
    "decided": "Ready to serve as the new controller",
}
"""What Kafka's controller writes at the end of each stage."""


def one_round(side: KafkaSide, directory: Path, partitions: int) -> Failover:
    """A fresh cluster with so many partitions, and one failover."""
    with running_kafka(side, directory, BROKERS, SETTINGS) as cluster:
        for name, assignment in assignments(partitions):
            cluster.create_topic(name, assignment, DEADLINE_S)
        time.sleep(SETTLE_S)
        return fail_over(cluster, cluster.zookeeper)


def print_table(console: Console, found: dict[tuple[int, KafkaSide], list[Failover]]) -> None:
    """One line a size and side, in milliseconds."""
    table = Table(*COLUMNS, title="ms")
    for (partitions, side), rounds in found.items():
        at = Failover(*(median(values) for values in zip(*rounds, strict=True)))
        table.add_row(f"{partitions:,}", TITLES[side], *(f"{ms:,.0f}" for ms in at), f"{at.total_ms:,.0f}")
    console.print(table)


@app.command()
def main(
    partitions: Annotated[str, typer.Option(help="Sizes, separated by commas.")] = "100,1000,10000",
    rounds: Annotated[int, typer.Option(help="Failovers for each size and side.")] = 1,
    sides: Annotated[str, typer.Option(help="Which, separated by commas.")] = "ours,kafka",
) -> None:
    """Print how long each stage of a controller's failover takes."""
    console = Console()
    wanted = sides_to_measure(sides.split(","), console)
    found: dict[tuple[int, KafkaSide], list[Failover]] = {}
    with interruptible(), tempfile.TemporaryDirectory() as directory:
        for size in map(int, partitions.split(",")):
            for number in range(rounds):
                for side in wanted:
                    where = Path(directory) / f"{side}-{size}-{number}"
                    found.setdefault((size, side), []).append(one_round(side, where, size))
                    console.print(f"{size} partitions: {TITLES[side]} done", style="dim")
    print_table(console, found)


if __name__ == "__main__":
    app()
