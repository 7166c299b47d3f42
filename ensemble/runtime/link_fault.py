"""Link faults: the only schema, from the HTTP body to the node that enforces the fault.

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

ANY = "*"
"""Matches every node, as either end of a fault."""
DELAY_MS_MAX = 600_000

Kind = Literal["cut", "delay"]


class LinkFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from", "target": "to"}):
    """A link fault between running nodes: affects traffic from `source` to `target`, or both ways.

    Decoding raises msgspec.ValidationError if it is invalid; construction in Python raises ValueError.
    """

    source: Annotated[str, Meta(description="A node, such as broker-1")]
    target: Annotated[str, Meta(description="A node, or * for all")]
    kind: Kind
    delay_ms: Annotated[int, Meta(ge=0, le=DELAY_MS_MAX)] = 0
    both_ways: bool = True

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise ValueError("a node has no link to itself")
        if self.kind == "delay" and self.delay_ms == 0:
            raise ValueError("a delay needs delay_ms above 0")

    def touches(self, sender: str | None, receiver: str | None) -> bool:
        """Whether the fault affects traffic from `sender` to `receiver`; a node of unknown name is None."""
        if self.source in (sender, ANY) and self.target in (receiver, ANY):
            return True
        return self.both_ways and self.target in (sender, ANY) and self.source in (receiver, ANY)


class HeldFault(LinkFault, frozen=True, kw_only=True):
    """An active fault, with the id that heals it, and who requested it."""

    id: str
    requester: str = ""


AnyFault = HeldFault | HeldRequestFault
"""An active fault of a link, or of requests."""


class Impairment(NamedTuple):
    """Impairment of one direction of a link."""

    cut: bool = False
    delay_ms: int = 0


WHOLE = Impairment()


def impairment(faults: Iterable[LinkFault], sender: str | None, receiver: str | None) -> Impairment:
    """Return the combined effect of these faults on all traffic from `sender` to `receiver`."""
    found = WHOLE
    for fault in faults:
        if not fault.touches(sender, receiver):
            continue
        match fault.kind:
            case "cut":
                found = found._replace(cut=True)
            case "delay":
                found = found._replace(delay_ms=max(found.delay_ms, fault.delay_ms))
    return found
