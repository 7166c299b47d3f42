"""Starts servers on loopback, ours or Apache ZooKeeper's out of PySpark's jars, on the same zoo.cfg."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from bench.free_ports import free_ports
from bench.interrupts import held
from bench.load import CannotMeasure
from bench.zkfailover import mode

Side = Literal["ours", "zookeeper", "base"]
"""`base` is an earlier commit of ours."""
SIDES: tuple[Side, ...] = ("ours", "zookeeper")
TITLES: dict[Side, str] = {"ours": "zabka", "zookeeper": "ZooKeeper", "base": "base"}

SERVERS = 3
TICK_MS = 2000
JAVA_HEAP_MB = 700
"""Enough for a million znodes; a larger tree gets more (`Shape.heap_mb`)."""
JAVA_HEAP_MB_A_MILLION = 500
JAVA_MIN = 17
READY_S = 60.0
STOP_S = 10.0
ROOT = Path(__file__).resolve().parents[1]
JARS = (
    "zookeeper-3*", "zookeeper-jute-*", "slf4j-api-*", "log4j-*", "netty*", "metrics-core-*", "snappy-java-*",
    "commons-io-*", "commons-lang3*", "commons-cli*",
)  # fmt: skip
LOGGING = """rootLogger.level=WARN
rootLogger.appenderRef.c.ref=c
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1} %m%n
"""


def java_major() -> int | None:
    """The major version of the `java` in PATH; None where there is none."""
    java = shutil.which("java")
    if java is None:
        return None
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else None


def zookeeper_jars() -> list[Path]:
    """ZooKeeper's jars and what they need, out of the pyspark package; empty where they are not there."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return []
    folder = Path(spec.origin).parent / "jars"
    if not list(folder.glob(f"{JARS[0]}.jar")):
        return []
    return [jar for pattern in JARS for jar in sorted(folder.glob(f"{pattern}.jar"))]


def zookeeper_version() -> str:
    """The version of the ZooKeeper that is measured."""
    names = (jar.name for jar in zookeeper_jars())
    return next((found[1] for name in names if (found := re.match(r"zookeeper-(\d[\d.]*)\.jar", name))), "unknown")


def missing_for_zookeeper() -> str | None:
    """Why Apache ZooKeeper cannot be started here; None where it can."""
    major = java_major()
    if major is None:
        return f"there is no java in PATH (version {JAVA_MIN} or newer)"
    if major < JAVA_MIN:
        return f"java is version {major}, and {JAVA_MIN} or newer is needed"
    return None if zookeeper_jars() else "the package pyspark, whose jars hold ZooKeeper, is not installed"


class Shape(NamedTuple):
    """How many servers an ensemble has, and how soon they give one another up."""

    voters: int = SERVERS
    observers: int = 0
    tick_ms: int = TICK_MS
    sync_limit_ticks: int = 5
    znodes: int = 0
    """How many it will hold, about."""

    @property
    def heap_mb(self) -> int:
        """Memory for Java's objects: a heap that is nearly full would be measured for its collector alone."""
        return JAVA_HEAP_MB + max(0, self.znodes - 1_000_000) * JAVA_HEAP_MB_A_MILLION // 1_000_000

    @property
    def sync_limit_ms(self) -> int:
        """After how much silence a server is given up."""
        return self.tick_ms * self.sync_limit_ticks

    @property
    def modes(self) -> list[str]:
        """What all servers together say once everybody serves, sorted."""
        return sorted(["leader"] + ["follower"] * (self.voters - 1) + ["observer"] * self.observers)


DEFAULT_SHAPE = Shape()


class Ensemble:
    """Servers below `directory`, numbered from 1, each a process of its own; observers come last.

    `source` is the folder of ours whose code they run; None is what is installed."""

    def __init__(self, side: Side, directory: Path, shape: Shape = DEFAULT_SHAPE, source: Path | None = None) -> None:
        self.side = side
        self._source = source
        self.shape = shape
        self._directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        servers = shape.voters + shape.observers
        ports = iter(free_ports(3 * servers))
        self._client_ports = {n: next(ports) for n in range(1, servers + 1)}
        lines = [f"server.{n}=127.0.0.1:{next(ports)}:{next(ports)}" for n in self._client_ports]
        lines[shape.voters :] = [f"{line}:observer" for line in lines[shape.voters :]]
        timing = [f"tickTime={shape.tick_ms}", "initLimit=10", f"syncLimit={shape.sync_limit_ticks}"]
        for n, port in self._client_ports.items():
            data = self._home(n) / "data"
            data.mkdir(parents=True)
            (data / "myid").write_text(f"{n}\n")
            config = [*timing, "maxClientCnxns=0", f"dataDir={data}", f"clientPort={port}"]
            config += ["clientPortAddress=127.0.0.1", *(["peerType=observer"] if n > shape.voters else []), *lines]
            (self._home(n) / "zoo.cfg").write_text("\n".join(config) + "\n")
        (directory / "log4j2.properties").write_text(LOGGING)

    @property
    def hosts(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._client_ports.values()]

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    def start(self, n: int) -> None:
        """Start a server; one that ran before finds its data again."""
        with (self._home(n) / "out.log").open("ab") as log, held():
            # A session of its own: Ctrl-C reaches the measurement alone, which then stops its servers.
            self._processes[n] = subprocess.Popen(
                self._command(n), cwd=self._source or ROOT, env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self, n: int) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self._processes.pop(n)
        process.kill()
        process.wait(STOP_S)

    def pid(self, n: int) -> int:
        """The process of a server that runs."""
        return self._processes[n].pid

    def freeze(self, n: int) -> None:
        """SIGSTOP: its connections stay, and nothing answers on them."""
        self._processes[n].send_signal(signal.SIGSTOP)

    def thaw(self, n: int) -> None:
        """SIGCONT."""
        self._processes[n].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill what runs: its data is thrown away anyway."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(STOP_S)
        self._processes.clear()

    def await_ready(self) -> None:
        """Wait until there is one leader and everybody else follows.  Raises CannotMeasure."""
        deadline = time.monotonic() + READY_S
        while sorted(modes := [mode(host) for host in self.hosts]) != self.shape.modes:
            ended = [n for n, process in self._processes.items() if process.poll() is not None]
            if ended:
                raise CannotMeasure(f"{TITLES[self.side]}: server {ended[0]} ended:\n{self._log_tail(ended[0])}")
            if time.monotonic() > deadline:
                raise CannotMeasure(
                    f"{TITLES[self.side]}: no quorum after {READY_S:.0f} s ({', '.join(modes)}):\n{self._log_tail(1)}"
                )
            time.sleep(0.1)

    def rss_mb(self) -> float:
        """Resident memory of all servers together, in megabytes (10⁶ bytes)."""
        return sum(resident_bytes(pid) for pid in self.pids) / 1e6

    def _home(self, n: int) -> Path:
        return self._directory / str(n)

    def _log_tail(self, n: int) -> str:
        return (self._home(n) / "out.log").read_text(errors="replace")[-2000:].strip()

    def _command(self, n: int) -> list[str]:
        config = str(self._home(n) / "zoo.cfg")
        return self._java_command(config) if self.side == "zookeeper" else _our_command(config, self._source)

    def _environment(self) -> dict[str, str] | None:
        return None if self._source is None else {**os.environ, "PYTHONPATH": str(self._source)}

    def _java_command(self, config: str) -> list[str]:
        paths = [str(self._directory), *map(str, zookeeper_jars())]
        return [
            "java", f"-Xmx{self.shape.heap_mb}m", "-Dzookeeper.admin.enableServer=false",
            "-Dzookeeper.4lw.commands.whitelist=srvr",
            f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}",
            "-cp", os.pathsep.join(paths), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
        ]  # fmt: skip


def _our_command(config: str, source: Path | None) -> list[str]:
    installed = Path(sys.executable).with_name("zabka")
    start = (
        [str(installed)]
        if source is None and installed.exists()
        else [sys.executable, "-c", "from zabka.cli.main import main; main()"]
    )
    return [*start, "peer", "--config", config]


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, from /proc; 0 where it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running(
    side: Side, directory: Path, shape: Shape = DEFAULT_SHAPE, source: Path | None = None
) -> Iterator[Ensemble]:
    """An ensemble that serves, on fresh data below `directory`; stopped, and its data removed, at the end."""
    directory.mkdir(parents=True)
    ensemble = Ensemble(side, directory, shape, source)
    try:
        for n in range(1, shape.voters + shape.observers + 1):
            ensemble.start(n)
        ensemble.await_ready()
        yield ensemble
    finally:
        ensemble.close()
        shutil.rmtree(directory, ignore_errors=True)
