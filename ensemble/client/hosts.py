"""Connection strings: "h1:2181,h2:2181,[::1]:2183/chroot" (org.apache.zookeeper.client.ConnectStringParser)."""

from __future__ import annotations

from typing import NamedTuple

from zabka.ensemble.znode_paths import ROOT, is_valid_path

DEFAULT_PORT = 2181


class Hosts(NamedTuple):
    """Parsed connection string: servers as "host:port", and the chroot ("" if there is none)."""

    servers: tuple[str, ...]
    chroot: str


def parse_hosts(text: str) -> Hosts:
    """Parse a connection string. Raises ValueError with the reason.

    A chroot is a valid path that does not end with a slash; a slash alone means no chroot, as in ZooKeeper.
    """
    servers_text, slash, chroot = text.partition("/")
    names = [part.strip() for part in servers_text.split(",") if part.strip()]
    if not names:
        raise ValueError(f"no server in connection string {text!r}")
    if chroot.endswith("/"):
        raise ValueError(f"bad chroot in connection string {text!r}: it must not end with a slash")
    if not is_valid_path(slash + chroot or ROOT):
        raise ValueError(f"bad chroot in connection string {text!r}")
    return Hosts(tuple(_checked(name) for name in names), slash + chroot if chroot else "")


def _checked(server: str) -> str:
    host, port = _parts(server)
    if not port.isalpha():  # a name can stand for a service, as in the simulated world
        return join_host(*split_host(server))
    return f"{host}:{port}"


def _parts(server: str) -> tuple[str, str]:
    if server.startswith("["):
        host, bracket, rest = server[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"bad server address {server!r}")
        port = rest[1:]
    elif server.count(":") > 1:
        host, port = server, ""
    else:
        host, _, port = server.partition(":")
    if not host:
        raise ValueError(f"no host in server address {server!r}")
    return host, port


def split_host(server: str) -> tuple[str, int]:
    """Return ("host", port) of "host:port", "[v6]:port" or a bare host (port 2181).

    Raises ValueError.
    """
    host, port = _parts(server)
    if not port:
        return host, DEFAULT_PORT
    if not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65_536:
        raise ValueError(f"bad port in server address {server!r}")
    return host, int(port)


def join_host(host: str, port: int) -> str:
    """Return "host:port", or "[v6]:port"; the inverse of `split_host`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
