"""The topology: the peers, brokers, agents and ports of a cluster, and the files that its nodes need.

`up` plans the topology, stores it in `topology.json` of the data directory, and reads it from there later. compose.yaml
and the Kubernetes manifests are generated from the same structure (`zabka.compose.containers`). Peers and brokers are
numbered from 1; observers are numbered after the peers.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from zabka.agent.loopback import loopback
from zabka.compose.ports import control_socket, make_private
from zabka.compose.secured_nodes import AUTHORITY, PROTOCOL, broker_settings, peer_settings
from zabka.ensemble.properties import property_line

TOPOLOGY_FILE = "topology.json"
LAYOUT_VERSION = 1
NODES_MAX = 255
INTERNAL_REPLICAS_MAX = 3
INTERNAL_MIN_ISR_MAX = 2
PRIVATE = 0o600
"""Permissions of files that may contain passwords: only the owner can read them."""

Platform = Literal["local", "hosts", "compose", "kubernetes"]
"""Where host agents run: on this machine (`zabka up`), on several hosts (started by a user), or in containers."""

# These timeouts are short enough for a person to watch: shorter than the systems' own defaults, which `--profile kafka`
# uses.
PROFILES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "default": (
        {"tickTime": "500", "initLimit": "10", "syncLimit": "5"},
        {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "3000"},
    ),
    "kafka": (
        {"tickTime": "2000", "initLimit": "10", "syncLimit": "5"},
        {"zookeeper.session.timeout.ms": "18000", "replica.lag.time.max.ms": "30000"},
    ),
}


class PeerSpec(msgspec.Struct, frozen=True):
    """One ensemble server.

    `address` is its address for other nodes; `bind` is the address on which it listens for clients.
    """

    id: int
    host: str
    address: str
    bind: str
    client_port: int
    quorum_port: int
    election_port: int
    observer: bool = False

    @property
    def name(self) -> str:
        """The node's name in journals and routes."""
        return f"peer-{self.id}"


class BrokerSpec(msgspec.Struct, frozen=True):
    """One broker.

    `advertised` is its address for clients and other brokers. If clients connect by another route (containers, or a
    proxy), `external` and `external_port` are the address for these clients, which a second listener advertises. That
    listener is bound to `external_bind_port`, or to `external_port` if that is 0.
    """

    id: int
    host: str
    bind: str
    advertised: str
    port: int
    external: str = ""
    external_port: int = 0
    external_bind_port: int = 0

    @property
    def name(self) -> str:
        """The node's name in journals and routes."""
        return f"broker-{self.id}"


class HostSpec(msgspec.Struct, frozen=True):
    """One host agent and its nodes. `runs_api` is set if the agent also runs the API process."""

    name: str
    address: str
    agent_bind: str
    agent_port: int
    nodes: list[str]
    runs_api: bool = False


class Topology(msgspec.Struct, frozen=True):
    """The whole cluster: its peers, brokers, hosts and settings."""

    peers: list[PeerSpec]
    brokers: list[BrokerSpec]
    hosts: list[HostSpec]
    api_bind: str
    api_port: int
    profile: str = "default"
    zookeeper: dict[str, str] = {}
    kafka: dict[str, str] = {}
    allowed_hosts: list[str] = []
    token_directory: str = ""
    platform: Platform = "local"
    secure: bool = False
    """Whether connections are encrypted and clients authenticate (`zabka.compose.secured_nodes`)."""
    secrets_directory: str = ""
    layout: int = LAYOUT_VERSION

    @property
    def connect(self) -> str:
        """`zookeeper.connect`: every voting peer's client port."""
        return ",".join(f"{bracketed(p.address)}:{p.client_port}" for p in self.peers if not p.observer)

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers`: the addresses of all brokers."""
        return ",".join(f"{bracketed(b.advertised)}:{b.port}" for b in self.brokers)

    @property
    def api_url(self) -> str:
        """The URL at which a browser on this machine can open the page."""
        scheme = "https" if self.secure else "http"
        return f"{scheme}://{bracketed(reachable(self.api_bind))}:{self.api_port}"

    def nodes(self) -> Iterator[PeerSpec | BrokerSpec]:
        """Yield all peers, then all brokers."""
        yield from self.peers
        yield from self.brokers

    def tokens(self, data: Path) -> Path:
        """Return the directory that contains the token of the agents.

        It is the data directory, or a directory that several hosts share.
        """
        return Path(self.token_directory) if self.token_directory else data

    def secrets(self, otherwise: Path) -> Path:
        """Return the directory of the nodes' secrets: the one that a container mounts, or `otherwise`."""
        return Path(self.secrets_directory) if self.secrets_directory else otherwise

    def authority(self, data: Path) -> Path | None:
        """Return the certificate that verifies this cluster's servers, or None if the cluster is not secured."""
        return secrets_directory(self, data) / AUTHORITY if self.secure else None

    def on_loopback(self) -> bool:
        """Return whether all servers listen only on this machine's loopback."""
        binds = [self.api_bind, *(p.bind for p in self.peers), *(b.bind for b in self.brokers)]
        return all(loopback(bind) for bind in binds)


def reachable(bind: str) -> str:
    """Return an address at which this machine can reach a server bound to `bind`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind)


def bracketed(host: str) -> str:
    """Return a host as it must be written before a port: in brackets if it is an IPv6 address."""
    return f"[{host}]" if ":" in host else host


class BadTopology(ValueError):
    """A topology file cannot be used. The message is the reason."""


class _Layout(msgspec.Struct):
    layout: int = LAYOUT_VERSION


def save(topology: Topology, data: Path, mode: int = PRIVATE) -> Path:
    """Store the topology in its data directory, atomically. The mode protects passwords in its settings."""
    path = data / TOPOLOGY_FILE
    write_atomically(path, msgspec.json.format(msgspec.json.encode(topology), indent=2) + b"\n", mode)
    return path


def load(data: Path) -> Topology | None:
    """Return the topology stored in a data directory, or None if there is none.

    Raises BadTopology if the file is damaged or has another layout version. The version is checked before the rest of
    the file is read.
    """
    path = data / TOPOLOGY_FILE
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        layout = msgspec.json.decode(raw, type=_Layout).layout
        if layout != LAYOUT_VERSION:
            raise BadTopology(
                f"{path} has layout {layout}, and this zabka reads {LAYOUT_VERSION}: use the zabka that wrote it, or "
                "another data directory"
            )
        return msgspec.json.decode(raw, type=Topology)
    except msgspec.MsgspecError as bad:
        raise BadTopology(f"{path} is damaged ({bad}); remove it to create the cluster again") from None


def write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace a file atomically: write a temporary file, fsync it, rename it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# ---- the nodes' files ------------------------------------------------------------------------------------------------


def node_directory(data: Path, node: str) -> Path:
    """Return the directory of one node."""
    return data / node


def secrets_directory(topology: Topology, data: Path) -> Path:
    """Return the directory of the certificates and passwords of a secured cluster."""
    return topology.secrets(data / "security")


def journal_directory(data: Path, node: str) -> Path:
    """Return the directory of a node's journal."""
    return node_directory(data, node) / "journal"


def config_file(data: Path, node: str) -> Path:
    """Return the configuration file of a node."""
    return node_directory(data, node) / ("zoo.cfg" if node.startswith("peer-") else "server.properties")


def zoo_cfg(topology: Topology, peer: PeerSpec, data: Path) -> str:
    """Return the content of a peer's zoo.cfg."""
    home = node_directory(data, peer.name)
    settings: dict[str, str] = {
        **PROFILES[topology.profile][0],
        "dataDir": str(home / "data"),
        **_client_port(topology, peer, data),
        "admin.enableServer": "false",
        **({"4lw.commands.whitelist": "*"} if topology.on_loopback() else {}),
        **({"peerType": "observer"} if peer.observer else {}),
        # A server must listen on all addresses if its host name does not resolve yet, or may later resolve to another
        # address.
        **({"quorumListenOnAllIPs": "true"} if topology.platform in ("hosts", "kubernetes") else {}),
        **topology.zookeeper,
        **_own_keys(peer.name, data, topology.zookeeper),
    }
    for other in topology.peers:
        role = ":observer" if other.observer else ""
        settings[f"server.{other.id}"] = f"{bracketed(other.address)}:{other.quorum_port}:{other.election_port}{role}"
    return _properties(settings)


def _client_port(topology: Topology, peer: PeerSpec, data: Path) -> dict[str, str]:
    if not topology.secure:
        return {"clientPort": str(peer.client_port), "clientPortAddress": peer.bind}
    port = {"secureClientPort": str(peer.client_port), "secureClientPortAddress": peer.bind}
    return {**port, **peer_settings(secrets_directory(topology, data))}


def server_properties(topology: Topology, broker: BrokerSpec, data: Path) -> str:
    """Return the content of a broker's server.properties."""
    home = node_directory(data, broker.name)
    settings = {
        "broker.id": str(broker.id),
        **_listeners(broker, PROTOCOL if topology.secure else "PLAINTEXT"),
        "log.dirs": str(home / "data"),
        "zookeeper.connect": topology.connect,
        **PROFILES[topology.profile][1],
        # All nodes start at the same time. A broker that starts before there is a quorum waits for it.
        "zookeeper.connection.timeout.ms": str(2**31 - 1),
        # Kafka's default replication factor of three would be impossible with fewer brokers, and no group or
        # transaction could begin.
        "offsets.topic.replication.factor": str(min(INTERNAL_REPLICAS_MAX, len(topology.brokers))),
        "transaction.state.log.replication.factor": str(min(INTERNAL_REPLICAS_MAX, len(topology.brokers))),
        "transaction.state.log.min.isr": str(min(INTERNAL_MIN_ISR_MAX, len(topology.brokers))),
        **(_secured(topology, broker, data) if topology.secure else topology.kafka),
        "zabka.node.name": broker.name,
        **_own_keys(broker.name, data, topology.kafka),
    }
    return _properties(settings)


def _listeners(broker: BrokerSpec, protocol: str) -> dict[str, str]:
    bind, inner = bracketed(broker.bind), f"{bracketed(broker.advertised)}:{broker.port}"
    if not broker.external_port:
        return {
            "listeners": f"{protocol}://{bind}:{broker.port}",
            "advertised.listeners": f"{protocol}://{inner}",
            **({} if protocol == "PLAINTEXT" else {"inter.broker.listener.name": protocol}),
        }
    outer = f"{bracketed(broker.external)}:{broker.external_port}"
    outer_port = broker.external_bind_port or broker.external_port
    return {
        "listeners": f"INTERNAL://{bind}:{broker.port},EXTERNAL://{bind}:{outer_port}",
        "advertised.listeners": f"INTERNAL://{inner},EXTERNAL://{outer}",
        "listener.security.protocol.map": f"INTERNAL:{protocol},EXTERNAL:{protocol}",
        "inter.broker.listener.name": "INTERNAL",
    }


def _secured(topology: Topology, broker: BrokerSpec, data: Path) -> dict[str, str]:
    names = ("INTERNAL", "EXTERNAL") if broker.external_port else (PROTOCOL,)
    return broker_settings(secrets_directory(topology, data), names, topology.kafka)


def _own_keys(node: str, data: Path, overrides: dict[str, str]) -> dict[str, str]:
    return {
        "zabka.journal.dir": str(journal_directory(data, node)),
        "zabka.journal.level": overrides.get("zabka.journal.level", "normal"),
        "zabka.messages": overrides.get("zabka.messages", "control"),
        "zabka.control.socket": str(control_socket(node_directory(data, node))),
    }


def _properties(settings: dict[str, str]) -> str:
    return "".join(f"{property_line(key, value)}\n" for key, value in settings.items())


def write_node(topology: Topology, node: PeerSpec | BrokerSpec, data: Path) -> Path:
    """Write one node's configuration (and a peer's myid). Return the path of its configuration file."""
    home = node_directory(data, node.name)
    (home / "data").mkdir(parents=True, exist_ok=True)
    journal_directory(data, node.name).mkdir(exist_ok=True)
    socket = control_socket(home)
    if socket.parent != home:
        make_private(socket.parent)
    if isinstance(node, PeerSpec):
        write_atomically(home / "data" / "myid", f"{node.id}\n".encode())
        text = zoo_cfg(topology, node, data)
    else:
        text = server_properties(topology, node, data)
    path = config_file(data, node.name)
    write_atomically(path, text.encode(), PRIVATE)
    return path
