"""What a fault of a link is: the one schema of it, from the HTTP body to the node that enforces it.

`POST /api/v1/faults` takes a `LinkFault`; the API gives it an id, and what it is then, a `HeldFault`, is what the host
agents keep, what they send to their nodes' control sockets, and what `GET /api/v1/faults` answers.  Another kind of
fault is a word in `Kind`, what it does to a direction in `impairment`, and how `faulty_link._Direction` does that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

ANY = "*"
"""As an end of a fault: every node."""
DELAY_MS_MAX = 600_000

Kind = Literal["cut", "delay"]


class LinkFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from", "target": "to"}):
    """A link fault between running nodes: what `source` sends to `target`, and back where it holds both ways.

    Decoding raises msgspec.ValidationError where it makes no sense; made in Python it raises ValueError.
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
        """Whether it holds for what one node sends to another; a node whose name nobody knows is None."""
        if self.source in (sender, ANY) and self.target in (receiver, ANY):
            return True
        return self.both_ways and self.target in (sender, ANY) and self.source in (receiver, ANY)


class HeldFault(LinkFault, frozen=True, kw_only=True):
    """A fault that holds, by the name under which it is healed."""

    id: str


class Impairment(NamedTuple):
    """What is wrong with one direction of a link."""

    cut: bool = False
    delay_ms: int = 0


WHOLE = Impairment()


def impairment(faults: Iterable[LinkFault], sender: str | None, receiver: str | None) -> Impairment:
    """What these faults do to everything that one node sends to another."""
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
