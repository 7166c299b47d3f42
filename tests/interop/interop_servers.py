"""Servers for the interoperability tests: our own peers, and Apache ZooKeeper from PySpark's jars."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.free_ports import free_ports

READY_S = 40.0
TICK_MS = 500
_JARS = (
    "zookeeper-3*", "zookeeper-jute-*", "slf4j-api-*", "log4j-*", "netty*", "metrics-core-*", "snappy-java-*",
    "commons-io-*", "commons-lang3*", "commons-cli*",
)  # fmt: skip


class Server:
    """A server process: one of our peers, or Apache ZooKeeper."""

    def __init__(self, command: list[str], directory: Path, port: int, environment: dict[str, str]) -> None:
        self.address = f"127.0.0.1:{port}"
        self.port = port
        self._command = command
        self._environment = environment
        self._log = directory / "out.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._environment
            )

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def serves(self) -> bool:
        """Return whether the server replies to `srvr` with its mode."""
        return bool(self.mode())

    def mode(self) -> str:
        """Return the mode in the server's reply, such as `leader`, or an empty string if it is not part of a quorum."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 2) as link:
                link.settimeout(2)
                link.sendall(b"srvr")
                text = b""
                while part := link.recv(4096):
                    text += part
        except OSError:
            return ""
        return text.partition(b"Mode: ")[2].partition(b"\n")[0].decode()

    def complaint(self) -> str:
        return f"{self.address} does not serve:\n" + self._log.read_text(errors="replace")[-2000:]


class Ensemble:
    """Servers of one ensemble, and their addresses."""

    def __init__(self, kind: str, servers: list[Server]) -> None:
        self.kind = kind
        self.servers = servers
        self.hosts = ",".join(server.address for server in servers)

    def await_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        for server in self.servers:
            while not server.serves():
                assert time.monotonic() < deadline, server.complaint()
                time.sleep(0.1)


@contextmanager
def running(kind: str, size: int, directory: Path, **keys: str) -> Iterator[Ensemble]:
    """Run an ensemble of this kind ("ours" or "zookeeper"), and yield it when ready. `keys` are added to zoo.cfg."""
    made = Ensemble(kind, _servers(kind, size, directory, keys))
    try:
        for server in made.servers:
            server.start()
        made.await_ready()
        yield made
    finally:
        for server in made.servers:
            server.kill()


def _servers(kind: str, size: int, directory: Path, keys: dict[str, str]) -> list[Server]:
    ports = free_ports(3 * size)
    lines = [f"server.{n + 1}=127.0.0.1:{ports[3 * n]}:{ports[3 * n + 1]}" for n in range(size)]
    servers = []
    for n in range(size):
        home = directory / str(n + 1)
        (home / "data").mkdir(parents=True)
        (home / "data" / "myid").write_text(f"{n + 1}\n")
        client_port = ports[3 * n + 2]
        settings = {
            "tickTime": TICK_MS,
            "initLimit": 20,
            "syncLimit": 10,
            "dataDir": home / "data",
            "clientPort": client_port,
            "clientPortAddress": "127.0.0.1",
            "4lw.commands.whitelist": "*",
            **keys,
        }
        config = home / "zoo.cfg"
        config.write_text("\n".join([*(f"{key}={value}" for key, value in settings.items()), *lines]) + "\n")
        command = _our_command(config) if kind == "ours" else _java_command(config, home)
        root = str(Path(__file__).parents[2])
        servers.append(Server(command, home, client_port, {**os.environ, "PYTHONPATH": root}))
    return servers


def _our_command(config: Path) -> list[str]:
    program = (
        "import sys, pathlib; from zabka.ensemble.server.process.peer_process import main; "
        "sys.exit(main(pathlib.Path(sys.argv[1])))"
    )
    return [sys.executable, "-c", program, str(config)]


def _java_command(config: Path, home: Path) -> list[str]:
    spec = importlib.util.find_spec("pyspark")
    java = shutil.which("java")
    if java is None or spec is None or spec.origin is None:
        reason = "Apache ZooKeeper runs out of PySpark's jars, with Java 17 or newer"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    jars = Path(spec.origin).parent / "jars"
    paths = [str(home), *(str(jar) for pattern in _JARS for jar in sorted(jars.glob(f"{pattern}.jar")))]
    (home / "log4j2.properties").write_text("rootLogger.level=ERROR\n")
    return [
        java, "-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=*",
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}", "-cp", os.pathsep.join(paths),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config),
    ]  # fmt: skip
