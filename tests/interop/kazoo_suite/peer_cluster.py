"""Our peers with the interface of the Java servers in kazoo's test harness (kazoo.testing.common)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from certificates import Certificates

from bench.free_ports import free_ports

ROOT = Path(__file__).resolve().parents[3]
COMMAND = (
    "import sys; from pathlib import Path; from zabka.ensemble.server.process.peer_process import main; "
    "sys.exit(main(Path(sys.argv[1])))"
)
READY_S = 30.0
STOP_S = 10.0
SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
"""Digest of the super user, whose password is `test`. kazoo's test suite uses it."""
JAAS_DIGEST = """
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="super_secret"
    user_jaasuser="jaas_password";
};
"""
SETTINGS = {
    "tickTime": 2000,
    "initLimit": 4,
    "syncLimit": 2,
    "maxClientCnxns": 0,
    "clientPortAddress": "127.0.0.1",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
    "reconfigEnabled": "true",
    "readonlymode.enabled": "true",
    "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
    "ssl.keyStore.type": "PEM",
    "ssl.trustStore.type": "PEM",
}
"""zoo.cfg keys that kazoo's test harness sets (kazoo.testing.harness, ManagedZooKeeper.run)."""


class ManagedPeer:
    """One `zabka peer` process, in place of kazoo's ManagedZooKeeper."""

    host = "127.0.0.1"

    def __init__(self, number: int, directory: Path, ports: tuple[int, int], config: str, jaas: str) -> None:
        self.client_port, self.secure_client_port = ports
        self._number = number
        self._directory = directory
        self._config = config
        self._jaas = jaas
        self._log = directory / "zookeeper.log"
        # Some tests stop two servers at the same time, from two threads.
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.client_port}"

    @property
    def secure_address(self) -> str:
        return f"{self.host}:{self.secure_client_port}"

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def failed(self) -> bool:
        """Return whether the process ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def run(self) -> None:
        """Start the peer if it is not running.

        Do not wait until it is ready, because its quorum may not exist yet.
        """
        with self._lock:
            if self._process is not None:
                return
            data = self._directory / "data"
            data.mkdir(parents=True, exist_ok=True)
            (data / "myid").write_text(f"{self._number}\n")
            (self._directory / "jaas.conf").write_text(self._jaas)
            config = self._directory / "zoo.cfg"
            config.write_text(self._config)
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", COMMAND, str(config)],
                    cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                )  # fmt: skip

    def stop(self) -> None:
        """Stop the peer and keep its data. Return when the process has ended."""
        with self._lock:
            if self._process is None:
                return
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_S)
            self._process = None

    def reset(self) -> None:
        """Stop the peer and delete its data."""
        self.stop()
        shutil.rmtree(self._directory / "data", ignore_errors=True)

    destroy = reset

    def get_logs(self, num_lines: int = 100) -> list[str]:
        if not self._log.exists():
            return []
        return self._log.read_text(errors="replace").splitlines(keepends=True)[-num_lines:]

    def serves(self) -> bool:
        """Return whether the peer replies to `srvr` with its mode."""
        text = b""
        try:
            with socket.create_connection((self.host, self.client_port), 2) as link:
                link.settimeout(2)
                link.sendall(b"srvr")
                while part := link.recv(4096):
                    text += part
        except OSError:
            pass
        return b"Mode: " in text


class PeerCluster:
    """An ensemble of our peers, in place of kazoo's ZookeeperCluster."""

    def __init__(self, directory: Path, size: int, observer_start_id: int, jaas: str, local_sessions: str) -> None:
        if jaas not in ("", "digest"):
            raise RuntimeError(f"no {jaas} here: our peers authenticate with DIGEST-MD5 alone")
        self.certificates = Certificates(directory / "ssl")
        ports = iter(free_ports(4 * size))
        clients = [(next(ports), next(ports)) for _ in range(size)]
        lines = []
        for number in range(1, size + 1):
            kind = "observer" if 0 < observer_start_id <= number else "participant"
            lines.append(f"server.{number}=127.0.0.1:{next(ports)}:{next(ports)}:{kind}")
        settings = {
            **SETTINGS,
            "ssl.keyStore.location": self.certificates.server_store,
            "ssl.trustStore.location": self.certificates.authority,
            "localSessionsEnabled": local_sessions,
            "localSessionsUpgradingEnabled": local_sessions,
        }
        self._peers: list[ManagedPeer] = []
        for number, (port, secure_port) in enumerate(clients, 1):
            home = directory / str(number)
            home.mkdir(parents=True, exist_ok=True)
            own = {**settings, "dataDir": home / "data", "clientPort": port, "secureClientPort": secure_port}
            own |= {"secureClientPortAddress": "127.0.0.1"}
            if jaas:
                own["java.security.auth.login.config"] = home / "jaas.conf"
            if lines[number - 1].endswith(":observer"):
                own["peerType"] = "observer"
            text = "\n".join([*(f"{key}={value}" for key, value in own.items()), *lines]) + "\n"
            self._peers.append(ManagedPeer(number, home, (port, secure_port), text, JAAS_DIGEST if jaas else ""))

    def __getitem__(self, index: int) -> ManagedPeer:
        return self._peers[index]

    def __iter__(self) -> Iterator[ManagedPeer]:
        return iter(self._peers)

    def start(self) -> None:
        """Start all peers, and wait until each is part of a quorum."""
        for peer in reversed(self._peers):
            peer.run()
        deadline = time.monotonic() + READY_S
        for peer in self._peers:
            while not peer.serves():
                if peer.failed or time.monotonic() > deadline:
                    raise RuntimeError(f"{peer.address} does not serve:\n" + "".join(peer.get_logs(20)))
                time.sleep(0.05)

    def stop(self) -> None:
        for peer in self._peers:
            peer.stop()

    def terminate(self) -> None:
        for peer in self._peers:
            peer.destroy()

    reset = terminate

    def get_logs(self) -> list[str]:
        return [line for peer in self._peers for line in peer.get_logs()]

    def get_ssl_client_configuration(self) -> dict[str, bytes]:
        return self.certificates.client_configuration()
