"""Ensembles of real processes with changing members: our servers, Apache ZooKeeper's, or both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from bench.free_ports import free_ports
from tests.ensemble.server.peer_processes import Ensemble
from tests.ensemble.server.peer_processes import wait_until as wait_until

SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
"""Digest of the super user, whose password is `test`."""


def enable(ensemble: Ensemble) -> None:
    """Configure all servers so that the super user can change the membership."""
    for i in ensemble.client_ports:
        path = ensemble.config(i)
        keys = f"reconfigEnabled=true\nDigestAuthenticationProvider.superDigest={SUPER_DIGEST}\n"
        path.write_text(path.read_text() + keys)


def add_newcomer(ensemble: Ensemble, i: int) -> str:
    """Write the files of a new server, without starting it. Return the addresses in its server line.

    Its server list contains the first members and itself.
    """
    client, quorum, election = free_ports(3)
    home = ensemble.directory / str(i)
    (home / "data").mkdir(parents=True)
    (home / "data" / "myid").write_text(f"{i}\n")
    first = ensemble.directory / "1"
    address = f"127.0.0.1:{quorum}:{election}"
    keys = [
        line
        for line in (first / "zoo.cfg").read_text().splitlines()
        if not line.startswith(("server.", "client", "dynamic"))
    ]
    keys = [line.replace(str(first), str(home)) for line in keys]
    lines = [*ensemble.server_lines, f"server.{i}={address}:observer"]
    ensemble.config(i).write_text(
        "\n".join([*keys, f"clientPort={client}", "clientPortAddress=127.0.0.1", *lines]) + "\n"
    )
    ensemble.client_ports[i] = client
    return address


@contextmanager
def super_client(ensemble: Ensemble) -> Iterator[KazooClient]:
    client = KazooClient(ensemble.hosts, timeout=10, auth_data=[("digest", "super:test")])
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def reconfigure(client: KazooClient, joining: str | None = None, leaving: str | None = None) -> str:
    """Send a reconfig request, and return the new membership as text."""
    data, _ = client.retry(client.reconfig, joining, leaving, None)
    text: str = data.decode()
    return text


def write(client: KazooClient, number: int) -> None:
    client.retry(client.ensure_path, "/kept")
    client.retry(client.create, f"/kept/{number}", str(number).encode())


def wait_for_membership(ensemble: Ensemble, text: str, ids: tuple[int, ...]) -> None:
    """Wait until each of these servers returns that membership."""

    def shown(i: int) -> bool:
        with ensemble.client(i) as client:
            return bool(client.get("/zookeeper/config")[0].decode() == text)

    for i in ids:
        wait_until(lambda i=i: shown(i))  # type: ignore[misc]
