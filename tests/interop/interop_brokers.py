"""Three of our broker processes with one of our peers, for tests with other clients."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.free_ports import free_ports
from tests.interop.interop_servers import Ensemble, running

READY_S = 40.0
BROKERS = 3
ROOT = Path(__file__).parents[2]
PROGRAM = "import sys, pathlib, zabka.broker_sim.broker_process as b; sys.exit(b.main(pathlib.Path(sys.argv[1])))"


class BrokerServer:
    """One broker process."""

    def __init__(self, broker_id: int, port: int, home: Path, zookeeper: str, **others: object) -> None:
        self.broker_id = broker_id
        self.port = port
        self.home = home
        self.control = home / "control.sock"
        self.journal = home / "journal"
        self._config = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True)
        settings = {
            "broker.id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "zookeeper.connect": zookeeper,
            "log.dirs": home / "logs",
            "zookeeper.session.timeout.ms": 3000,
            "zookeeper.connection.timeout.ms": 60_000,
            "replica.lag.time.max.ms": 3000,
            "default.replication.factor": BROKERS,
            "num.partitions": 2,
            "zabka.control.socket": self.control,
            "zabka.journal.dir": self.journal,
            **{
                name if "." in name else name.replace("_", "."): value(broker_id) if callable(value) else value
                for name, value in others.items()
            },
        }
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._config.write_text(lines.replace("{home}", str(home)).replace("{port}", str(self.port)))

    def start(self) -> None:
        with (self.home / "out.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(self._config)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    @property
    def is_running(self) -> bool:
        """Return whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """Send SIGTERM and return the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int | None:
        if self._process is None:
            return None
        self._process.send_signal(number)
        code = self._process.wait(20)
        self._process = None
        return code

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stand_still(self) -> None:
        """Freeze the process until SIGCONT, and wait until all its threads have stopped."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def output(self) -> str:
        return (self.home / "out.log").read_text(errors="replace")

    def status(self) -> dict[str, Any]:
        """Return the status from the broker's control socket, or an empty one if it does not respond."""
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(2)
                link.connect(str(self.control))
                link.sendall(b'{"status":true}\n')
                text = b""
                while not text.endswith(b"\n"):
                    part = link.recv(65536)
                    if not part:
                        return {}
                    text += part
        except OSError:
            return {}
        status: dict[str, Any] = json.loads(text)
        return status

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of that type from the broker's journal."""
        lines = [
            line
            for file in sorted(self.journal.glob("broker-*.????????????.jsonl"))
            for line in file.read_text().splitlines()
        ]
        return [event for line in lines if (event := json.loads(line))["type"] == kind]


class BrokerCluster:
    """The broker processes of a cluster, and their addresses."""

    def __init__(self, brokers: list[BrokerServer], ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.brokers = {broker.broker_id: broker for broker in brokers}
        self.bootstrap = ",".join(f"127.0.0.1:{broker.port}" for broker in brokers)

    def statuses(self) -> list[dict[str, Any]]:
        return [broker.status() for broker in self.brokers.values()]

    def controller(self) -> BrokerServer:
        """Wait until exactly one broker reports that it is the controller, and return that broker."""
        found: list[int] = []

        def one() -> bool:
            found[:] = [s["broker_id"] for s in self.statuses() if s.get("is_controller")]
            return len(found) == 1

        self.until(one)
        return self.brokers[found[0]]

    def until(self, condition: Callable[[], bool], within_s: float = READY_S) -> None:
        """Wait until the condition is true."""
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, "\n".join(b.output()[-2000:] for b in self.brokers.values())
            time.sleep(0.1)

    def await_ready(self) -> None:
        """Wait until all brokers run, and each has the others in its metadata."""
        everybody = sorted(self.brokers)
        self.until(lambda: all(s.get("state") == "running" and s["live_brokers"] == everybody for s in self.statuses()))
        self.controller()


@contextmanager
def broker_cluster(
    directory: Path, ports: Sequence[int] = (), *, first_id: int = 1, **others: object
) -> Iterator[BrokerCluster]:
    """Run an ensemble of one peer and three brokers, with additional broker settings (`log_dirs` for log.dirs).

    `ports` are the brokers' ports, and set the number of brokers. `first_id` is the id of the first broker. In a
    setting, `{home}` is replaced by the broker's own folder. A setting that is a function is called with the broker's
    number, and gives each broker its own value.
    """
    ports = ports or free_ports(BROKERS)
    (directory / "peers").mkdir()
    with running("ours", 1, directory / "peers") as ensemble:
        brokers = [
            BrokerServer(broker_id, port, directory / f"broker-{broker_id}", ensemble.hosts, **others)
            for broker_id, port in enumerate(ports, first_id)
        ]
        try:
            for broker in brokers:
                broker.start()
            cluster = BrokerCluster(brokers, ensemble)
            cluster.await_ready()
            yield cluster
        finally:
            for broker in brokers:
                broker.kill()


def tool(name: str) -> str:
    """Return an external command. Skip the test if it is missing, but fail under CI."""
    import shutil

    found = shutil.which(name)
    if found is None:
        reason = f"{name} cannot be found"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found
