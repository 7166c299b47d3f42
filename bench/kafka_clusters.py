"""Starts brokers on loopback, ours or Apache Kafka's in ZooKeeper mode, over the same kind of ensemble."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import typer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from bench.ensembles import READY_S, ROOT, running
from bench.free_ports import free_ports
from bench.interrupts import held
from bench.load import CannotMeasure
from bench.usage import cpu_s

KafkaSide = Literal["ours", "kafka"]
TITLES: dict[KafkaSide, str] = {"ours": "zabka", "kafka": "Kafka"}
JAVA_HEAP = "512m"
BROKERS = 3
STOP_S = 20.0
JARS_S = 660.0
_PROGRAM = "import sys, pathlib, zabka.broker_sim.broker_process as b; sys.exit(b.main(pathlib.Path(sys.argv[1])))"
_JARS = "from kafka_jars import classpath; print(classpath())"
LOGGING = """log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={file}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{{ISO8601}} %p %c %m%n
"""


def sides_to_measure(names: Sequence[str], console: Console) -> list[KafkaSide]:
    """The sides of those names; without Kafka, and with a line that says so, where its jars cannot be had.

    Raises typer.BadParameter.
    """
    unknown = [name for name in names if name not in TITLES]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: the sides are {', '.join(TITLES)}")
    if "kafka" not in names or kafka_classpath() is not None:
        return [side for side in TITLES if side in names]
    console.print("Apache Kafka's jars cannot be had (java, mvn or the network is missing): measuring zabka alone")
    return ["ours"]


def kafka_classpath() -> str | None:
    """Where Apache Kafka's jars are, fetched from Maven's repository the first time; None where they cannot be had."""
    if shutil.which("java") is None:
        return None
    path = str(ROOT / "tests" / "interop" / "kafka_jars")
    where = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "tests" / "interop"), path))}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _JARS], env=where, capture_output=True, text=True, timeout=JARS_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


class KafkaCluster:
    """Brokers below `directory`, numbered from 1, each a process of its own."""

    def __init__(
        self, side: KafkaSide, directory: Path, zookeeper: str, brokers: int, settings: Mapping[str, object]
    ) -> None:
        self.side = side
        self.zookeeper = zookeeper
        self._directory = directory
        self._classpath = kafka_classpath() if side == "kafka" else None
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ports = dict(zip(range(1, brokers + 1), free_ports(brokers), strict=True))
        for n, port in self._ports.items():
            home = self.home(n)
            home.mkdir(parents=True)
            keys = {
                "broker.id": n,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "log.dirs": home / "logs",
                "zookeeper.connect": zookeeper,
                "offsets.topic.num.partitions": 1,
                "group.initial.rebalance.delay.ms": 0,
                **settings,
            }
            (home / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
            (home / "log4j.properties").write_text(LOGGING.format(file=home / "server.log"))

    def home(self, n: int) -> Path:
        """Where a broker keeps everything."""
        return self._directory / f"broker-{n}"

    @property
    def bootstrap(self) -> str:
        """Every broker's address."""
        return ",".join(self.address(n) for n in self._ports)

    @property
    def brokers(self) -> list[int]:
        """The brokers whose processes run."""
        return list(self._processes)

    def address(self, n: int) -> str:
        """Where a broker listens."""
        return f"127.0.0.1:{self._ports[n]}"

    def start(self, n: int) -> None:
        """Start a broker."""
        with (self.home(n) / "out.log").open("ab") as log, held():
            self._processes[n] = subprocess.Popen(
                self._command(n), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _command(self, n: int) -> list[str]:
        config = str(self.home(n) / "server.properties")
        if self.side == "ours":
            return [sys.executable, "-c", _PROGRAM, config]
        if self._classpath is None:
            raise CannotMeasure("Apache Kafka's jars cannot be had: java or mvn is missing, or the network")
        logging = f"-Dlog4j.configuration=file:{self.home(n) / 'log4j.properties'}"
        return ["java", f"-Xmx{JAVA_HEAP}", logging, "-cp", self._classpath, "kafka.Kafka", config]

    def kill(self, n: int) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self._processes.pop(n)
        process.send_signal(signal.SIGKILL)
        process.wait(STOP_S)

    def close(self) -> None:
        """Kill what runs: its data is thrown away anyway."""
        for n in list(self._processes):
            self.kill(n)

    def cpu_s(self) -> float:
        """CPU time of all brokers that run, so far."""
        return sum(_cpu_s(process.pid) for process in self._processes.values())

    def await_ready(self) -> None:
        """Wait until every broker knows of all.  Raises CannotMeasure.

        One that has not heard from the controller names none, and librdkafka then asks again after minutes.
        """
        deadline = time.monotonic() + READY_S
        for n in self._ports:
            while not self._knows_all(n):
                if time.monotonic() > deadline:
                    late = f"broker {n} did not come up within {READY_S:.0f} s"
                    raise CannotMeasure(f"{TITLES[self.side]}: {late}:\n{self._tail(n)}")
                time.sleep(0.2)

    def _knows_all(self, n: int) -> bool:
        try:
            known = AdminClient({"bootstrap.servers": self.address(n), "log_level": 0}).list_topics(timeout=2)
        except Exception:  # librdkafka has one exception for "not yet" and for all else.
            return False
        return len(known.brokers) == len(self._ports) and known.controller_id in self._ports

    def create_topic(self, name: str, assignment: list[list[int]], timeout_s: float = 60.0) -> None:
        """Create a topic with these replicas, and wait until all partitions have leaders.  Raises CannotMeasure."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        topic = NewTopic(name, len(assignment), replica_assignment=assignment)
        admin.create_topics([topic], operation_timeout=timeout_s, request_timeout=timeout_s)[name].result(timeout_s)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            known = admin.list_topics(name, timeout=timeout_s).topics[name]
            if len(known.partitions) == len(assignment) and all(
                p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in known.partitions.values()
            ):
                return
            time.sleep(0.1)
        raise CannotMeasure(f"{TITLES[self.side]}: {name} has not every leader after {timeout_s:.0f} s")

    def _tail(self, n: int) -> str:
        return (self.home(n) / "out.log").read_text(errors="replace")[-2000:].strip()


def _cpu_s(pid: int) -> float:
    """0 where the process is gone."""
    try:
        return cpu_s(pid)
    except OSError:
        return 0.0


@contextmanager
def running_kafka(
    side: KafkaSide, directory: Path, brokers: int = BROKERS, settings: Mapping[str, object] | None = None
) -> Iterator[KafkaCluster]:
    """Brokers that serve, over an ensemble of ours; stopped, and their data removed, at the end."""
    directory.mkdir(parents=True)
    try:
        with running("ours", directory / "ensemble") as ensemble:
            cluster = KafkaCluster(side, directory, ",".join(ensemble.hosts), brokers, settings or {})
            try:
                for n in range(1, brokers + 1):
                    cluster.start(n)
                cluster.await_ready()
                yield cluster
            finally:
                cluster.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
