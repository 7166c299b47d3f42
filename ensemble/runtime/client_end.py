"""Clients in link faults: selected by Kafka client id, by ZooKeeper session, or by address.

ZooKeeper's protocol has no client ids, so its clients are identified by their session ids, as in the output of the
commands `cons` and `dump`.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Literal, NamedTuple

from zabka.ensemble.request_fault import matches_text
from zabka.journal.cause import session_text

Named = Literal["client", "session"]
"""How a node identifies its clients: a broker by Kafka client ids, a peer by ZooKeeper sessions."""
IPV4_IN_IPV6 = "::ffff:"
TEXT_MAX = 1_024
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ClientLine(NamedTuple):
    """A connection that a node has accepted: how its client is identified, the client's name and its address.

    The name is "" while it is unknown.
    """

    named: Named
    name: str
    host: str
    port: int

    @property
    def text(self) -> str:
        """Client name, or the client's address if its name is unknown."""
        return self.name or address_text(self.host, self.port)


class ClientEnd(NamedTuple):
    """The clients that a link fault affects: a pattern for client or session ids, or a network and perhaps a port."""

    kind: Literal["client", "session", "address"]
    pattern: str = ""
    network: _Network | None = None
    port: int = 0

    def is_of(self, line: ClientLine) -> bool:
        """Return whether the client of a connection is one of the clients that this object describes."""
        if self.network is None:
            return self.kind == line.named and matches_text(self.pattern, line.name)
        return self.port in (0, line.port) and _address(line.host) in self.network


@lru_cache(4_096)
def client_end(text: str) -> ClientEnd | None:
    """Return the clients that one end of a link fault selects, or None if the end is the name of a node.

    Raises ValueError for a client or session without a pattern.
    """
    kind, colon, pattern = text.partition(":")
    if colon and kind in ("client", "session"):
        if not 0 < len(pattern) <= TEXT_MAX:
            raise ValueError(f"{text!r} names no client: use {kind}:PATTERN, in which * stands for any characters")
        return ClientEnd("client" if kind == "client" else "session", pattern)
    network, port = _network(text), 0
    if network is None:
        host, _, number = text.rpartition(":")
        network, port = _network(host.strip("[]")), int(number) if number.isdecimal() and len(number) < 6 else 0
    if network is None or (port == 0 and _network(text) is None):
        return None
    return ClientEnd("address", network=network, port=port)


def session_name(session_id: int) -> str:
    """Return the name of a ZooKeeper session; "" for id 0, with which a client requests a new session."""
    return session_text(session_id) if session_id else ""


def address_text(host: str, port: int) -> str:
    """Return "host:port", or "[v6]:port" for an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _network(text: str) -> _Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(host.removeprefix(IPV4_IN_IPV6).partition("%")[0])
    except ValueError:
        # The other side of a Unix socket has no IP address.
        return ipaddress.IPv4Address(0)
