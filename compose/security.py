"""Writes the secrets of a secured cluster: certificates, passwords, and the settings of clients.

All secrets are in one directory that only its owner can open, and are kept when the cluster starts again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from zabka.agent.loopback import names_of
from zabka.compose.certificates import write_certificates
from zabka.compose.client_settings import PLAIN, Login, java, librdkafka
from zabka.compose.ports import make_private
from zabka.compose.secured_nodes import (
    ADMIN,
    API,
    AUTHORITY,
    BROKER,
    PEER,
    PROTOCOL,
    SUPER_USERS,
    USERS_FILE,
    read_users,
    secrets_of,
)
from zabka.compose.topology import (
    PRIVATE,
    Topology,
    bracketed,
    reachable,
    secrets_directory,
    write_atomically,
)
from zabka.ensemble.properties import property_line

ORDINARY_USERS = ("alice", "bob")
"""Users that can do nothing until an ACL allows it."""
PROPERTIES, JSON = "client.properties", "client.json"
"""The files with the settings of a client that connects as `admin`."""
BESIDE = "zabka-secrets"
"""The directory of the secrets of a cluster of containers, next to its compose.yaml or manifests."""
_PASSWORD_BYTES = 24


def write_secrets(topology: Topology, directory: Path, shown: Path, *, mode: int = PRIVATE) -> None:
    """Write the secrets of a cluster that are missing, and the settings of its clients.

    `mode` is the mode of the files that nodes read. The settings of the user `admin` are written to the directory
    `shown`. Raises Lacking if the extra `tls` is not installed, OSError.
    """
    make_private(directory)
    names = _names(topology)
    write_certificates(directory, {BROKER: names, PEER: names, API: names}, [ADMIN])
    _write_users(directory)
    users = read_users(directory)
    inner = topology.secrets(directory)
    api = Login(PROTOCOL, inner / AUTHORITY, PLAIN, API, users[API])
    _write(directory / f"{API}.properties", _properties(java(api)), mode)
    for name in {name for kind in (PEER, BROKER, API) for name in secrets_of(kind)}:
        (directory / name).chmod(mode)
    for user in (ADMIN, *ORDINARY_USERS) if topology.brokers else ():
        login = Login(PROTOCOL, directory / AUTHORITY, PLAIN, user, users[user])
        stem = shown / "client" if user == ADMIN else directory / user
        for suffix, settings in ((".properties", java(login)), (".json", librdkafka(login))):
            found = {"bootstrap.servers": bootstrap(topology), **settings}
            text = _properties(found) if suffix == ".properties" else json.dumps(found, indent=2) + "\n"
            _write(stem.with_suffix(suffix), text, PRIVATE)


def secrets_beside(out: Path, topology: Topology, mode: int = PRIVATE) -> Path:
    """Write the secrets of a cluster of containers into the directory BESIDE next to a file, and return it.

    Raises Lacking if the extra `tls` is not installed, OSError.
    """
    directory = out.absolute().parent / BESIDE
    write_secrets(topology, directory, directory, mode=mode)
    return directory


def own_client_properties(topology: Topology, data: Path) -> Path:
    """Return the client settings that a tool on this machine uses: those of `admin`, or in a container the API's."""
    shown = data / PROPERTIES
    return shown if shown.exists() else secrets_directory(topology, data) / f"{API}.properties"


def contents(directory: Path) -> dict[str, dict[str, str]]:
    """Return the secrets that peers, brokers and the API need, by kind and file name. Raises OSError."""
    return {kind: {name: (directory / name).read_text() for name in secrets_of(kind)} for kind in (PEER, BROKER, API)}


def bootstrap(topology: Topology) -> str:
    """Return the addresses of the brokers for clients outside the nodes' network."""
    outer = [f"{bracketed(b.external)}:{b.external_port}" for b in topology.brokers if b.external_port]
    return ",".join(outer) or topology.bootstrap


def _names(topology: Topology) -> list[str]:
    """Return the host names and addresses of all nodes and of the API."""
    addresses = [reachable(topology.api_bind), *(host.address for host in topology.hosts)]
    addresses += [name for peer in topology.peers for name in (peer.address, reachable(peer.bind))]
    addresses += [name for broker in topology.brokers for name in (broker.advertised, reachable(broker.bind))]
    addresses += [broker.external for broker in topology.brokers if broker.external]
    # Clients in a Kubernetes cluster use the name of the headless service.
    addresses += [host.address.partition(".")[2] for host in topology.hosts[1:] if topology.platform == "kubernetes"]
    addresses += [*topology.allowed_hosts, *(name for name in names_of(topology.api_bind) if name[0] != "[")]
    return sorted(set(filter(None, addresses)))


def _write_users(directory: Path) -> None:
    path = directory / USERS_FILE
    known = read_users(directory) if path.exists() else {}
    missing = [user for user in (*SUPER_USERS, *ORDINARY_USERS) if user not in known]
    if missing:
        users = known | {user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in missing}
        _write(path, _properties(users), PRIVATE)


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{property_line(key, value)}\n" for key, value in settings.items())


def _write(path: Path, text: str, mode: int) -> None:
    write_atomically(path, text.encode(), mode)
