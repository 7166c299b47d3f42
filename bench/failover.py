"""Time without a leader or a controller: `make failover`, zabka compared with Apache ZooKeeper and Apache Kafka.

leader killed     The ensemble's leader gets SIGKILL while a client writes with one request in flight.  The outage is
                  the longest time between two acknowledged writes.
leader frozen     SIGSTOP instead.  Its connections stay open and silent, so followers detect the failure by the
                  read timeout of `syncLimit` ticks; the time beyond this limit is the election.
followers frozen  All other voters get SIGSTOP: measures the time until the leader stops serving.
controller        The broker that is controller gets SIGKILL, in a cluster of five brokers.  The failover begins
                  when the ensemble has expired its session, and ends when a surviving broker's Metadata has a leader
                  for each partition.  The stages come from zabka's journals and Kafka's logs.
"""

from __future__ import annotations

import json
import logging
import random
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from bench.results import Figure, Measurement, Side, comparison_table
from bench.run import Data, Json, Only, Quick, Run, bench_run
from bench.servers import Ensemble, KafkaCluster, Shape, mode, running_kafka, wait_until
from zabka.kafka.wire.frame_reader import FrameReader
from zabka.kafka.wire.frames import decode_response, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request

OUTAGE_MIN_S = 0.01
"""A pause of at least this length between two acknowledged writes after the fault counts as an outage."""
WRITING_ON_S = 1.0
SESSION_S, CALL_S, RETRY_S = 20.0, 2.0, 0.005
STEP_DOWN_S = 60.0
BROKERS, REPLICAS = 5, 3
DEADLINE_S, POLL_S = 300.0, 0.05
SETTLE_S = 5.0
"""Pause before the fault, so that work after topic creation (checkpoints, idle fetches, compilation) is not
measured.
"""
CREATED_AT_ONCE = 500
"""Number of partitions per topic. A single request that creates ten thousand partitions would exceed client
timeouts.
"""
SETTINGS = {"zookeeper.session.timeout.ms": 6_000, "auto.leader.rebalance.enable": "false"}
STAGES = ("detect", "elect", "read", "decide", "propagate")
LEADER_FIGURES = (
    Figure("took_ms", "median ms", ",.0f"),
    Figure("took_ms", "worst ms", ",.0f", combine=max),
    Figure("over_limit_ms", "median over syncLimit", "+,.0f", ""),
    Figure("over_limit_ms", "worst over syncLimit", "+,.0f", "", max),
    Figure("lost", "writes lost", ",.0f", "", sum),
    Figure("sessions_lost", "sessions lost", ",.0f", "", sum),
)
CONTROLLER_FIGURES = (
    *(Figure(f"{stage}_ms", f"{stage} ms", ",.0f") for stage in STAGES),
    Figure("after_detection_ms", "after detection ms", ",.0f"),
)
KAFKA_LOGS = {
    "elected": "successfully elected as the controller",
    "read": "Sending update metadata request",
    "decided": "Ready to serve as the new controller",
}
"""Text that Kafka's controller logs at the end of each stage of a failover."""
logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # kazoo logs each attempt to connect.
_LOG_LINE = re.compile(r"^\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]? \w+ \S+ (.*)")


def client_of(hosts: Sequence[str]) -> KazooClient:
    """Return a client that retries at once, so that pauses between its retries do not count as outage."""
    retry = {"max_tries": -1, "delay": RETRY_S, "backoff": 1, "max_jitter": 0}
    client = KazooClient(",".join(hosts), timeout=SESSION_S, connection_retry=retry, randomize_hosts=False)
    client.start(timeout=DEADLINE_S)
    return client


def write_through(
    hosts: Sequence[str], fault: Callable[[], None], before_s: float, give_up_s: float
) -> dict[str, float]:
    """Write continuously, inject the fault after `before_s`, and end one second after writes succeed again.

    Return the longest pause between acknowledged writes, and the numbers of lost writes and of lost sessions.
    """
    client, path = client_of(hosts), f"/failover-{time.time_ns()}"
    client.create(path, b"0")
    session = client.client_id
    number = acknowledged = 0
    worst_s, injected, resumed = 0.0, 0.0, 0.0
    begin = last = now = time.perf_counter()
    try:
        while not (resumed and now - resumed > WRITING_ON_S) and not (injected and now - injected > give_up_s):
            if not injected and now - begin > before_s:
                injected = time.perf_counter()
                fault()
            number += 1
            try:
                client.set_async(path, b"%d" % number).get(timeout=CALL_S)
            except (KazooException, client.handler.timeout_exception):
                now = time.perf_counter()
                continue
            acknowledged, now = number, time.perf_counter()
            if injected:
                worst_s = max(worst_s, now - last)
                resumed = resumed or (now if worst_s > OUTAGE_MIN_S else 0.0)
            last = now
        if not resumed:
            worst_s = max(worst_s, now - last)
        kept = int(client.retry(client.get, path)[0])
        lost, expired = max(0, acknowledged - kept), client.client_id != session
        return {"took_ms": worst_s * 1000, "lost": lost, "sessions_lost": int(expired)}
    finally:
        client.stop()
        client.close()


def fail_leader(ensemble: Ensemble, freeze: bool) -> Measurement:
    """Kill or freeze the leader while a client writes, and measure the outage.  The server runs again afterwards."""
    leader, shape = ensemble.leader, ensemble.shape
    hosts = [host for n, host in zip(ensemble.numbers, ensemble.hosts, strict=True) if n != leader]
    fault = ensemble.freeze if freeze else ensemble.kill
    # The leader sends a ping every half tick. Inject the fault at a random time between two pings.
    before_s = 0.5 + random.uniform(0, shape.tick_ms / 1000)
    give_up_s = 20 + 2 * shape.sync_limit_ms / 1000
    figures = write_through(hosts, lambda: fault(leader), before_s, give_up_s)
    if freeze:
        ensemble.freeze(leader, frozen=False)
        figures["over_limit_ms"] = figures["took_ms"] - shape.sync_limit_ms
    else:
        ensemble.start(leader)
    problems = [f"{figures['lost']:.0f} acknowledged writes lost"] if figures["lost"] else []
    problems += ["the session was lost"] if figures["sessions_lost"] else []
    return Measurement(f"leader {'frozen' if freeze else 'killed'}", ensemble.side, figures, problems)


def freeze_followers(ensemble: Ensemble) -> Measurement:
    """Freeze all voters except the leader, and measure the time until the leader stops serving."""
    leader, shape = ensemble.leader, ensemble.shape
    others = [n for n in ensemble.numbers if n != leader]
    time.sleep(random.uniform(0, shape.tick_ms / 1000))
    begin = time.perf_counter()
    try:
        for n in others:
            ensemble.freeze(n)
        host = ensemble.hosts[leader - 1]
        wait_until("end of a leader without followers", lambda: mode(host) != "leader", STEP_DOWN_S)
        took_ms = (time.perf_counter() - begin) * 1000
    finally:
        for n in others:
            ensemble.freeze(n, frozen=False)
    figures = {"took_ms": took_ms, "over_limit_ms": took_ms - shape.sync_limit_ms}
    return Measurement("followers frozen", ensemble.side, figures)


def fail_leaders(run: Run, side: Side, shape: Shape, kills: int, freezes: int) -> None:
    """Measure all leader and follower faults on one ensemble.  Raises CannotMeasure."""
    faults: list[Callable[[Ensemble], Measurement]] = [
        *[lambda ensemble: fail_leader(ensemble, freeze=False)] * kills,
        *[lambda ensemble: fail_leader(ensemble, freeze=True)] * freezes,
        *[freeze_followers] * freezes,
    ]
    with Ensemble(side, run.directory / f"leader-{side}", shape) as ensemble:
        for fault in faults:
            run.add(fault(ensemble))
            ensemble.await_ready()


class Moments(NamedTuple):
    """Wall-clock times, in seconds, of the stages of a controller failover.

    A stage ends when the new controller has been elected, has read the cluster's state, or has made its decisions.
    """

    elected: float
    read: float
    decided: float


def has_leaders(address: str, without: int) -> bool:
    """Return whether, in this broker's metadata, each partition has a leader other than broker `without`.

    The request is not sent with librdkafka, because librdkafka itself chooses the broker that receives a request.
    """
    host, _, port = address.rpartition(":")
    metadata = request(ApiKey.METADATA, 5, topics=None, allow_auto_topic_creation=False)
    reader, frames = FrameReader(1 << 28), list[bytes]()
    with socket.create_connection((host, int(port)), 60.0) as link:
        link.sendall(encode_request(1, "bench", metadata))
        while not frames:
            frames = reader.feed(link.recv(1 << 20))
    leaders = [row.leader_id for topic in decode_response(frames[0], metadata).topics for row in topic.partitions]
    return bool(leaders) and not {-1, without} & set(leaders)


def assignments(partitions: int) -> Iterator[tuple[str, list[list[int]]]]:
    """Yield topics and their assignments, with leaders and replicas distributed evenly over the brokers."""
    for first in range(0, partitions, CREATED_AT_ONCE):
        numbers = range(first, min(partitions, first + CREATED_AT_ONCE))
        yield f"failover-{first}", [[(n + r) % BROKERS + 1 for r in range(REPLICAS)] for n in numbers]


def controller_of(client: KazooClient, other_than: int = -1) -> int | None:
    """Return the id of the controller, or None if there is none or it is `other_than`."""
    try:
        data, _ = client.get("/controller")
    except KazooException:
        return None
    found = int(json.loads(data)["brokerid"])
    return None if found == other_than else found


def fail_controller(cluster: KafkaCluster) -> dict[str, float]:
    """Kill the controller's broker and return the duration of each stage in milliseconds.  Raises CannotMeasure."""
    client = client_of(cluster.zookeeper.split(","))
    try:
        victim = wait_until("controller", lambda: controller_of(client), DEADLINE_S)
        killed = time.time()
        cluster.kill(victim)
        wait_until("end of the session", lambda: client.exists(f"/brokers/ids/{victim}") is None, DEADLINE_S)
        detected = time.time()
        successor = wait_until("new controller", lambda: controller_of(client, victim), DEADLINE_S)
    finally:
        client.stop()
        client.close()
    survivor = cluster.address(next(n for n in cluster.processes if n != successor))
    wait_until("leader for each partition", lambda: has_leaders(survivor, victim), DEADLINE_S, POLL_S)
    whole = time.time()
    find = journal_moments if cluster.side == "ours" else log_moments
    at = wait_until("record of it all", lambda: find(cluster.home(successor), detected), DEADLINE_S, POLL_S)
    # This process polls the ensemble every few milliseconds. If the election is faster, the poll detects the end of the
    # session only after the election. So use the earlier of the two times.
    stages = [killed, min(detected, at.elected), at.elected, at.read, at.decided, max(whole, at.decided)]
    took = {f"{s}_ms": (after - before) * 1000 for s, (before, after) in zip(STAGES, pairwise(stages), strict=True)}
    return took | {"after_detection_ms": sum(list(took.values())[1:])}


def journal_moments(home: Path, since: float) -> Moments | None:
    """Read the stages of a failover from the journal of the zabka broker that was elected after `since`."""
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
                return Moments(elected, at - event["decide_ms"] / 1000, at)
    return None


def log_moments(home: Path, since: float) -> Moments | None:
    """Read the stages of a failover from the log of the Kafka broker that was elected after `since`."""
    found: dict[str, float] = {}
    for line in (home / "server.log").read_text(errors="replace").splitlines():
        if (matched := _LOG_LINE.match(line)) is None:
            continue
        at = datetime.strptime(matched[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()
        for stage, text in KAFKA_LOGS.items():
            if at >= since - 1 and text in matched[2]:
                found.setdefault(stage, at)
    return Moments(**found) if found.keys() >= KAFKA_LOGS.keys() else None


def fail_controllers(run: Run, side: Side, sizes: Sequence[int], rounds: int) -> None:
    """Measure one controller failover, in a fresh cluster, for each size and round.  Raises CannotMeasure."""
    for partitions in sizes:
        for number in range(rounds):
            where = run.directory / f"controller-{side}-{partitions}-{number}"
            with running_kafka(side, where, BROKERS, SETTINGS) as cluster:
                for name, assignment in assignments(partitions):
                    cluster.create_topic(name, assignment, DEADLINE_S)
                time.sleep(SETTLE_S)
                run.add(Measurement(f"controller killed, {partitions:,} partitions", side, fail_controller(cluster)))


def main(
    kills: Annotated[int, typer.Option(min=0, max=1000, help="Kill the leader this often")] = 20,
    freezes: Annotated[int, typer.Option(min=0, max=1000, help="Freeze the leader, and the followers, this often")] = 5,
    controllers: Annotated[int, typer.Option(min=0, max=100, help="Kill the controller this often, for each size")] = 1,
    partitions: Annotated[str, typer.Option(help="Partitions of the brokers' topics")] = "100,1000",
    peers: Annotated[int, typer.Option(min=3, max=9, help="Voters of the ensemble")] = 3,
    tick_time: Annotated[int, typer.Option(min=50, max=60_000, help="tickTime, in milliseconds")] = 2000,
    sync_limit: Annotated[int, typer.Option(min=1, max=100, help="syncLimit, in ticks")] = 2,
    only: Only = None,
    quick: Quick = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Kill and freeze leaders and controllers in real processes, and measure the time to fail over."""
    if quick:
        kills, freezes, controllers, partitions = 2, 1, min(controllers, 1), "100"
    shape = Shape(voters=peers, tick_ms=tick_time, sync_limit_ticks=sync_limit)
    limit = f"syncLimit {sync_limit} x {tick_time:,} ms = {shape.sync_limit_ms:,} ms"
    titles = (f"Leader failover, {peers} servers, {limit}", f"Controller failover, {BROKERS} brokers")
    with bench_run("failover", as_json, data) as run:
        run.figures = (*LEADER_FIGURES, *CONTROLLER_FIGURES)
        run.tables = lambda: [
            comparison_table(title, [m for m in run.measurements if figures[0].key in m.figures], figures)
            for title, figures in zip(titles, (LEADER_FIGURES, CONTROLLER_FIGURES), strict=True)
        ]
        if kills or freezes:
            for side in run.sides("zookeeper", only):
                fail_leaders(run, side, shape, kills, freezes)
        if controllers:
            for side in run.sides("kafka", only):
                fail_controllers(run, side, [int(size) for size in partitions.split(",")], controllers)
