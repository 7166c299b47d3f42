"""kazoo's test harness with an ensemble of zabka: `KazooTestHarness` and `KazooTestCase` without a JVM.

A test that inherits from `kazoo.testing.KazooTestHarness` can inherit from this module's class instead. For a test
suite that cannot be changed, `pytest -p zabka.testing.kazoo_harness` replaces the servers of kazoo's own harness;
kazoo's own test suite can be run in this way. The servers have no TLS port, so tests of TLS are skipped.

The environment variables of kazoo's harness apply: ZOOKEEPER_CLUSTER_SIZE, ZOOKEEPER_OBSERVER_START_ID,
ZOOKEEPER_LOCAL_SESSION_RO and ZOOKEEPER_JAAS_AUTH=digest.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import types
import unittest
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from zabka.compose.topology import PeerSpec, load, node_directory
from zabka.testing.live.start import start_ensemble, stop_live

if TYPE_CHECKING:
    from zabka.testing.live.ensemble import LiveEnsemble

for _name in ("jks", "OpenSSL"):
    # kazoo's harness imports two modules for the key stores of Java servers, which most installations lack.
    try:
        __import__(_name)
    except ImportError:
        sys.modules[_name] = types.ModuleType(_name)

from kazoo.testing import harness  # noqa: E402 (needs the two modules above)

SETTINGS = {
    "tickTime": "2000",
    "initLimit": "4",
    "syncLimit": "2",
    "maxClientCnxns": "0",
    "4lw.commands.whitelist": "*",
    "reconfigEnabled": "true",
    "readonlymode.enabled": "true",
    "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    "DigestAuthenticationProvider.superDigest": "super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
}
"""Settings that kazoo's harness gives its servers (kazoo.testing.harness, ManagedZooKeeper.run).

The password of the super user is `test`.
"""
JAAS = """
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="super_secret"
    user_jaasuser="jaas_password";
};
"""
# kazoo's tests read this version to find out which features the servers support.
os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.5")
_NO_TLS = "the servers of zabka.testing.kazoo_harness have no TLS port"
_VARIABLES = {
    "ZOOKEEPER_CLUSTER_SIZE": "3",
    "ZOOKEEPER_OBSERVER_START_ID": "-1",
    "ZOOKEEPER_LOCAL_SESSION_RO": "false",
    "ZOOKEEPER_JAAS_AUTH": "",
}


class Server:
    """One peer with the interface of kazoo's ManagedZooKeeper."""

    def __init__(self, ensemble: LiveEnsemble, spec: PeerSpec) -> None:
        self._peer = ensemble.peers[spec.id]
        self._log = node_directory(ensemble.data, spec.name) / f"{spec.name}.log"
        self._data = node_directory(ensemble.data, spec.name) / "data"
        self.host = spec.bind
        self.client_port = spec.client_port
        self.address = f"{spec.bind}:{spec.client_port}"

    @property
    def secure_address(self) -> str:
        """Skip the calling test, because the servers have no TLS port."""
        raise unittest.SkipTest(_NO_TLS)

    secure_client_port = secure_address

    @property
    def running(self) -> bool:
        """Whether the server's process is running."""
        return self._peer.process != "down"

    def run(self) -> None:
        """Start the server if it is not running."""
        if not self.running:
            self._peer.start()

    def stop(self) -> None:
        """Stop the server, and keep its data."""
        if self.running:
            self._peer.stop()

    def reset(self) -> None:
        """Stop the server, and delete its data."""
        self.stop()
        for path in self._data.glob("version-2"):
            shutil.rmtree(path, ignore_errors=True)

    destroy = reset

    def get_logs(self, num_lines: int = 100) -> list[str]:
        """Return the last lines of the server's log."""
        return self._log.read_text(errors="replace").splitlines(keepends=True)[-num_lines:]


class Servers:
    """An ensemble with the interface of kazoo's ZookeeperCluster. It runs from `start` to `terminate`."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self._ensemble: LiveEnsemble | None = None
        self._servers: list[Server] = []
        self._ends = ExitStack()

    @property
    def ensemble(self) -> LiveEnsemble:
        """The ensemble.  It is started if it is not running."""
        if self._ensemble is None:
            directory = Path(self._ends.enter_context(TemporaryDirectory(prefix="zabka-kazoo-")))
            self._ensemble = _started(directory, self.variables)
            self._ends.callback(stop_live, self._ensemble)
            topology = load(self._ensemble.data)
            assert topology is not None
            self._servers = [Server(self._ensemble, spec) for spec in topology.peers]
        return self._ensemble

    def __getitem__(self, index: int) -> Server:
        return list(self)[index]

    def __iter__(self) -> Iterator[Server]:
        assert self.ensemble is not None
        return iter(self._servers)

    def start(self) -> None:
        """Start every server, and wait until the ensemble has a quorum."""
        for server in self:
            server.run()
        self.ensemble.until_ready()

    def stop(self) -> None:
        """Stop every server, and keep their data."""
        for server in self:
            server.stop()

    def terminate(self) -> None:
        """Stop every server, and delete their data. The next ensemble has different ports."""
        self._ensemble = None
        self._ends.close()

    reset = terminate

    def get_ssl_client_configuration(self) -> dict[str, bytes]:
        """Skip the calling test, because the servers have no TLS port."""
        raise unittest.SkipTest(_NO_TLS)

    def get_logs(self) -> list[str]:
        """Return the last lines of the logs of all servers."""
        return [line for server in self for line in server.get_logs()]


class _Shared:
    """The ensemble that all tests of a process share, as long as the environment variables do not change."""

    def __init__(self) -> None:
        self._servers = Servers({})

    def get(self) -> Servers:
        """Return the shared ensemble, and start it if necessary."""
        variables = {name: os.environ.get(name) or default for name, default in _VARIABLES.items()}
        if variables != self._servers.variables:
            self._servers.terminate()
            self._servers = Servers(variables)
        return self._servers

    def close(self) -> None:
        """Stop the ensemble, and delete its files."""
        self._servers.terminate()


def _started(directory: Path, variables: Mapping[str, str]) -> LiveEnsemble:
    local, jaas = variables["ZOOKEEPER_LOCAL_SESSION_RO"], variables["ZOOKEEPER_JAAS_AUTH"]
    settings = {**SETTINGS, "localSessionsEnabled": local, "localSessionsUpgradingEnabled": local}
    if jaas == "digest":
        file = directory / "jaas.conf"
        file.write_text(JAAS)
        settings["java.security.auth.login.config"] = str(file)
    elif jaas:
        raise unittest.SkipTest(f"the servers authenticate with DIGEST-MD5, not {jaas}")
    size, first_observer = int(variables["ZOOKEEPER_CLUSTER_SIZE"]), int(variables["ZOOKEEPER_OBSERVER_START_ID"])
    observers = size - first_observer + 1 if 0 < first_observer <= size else 0
    return start_ensemble(directory / "data", peers=size - observers, observers=observers, settings=settings)


_shared = _Shared()
atexit.register(_shared.close)


class KazooTestHarness(harness.KazooTestHarness):  # type: ignore[misc]
    """kazoo's test harness, with an ensemble of zabka as its servers."""

    @property
    def cluster(self) -> Servers:
        """The servers, which are the same for all tests of the process."""
        return _shared.get()

    def setup_zookeeper(self, **client_options: Any) -> None:
        """Connect `self.client` with a new, empty chroot."""
        namespace = f"/kazootests{uuid.uuid4().hex}"
        self.cluster.start()
        root = self._get_nonchroot_client()
        root.start()
        root.ensure_path(namespace)
        root.stop()
        self.hosts = f"{self.secure_servers if client_options.get('use_ssl') else self.servers}{namespace}"
        self.client = self._get_client(**client_options)
        self.client.start()


class KazooTestCase(KazooTestHarness):
    """A test case with a connected `self.client`, which has a chroot of its own."""

    def setUp(self) -> None:
        """Connect `self.client`."""
        self.setup_zookeeper()

    def tearDown(self) -> None:
        """Close all clients.  The ensemble continues to run for other tests."""
        self.teardown_zookeeper()


def pytest_configure(config: Any) -> None:
    """Make kazoo's own harness use this module's servers, and do not stop them between test classes."""
    harness.get_global_cluster = _shared.get
    harness.KazooTestCase.tearDownClass = classmethod(lambda cls: None)
