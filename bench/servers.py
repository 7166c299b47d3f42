"""Starts ZooKeeper ensembles and Kafka brokers on loopback, zabka's or Apache's, with the same configuration files.

The module also reads a process's CPU time and memory from the kernel (`/proc`, Linux), and handles the signals that end
a run.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Self, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.free_ports import free_ports
from bench.results import TITLES, Side
from zabka.compose.certificates import write_certificates
from zabka.compose.secured_nodes import AUTHORITY

ROOT = Path(__file__).resolve().parents[1]
T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOP_S, READY_S = 20.0, 60.0
JAVA_MIN, KAFKA_HEAP_MB = 17, 512
JARS = (
    "zookeeper-3*", "zookeeper-jute-*", "slf4j-api-*", "log4j-*", "netty*", "metrics-core-*", "snappy-java-*",
    "commons-io-*", "commons-lang3*", "commons-cli*",
)  # fmt: skip
_KAFKA_JARS = "from tests.interop.kafka_jars import classpath; print(classpath())"
_PEER = "from zabka.cli.main import main; main()"
_BROKER = "import sys, pathlib, zabka.broker_sim.broker_process as b; sys.exit(b.main(pathlib.Path(sys.argv[1])))"
_LOG4J_2 = """rootLogger.level=WARN
rootLogger.appenderRef.c.ref=c
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1} %m%n
"""
_LOG4J_1 = """log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={file}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{{ISO8601}} %p %c %m%n
"""


class CannotMeasure(Exception):
    """The measurement cannot be made, because a requirement is missing or has failed; the message names it."""


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {each: signal.signal(each, handler) for each in SIGNALS}
    try:
        yield
    finally:
        for each, previous in before.items():
            signal.signal(each, previous)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT or SIGTERM. Ignore later signals while the servers are being
    stopped.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    with _handled_by(interrupt):
        yield


@contextmanager
def held() -> Iterator[None]:
    """Delay signals until the end of the block, so that none arrives between the start of a process and its entry in
    `processes`.
    """
    seen: list[int] = []
    try:
        with _handled_by(lambda number, frame: seen.append(number)):
            yield
    finally:
        if seen:
            signal.raise_signal(seen[0])


def wait_until(what: str, condition: Callable[[], T | None], timeout_s: float, poll_s: float = 0.005) -> T:
    """Poll until the condition returns neither None nor False, and return its value.

    Raises CannotMeasure after the timeout.
    """
    deadline = time.monotonic() + timeout_s
    while (found := condition()) is None or found is False:
        if time.monotonic() > deadline:
            raise CannotMeasure(f"no {what} after {timeout_s:.0f} s")
        time.sleep(poll_s)
    return found


class Servers:
    """A group of servers numbered from 1, each in its own process with its files in `home(n)`.

    As a context manager it starts all servers and waits until they accept requests; on exit it kills them and removes
    their data.  `processes` contains the servers that have been started and not killed.
    """

    def __init__(self, side: Side, directory: Path, count: int) -> None:
        self.side = side
        self.title = TITLES[side]
        self.directory = directory
        self.folder = ROOT
        self.environment: dict[str, str] | None = None
        self.numbers = range(1, count + 1)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def command(self, n: int) -> Sequence[str]:
        """Return the command line of a server."""
        raise AssertionError(n)

    def serves(self) -> bool:
        """Return whether all servers accept requests."""
        raise AssertionError

    def home(self, n: int) -> Path:
        """Return the folder of a server's files."""
        return self.directory / str(n)

    @property
    def pids(self) -> list[int]:
        """The process ids of the servers that currently run."""
        return [process.pid for process in self.processes.values()]

    def start(self, n: int) -> None:
        """Start a server.  After a kill it starts with its previous data."""
        with (self.home(n) / "out.log").open("ab") as log, held():
            # Start the server in its own session, so that Ctrl-C interrupts only the benchmark, which then stops its
            # servers.
            self.processes[n] = subprocess.Popen(
                self.command(n), cwd=self.folder, env=self.environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self, n: int) -> None:
        """Send SIGKILL and wait for the process to end."""
        process = self.processes.pop(n)
        process.kill()
        process.wait(STOP_S)

    def freeze(self, n: int, frozen: bool = True) -> None:
        """Freeze a server with SIGSTOP, or resume it with SIGCONT if not `frozen`.

        The connections of a frozen server stay open, and requests get no reply.
        """
        self.processes[n].send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def await_ready(self) -> None:
        """Wait until all servers accept requests.

        If a server ends instead, raise CannotMeasure with the output of that server.
        """

        def ready() -> bool:
            ended = [n for n, process in self.processes.items() if process.poll() is not None]
            if ended:
                output = (self.home(ended[0]) / "out.log").read_text(errors="replace")[-2000:].strip()
                raise CannotMeasure(f"{self.title}: server {ended[0]} ended:\n{output}")
            return self.serves()

        wait_until(f"{self.title} cluster that serves", ready, READY_S, poll_s=0.1)

    def cpu_s(self) -> float:
        """Return the CPU time of all running servers, in seconds since their start."""
        return sum(cpu_s(pid) for pid in self.pids)

    def rss_mb(self) -> float:
        """Return the resident memory of all servers together, in megabytes (10⁶ bytes)."""
        return sum(number_in(Path(f"/proc/{pid}/status"), "VmRSS:") for pid in self.pids) * 1024 / 1e6

    def __enter__(self) -> Self:
        try:
            for n in self.numbers:
                self.start(n)
            self.await_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all servers and remove their data."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(STOP_S)
        self.processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)


def cpu_s(pid: int) -> float:
    """Return user and system time of all threads of a process, in seconds.  Raises OSError if it has ended."""
    # Split after the process name in parentheses, which may contain any character; the times are fields 14 and 15.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def number_in(file: Path, key: str) -> int:
    """Return the number after a key in a file below `/proc`; 0 if the key is missing, as for an ended process."""
    lines = file.read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(key)), 0)


def descendants(pid: int) -> list[int]:
    """Return the process, its children, their children, and so on."""
    found = [pid]
    for parent in found:
        for task in sorted(Path(f"/proc/{parent}/task").glob("*/children")):
            with suppress(OSError):
                found += map(int, task.read_text().split())
    return found


def java_major() -> int | None:
    """Return the major version of the `java` in PATH, or None if there is none."""
    if shutil.which("java") is None:
        return None
    printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', printed)
    return int(found[1]) if found else None


def zookeeper_jars() -> list[Path]:
    """Return the jars of ZooKeeper and its dependencies in the package pyspark; none if it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    folders = [Path(place) / "jars" for place in (spec and spec.submodule_search_locations) or ()]
    return [jar for folder in folders for pattern in JARS for jar in sorted(folder.glob(f"{pattern}.jar"))]


def zookeeper_version() -> str:
    """Return the version of the Apache ZooKeeper that is measured."""
    names = (jar.name for jar in zookeeper_jars())
    return next((found[1] for name in names if (found := re.match(r"zookeeper-(\d[\d.]*)\.jar", name))), "unknown")


@functools.cache
def kafka_classpath() -> str:
    """Return the class path of Apache Kafka, fetched by Maven the first time; empty if it cannot be fetched."""
    command = [sys.executable, "-c", _KAFKA_JARS]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def missing(apache: Side) -> str | None:
    """Return why Apache's servers cannot be started here, or None if they can."""
    major = java_major()
    if major is None:
        return f"there is no java in PATH (version {JAVA_MIN} or newer)"
    if major < JAVA_MIN:
        return f"java is version {major}, and {JAVA_MIN} or newer is needed"
    if apache == "kafka":
        return None if kafka_classpath() else "its jars cannot be fetched (mvn or the network is missing)"
    return None if zookeeper_jars() else "the package pyspark, whose jars contain ZooKeeper, is not installed"


class Shape(NamedTuple):
    """Number of servers, maximum size and timeouts of an ensemble."""

    voters: int = 3
    tick_ms: int = 2000
    sync_limit_ticks: int = 5
    znodes: int = 0
    """The approximate maximum number of znodes."""

    @property
    def heap_mb(self) -> int:
        """Java's heap size: enough for the znodes, so that the benchmark does not measure the garbage collector."""
        return 700 + max(0, self.znodes - 1_000_000) // 2_000

    @property
    def sync_limit_ms(self) -> int:
        """The time without contact after which a server counts as failed."""
        return self.tick_ms * self.sync_limit_ticks


class Ensemble(Servers):
    """A ZooKeeper ensemble.  `source` is the checkout that zabka's servers run; None means the installed package."""

    def __init__(self, side: Side, directory: Path, shape: Shape = Shape(), source: Path | None = None) -> None:  # noqa: B008
        super().__init__(side, directory, shape.voters)
        self.shape = shape
        self._source = source
        if source is not None:
            self.folder, self.environment = source, {**os.environ, "PYTHONPATH": str(source)}
        ports = iter(free_ports(3 * shape.voters))
        self._client_ports = {n: next(ports) for n in self.numbers}
        members = [f"server.{n}=127.0.0.1:{next(ports)}:{next(ports)}" for n in self.numbers]
        for n, port in self._client_ports.items():
            data = self.home(n) / "data"
            data.mkdir(parents=True)
            (data / "myid").write_text(f"{n}\n")
            keys = {
                "tickTime": shape.tick_ms, "initLimit": 10, "syncLimit": shape.sync_limit_ticks, "maxClientCnxns": 0,
                "dataDir": data, "clientPort": port, "clientPortAddress": "127.0.0.1",
            }  # fmt: skip
            lines = [f"{key}={value}" for key, value in keys.items()]
            (self.home(n) / "zoo.cfg").write_text("\n".join([*lines, *members]) + "\n")
        (directory / "log4j2.properties").write_text(_LOG4J_2)

    @property
    def hosts(self) -> list[str]:
        """The client address of each server."""
        return [f"127.0.0.1:{port}" for port in self._client_ports.values()]

    @property
    def leader(self) -> int:
        """Return the number of the leader.  Raises CannotMeasure if there is none."""
        for n, host in zip(self.numbers, self.hosts, strict=True):
            if mode(host) == "leader":
                return n
        raise CannotMeasure(f"{self.title}: there is no leader")

    def serves(self) -> bool:
        modes = sorted(mode(host) for host in self.hosts)
        return modes in (["standalone"], [*["follower"] * (self.shape.voters - 1), "leader"])

    def command(self, n: int) -> Sequence[str]:
        config = str(self.home(n) / "zoo.cfg")
        if self.side != "zookeeper":
            installed = Path(sys.executable).with_name("zabka")
            in_place = self._source is None and installed.exists()
            start = [str(installed)] if in_place else [sys.executable, "-c", _PEER]
            return [*start, "peer", "--config", config]
        paths = [str(self.directory), *map(str, zookeeper_jars())]
        return [
            "java", f"-Xmx{self.shape.heap_mb}m", "-Dzookeeper.admin.enableServer=false",
            "-Dzookeeper.4lw.commands.whitelist=srvr",
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            "-cp", os.pathsep.join(paths), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
        ]  # fmt: skip


def mode(host: str) -> str:
    """Return a server's mode according to its reply to `srvr` (leader, follower, …); "down" if there is no reply."""
    return _srvr(host, "Mode") or "down"


def node_count(host: str) -> int:
    """Return the number of znodes that a server stores.  Raises ValueError if it does not reply."""
    return int(_srvr(host, "Node count"))


def _srvr(host: str, key: str) -> str:
    name, port = host.rsplit(":", 1)
    try:
        with socket.create_connection((name, int(port)), timeout=1) as link:
            link.sendall(b"srvr")
            reply = b""
            while chunk := link.recv(4096):
                reply += chunk
    except OSError:
        return ""
    lines = reply.decode(errors="replace").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith(f"{key}:")), "")


class KafkaCluster(Servers):
    """A cluster of brokers on an ensemble that already runs.

    With `tls`, clients and brokers connect to brokers over TLS.
    """

    def __init__(
        self,
        side: Side,
        directory: Path,
        zookeeper: str,
        brokers: int,
        settings: Mapping[str, object],
        tls: bool = False,
    ) -> None:
        super().__init__(side, directory, brokers)
        self.zookeeper = zookeeper
        self._ports = dict(zip(self.numbers, free_ports(brokers), strict=True))
        protocol = "SSL" if tls else "PLAINTEXT"
        self.authority = str(directory / AUTHORITY) if tls else ""
        """The certificate that verifies the brokers, or "" without TLS."""
        if tls:
            write_certificates(directory, {"broker": ()}, ())
            stores = {"keystore": directory / "broker.pem", "truststore": directory / AUTHORITY}
            settings = {
                "security.inter.broker.protocol": protocol,
                **{f"ssl.{name}.type": "PEM" for name in stores},
                **{f"ssl.{name}.location": path for name, path in stores.items()},
                **settings,
            }
        for n, port in self._ports.items():
            home = self.home(n)
            home.mkdir(parents=True)
            keys = {
                "broker.id": n, "listeners": f"{protocol}://127.0.0.1:{port}", "log.dirs": home / "logs",
                "zookeeper.connect": zookeeper, "offsets.topic.num.partitions": 1,
                "group.initial.rebalance.delay.ms": 0, **settings,
            }  # fmt: skip
            (home / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
            (home / "log4j.properties").write_text(_LOG4J_1.format(file=home / "server.log"))

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(self.address(n) for n in self._ports)

    def address(self, n: int) -> str:
        """Return the address of a broker."""
        return f"127.0.0.1:{self._ports[n]}"

    def command(self, n: int) -> Sequence[str]:
        config = str(self.home(n) / "server.properties")
        if self.side == "ours":
            return [sys.executable, "-c", _BROKER, config]
        logging = f"-Dlog4j.configuration=file:{self.home(n) / 'log4j.properties'}"
        return ["java", f"-Xmx{KAFKA_HEAP_MB}m", logging, "-cp", kafka_classpath(), "kafka.Kafka", config]

    def serves(self) -> bool:
        """Return whether the metadata of every broker contain all brokers and the controller."""
        clients = [
            AdminClient({**client_security(self.authority), "bootstrap.servers": self.address(n), "log_level": 0})
            for n in self._ports
        ]
        try:
            found = [client.list_topics(timeout=2) for client in clients]
        except KafkaException:
            return False
        return all(len(each.brokers) == len(self._ports) and each.controller_id in self._ports for each in found)

    def create_topic(self, name: str, assignment: list[list[int]], timeout_s: float = 60.0) -> None:
        """Create a topic and wait until all partitions have leaders and full ISRs.  Raises CannotMeasure."""
        admin = AdminClient({**client_security(self.authority), "bootstrap.servers": self.bootstrap, "log_level": 0})
        topic = NewTopic(name, len(assignment), replica_assignment=assignment)
        admin.create_topics([topic], operation_timeout=timeout_s, request_timeout=timeout_s)[name].result(timeout_s)

        def complete() -> bool:
            partitions = admin.list_topics(name, timeout=timeout_s).topics[name].partitions.values()
            in_sync = all(p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in partitions)
            return in_sync and len(partitions) == len(assignment)

        wait_until(f"full ISR in each partition of {name}", complete, timeout_s, poll_s=0.1)


def client_security(authority: str) -> dict[str, str]:
    """Return librdkafka's settings for TLS with this authority; none without an authority."""
    return {"security.protocol": "SSL", "ssl.ca.location": authority} if authority else {}


@contextmanager
def running_kafka(
    side: Side,
    directory: Path,
    brokers: int = 3,
    settings: Mapping[str, object] | None = None,
    tls: bool = False,
) -> Iterator[KafkaCluster]:
    """Start zabka's ensemble, and zabka's or Apache's brokers on it. Yield the brokers when they accept requests."""
    with ExitStack() as stack:
        ensemble = stack.enter_context(Ensemble("ours", directory / "ensemble"))
        hosts = ",".join(ensemble.hosts)
        yield stack.enter_context(KafkaCluster(side, directory / "brokers", hosts, brokers, settings or {}, tls))
