"""Name of the client that requested a fault or an action on a process, for journal events."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Request

from zabka.agent.protocol import REQUESTER_CHARACTERS_MAX, REQUESTER_HEADER, requester_named

_Named = Annotated[
    str | None,
    Header(
        alias=REQUESTER_HEADER,
        max_length=REQUESTER_CHARACTERS_MAX,
        description="Who requests it, for the journal; by default the address of the client",
    ),
]


def requester(request: Request, named: _Named = None) -> str:
    """Return the name that the client sent for itself, or the client's address if it sent none."""
    client = request.client.host if request.client is not None else "of an unknown address"
    return requester_named(named or "") or f"HTTP client {client}"


Requester = Annotated[str, Depends(requester)]
