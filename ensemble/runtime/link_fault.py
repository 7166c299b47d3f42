"""Link faults: the schema that the HTTP API, the host agents and the nodes share.

A link connects two nodes, or a client and a node (`zabka.ensemble.runtime.client_end`). A fault between nodes is
enforced by the node that opened the connection; a fault of a client is enforced by the node that accepted the
connection.

`POST /api/v1/faults` takes a `LinkFault`; the API adds an id and makes a `HeldFault` of it. Host agents store
`HeldFault`s and send them to their nodes' control sockets, and `GET /api/v1/faults` returns them. To add a kind of
fault, add a value to `Kind`, its effect on a direction to `impairment`, and the implementation to
`faulty_link._Direction`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from zabka.ensemble.request_fault import HeldRequestFault
from zabka.ensemble.runtime.client_end import ClientEnd, ClientLine, client_end

ANY = "*"
"""Name that matches every node, at either end of a fault."""
DELAY_MS_MAX = 600_000
BYTES_PER_S_MAX = 1_000_000_000

Kind = Literal["cut", "delay", "bandwidth"]
_NEEDS = {"delay": "delay_ms", "bandwidth": "bytes_per_s"}
"""Field that a kind of fault requires, keyed by kind; other kinds reject the field."""


class LinkFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from", "target": "to"}):
    """A fault of the link between two nodes, or between a client and a node, in one or both directions.

    Each end is a node such as broker-1, * for all nodes, or a client. A client is identified by `client:ID` (a pattern
    for Kafka client ids), by `session:0x…` (a pattern for ZooKeeper session ids), or by its IP address, optionally with
    a port or as a network. `bandwidth` limits each connection and direction to `bytes_per_s`. An invalid fault raises
    msgspec.ValidationError when decoded, and ValueError when constructed in Python.
    """

    source: Annotated[str, Meta(description="A node, such as broker-1, or a client, such as client:shop-*")]
    target: Annotated[str, Meta(description="A node, * for all, or a client")]
    kind: Kind
    delay_ms: Annotated[int, Meta(ge=0, le=DELAY_MS_MAX)] = 0
    both_ways: bool = True
    bytes_per_s: Annotated[int, Meta(ge=0, le=BYTES_PER_S_MAX)] = 0

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise ValueError("a node has no link to itself")
        needed = _NEEDS.get(self.kind)
        if needed is not None and not getattr(self, needed):
            raise ValueError(f"a fault of kind {self.kind} needs {needed} above 0")
        for name in _NEEDS.values():
            if name != needed and getattr(self, name):
                raise ValueError(f"a fault of kind {self.kind} takes no {name}")
        if (client := self.client) is None:
            return
        if client_end(self.source) is not None and client_end(self.target) is not None:
            raise ValueError("two clients have no link: one end is a node")
        if self.node.startswith("peer-") and client.kind == "client":
            raise ValueError("ZooKeeper clients have no client id: name a session, such as session:0x1*, or an address")
        if self.node.startswith("broker-") and client.kind == "session":
            raise ValueError("brokers have no ZooKeeper sessions of clients: name a client id, such as client:shop-*")

    @property
    def client(self) -> ClientEnd | None:
        """The clients at one end of the link, or None if both ends are nodes."""
        return client_end(self.source) or client_end(self.target)

    @property
    def node(self) -> str:
        """For a fault of clients: the node at the other end, which enforces the fault; * for all nodes."""
        return self.source if client_end(self.target) is not None else self.target

    def touches(self, sender: str | None, receiver: str | None) -> bool:
        """Return whether the fault affects traffic from `sender` to `receiver`; None means an unknown node."""
        if self.source in (sender, ANY) and self.target in (receiver, ANY):
            return True
        return self.both_ways and self.target in (sender, ANY) and self.source in (receiver, ANY)


class HeldFault(LinkFault, frozen=True, kw_only=True):
    """An active link fault, with the id by which it can be removed, and the client that added it."""

    id: str
    requester: str = ""


AnyFault = HeldFault | HeldRequestFault
"""An active link fault or request fault."""


def kind_text(fault: LinkFault) -> str:
    """Return the fault's kind as text for the journal; for a bandwidth limit, it includes the bytes per second."""
    return f"{fault.kind} {fault.bytes_per_s} bytes/s" if fault.bytes_per_s else fault.kind


class Impairment(NamedTuple):
    """Effect of link faults on one direction of a connection: cut, delay and bandwidth limit."""

    cut: bool = False
    delay_ms: int = 0
    bytes_per_s: int = 0
    """Bandwidth limit; 0 for no limit."""

    def with_fault(self, fault: LinkFault) -> Impairment:
        """Return this impairment combined with the effect of one more fault."""
        match fault.kind:
            case "cut":
                return self._replace(cut=True)
            case "delay":
                return self._replace(delay_ms=max(self.delay_ms, fault.delay_ms))
            case "bandwidth":
                return self._replace(bytes_per_s=min(self.bytes_per_s or fault.bytes_per_s, fault.bytes_per_s))


WHOLE = Impairment()


def impairment(faults: Iterable[LinkFault], sender: str | None, receiver: str | None) -> Impairment:
    """Return the combined effect of these faults on all traffic from `sender` to `receiver`."""
    found = WHOLE
    for fault in faults:
        if fault.touches(sender, receiver):
            found = found.with_fault(fault)
    return found


def is_of(fault: LinkFault, node: str, line: ClientLine) -> bool:
    """Return whether a fault affects the link between this client and this node, in any direction."""
    client = fault.client
    return client is not None and fault.node in (node, ANY) and client.is_of(line)


def client_impairments(faults: Iterable[LinkFault], node: str, line: ClientLine) -> tuple[Impairment, Impairment]:
    """Return the combined effects on traffic from a client to that node, and on traffic from the node to the client."""
    inward = outward = WHOLE
    for fault in faults:
        if not is_of(fault, node, line):
            continue
        is_from_client = client_end(fault.source) is not None
        if is_from_client or fault.both_ways:
            inward = inward.with_fault(fault)
        if not is_from_client or fault.both_ways:
            outward = outward.with_fault(fault)
    return inward, outward
