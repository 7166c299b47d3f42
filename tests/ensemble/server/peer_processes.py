"""Ensembles of real `peer_process` processes on the loopback interface, for process and interoperability tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from bench.free_ports import free_ports

PATIENCE_S = 90.0
COMMAND = (
    "import sys; from pathlib import Path; from zabka.ensemble.server.process.peer_process import main; "
    "sys.exit(main(Path(sys.argv[1])))"
)
ROOT = Path(__file__).parents[3]


def wait_until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Poll until the condition is true. Raises AssertionError after the time limit."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def exchange(port: int, data: bytes, timeout_s: float = 5.0) -> bytes:
    """Send bytes, and read until the other end closes the connection."""
    out = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(data)
            while part := connection.recv(65536):
                out += part
    except ConnectionError:
        return out
    return out


class Ensemble:
    """Peers 1 to n (or starting from another id) below `directory`, each in a separate process."""

    def __init__(self, directory: Path, peers: int, tick_time: int = 500, first: int = 1) -> None:
        self.directory = directory
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.client_ports = dict(zip(range(first, first + peers), free_ports(peers), strict=True))
        ports = iter(free_ports(2 * peers))
        lines = [f"server.{i}=127.0.0.1:{next(ports)}:{next(ports)}" for i in self.client_ports]
        self.server_lines = lines if peers > 1 else []
        for i, port in self.client_ports.items():
            (directory / str(i) / "data").mkdir(parents=True)
            (directory / str(i) / "data" / "myid").write_text(f"{i}\n")
            config = [f"tickTime={tick_time}", "initLimit=10", "syncLimit=5", "maxClientCnxns=0"]
            config += [f"dataDir={directory / str(i) / 'data'}", f"clientPort={port}", "clientPortAddress=127.0.0.1"]
            config += ["4lw.commands.whitelist=*", f"zabka.control.socket={directory / str(i) / 'control'}"]
            self.config(i).write_text("\n".join([*config, *self.server_lines]) + "\n")

    def config(self, i: int) -> Path:
        return self.directory / str(i) / "zoo.cfg"

    def data(self, i: int) -> Path:
        return self.directory / str(i) / "data" / "version-2"

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports.values())

    def start(self, *ids: int) -> None:
        for i in ids or tuple(self.client_ports):
            with (self.directory / str(i) / "log").open("ab") as log:
                self.processes[i] = subprocess.Popen(
                    [sys.executable, "-c", COMMAND, str(self.config(i))], cwd=ROOT, stdout=log, stderr=log
                )

    def run_to_its_end(self, i: int) -> tuple[int, str]:
        """Start a peer that is expected to exit. Return its exit code and output."""
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, str(self.config(i))],
            cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    def kill(self, i: int) -> None:
        process = self.processes.pop(i)
        process.kill()
        process.wait(PATIENCE_S)

    def stop(self, i: int) -> int:
        process = self.processes.pop(i)
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE_S)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(PATIENCE_S)
        self.processes.clear()

    def word(self, i: int, word: str) -> str:
        try:
            return exchange(self.client_ports[i], word.encode()).decode()
        except OSError:
            return ""

    def modes(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for i in self.processes:
            lines = [line for line in self.word(i, "srvr").splitlines() if line.startswith("Mode: ")]
            found[i] = lines[0].removeprefix("Mode: ") if lines else "none"
        return found

    def leader(self) -> int | None:
        leaders = [i for i, mode in self.modes().items() if mode in ("leader", "standalone")]
        return leaders[0] if leaders else None

    def wait_for_quorum(self) -> int:
        """Wait until every started peer has a quorum, and return the leader's id.

        Raises AssertionError immediately if a peer has exited.
        """

        def served() -> bool:
            for i, process in self.processes.items():
                assert process.poll() is None, f"peer {i} has ended: {self.log(i)[-2000:]}"
            return "none" not in self.modes().values() and self.leader() is not None

        wait_until(served)
        leader = self.leader()
        assert leader is not None
        return leader

    @contextmanager
    def client(self, *ids: int) -> Iterator[KazooClient]:
        """Yield a connected kazoo client of these peers (by default all)."""
        hosts = ",".join(f"127.0.0.1:{self.client_ports[i]}" for i in ids or tuple(self.client_ports))
        client = KazooClient(hosts=hosts, timeout=10)
        try:
            client.start(timeout=PATIENCE_S)
            yield client
        finally:
            client.stop()
            client.close()

    def log(self, i: int) -> str:
        return (self.directory / str(i) / "log").read_text()


def pause(process: subprocess.Popen[bytes], paused: bool) -> None:
    os.kill(process.pid, signal.SIGSTOP if paused else signal.SIGCONT)
