"""Routes of link faults.

The agents hold the faults, so that they outlive this process; an agent that restarts receives them again.
"""

from __future__ import annotations

import secrets

import msgspec
from fastapi import APIRouter, Response

from zabka.api.collector.silent_hosts import out_of_reach
from zabka.api.http.problems import Problem, responses
from zabka.api.http.requester import Requester
from zabka.api.services import Service, Services
from zabka.api.views.models import FaultView, NewFault
from zabka.ensemble.runtime.link_fault import ANY, HeldFault, LinkFault

router = APIRouter(prefix="/api/v1/faults", tags=["faults"])

FAULTS_MAX = 1_000


async def fault_views(service: Services) -> list[FaultView] | None:
    """Return the active faults, or None if no agent responds."""
    known = await service.agents.known_faults()
    return None if known is None else [FaultView(f) for f in known]


@router.get("", summary="The active link faults", responses=responses(503))
async def get_faults(service: Service) -> list[FaultView]:
    """Return the link faults between running nodes, or 503 while no host agent responds: only they know."""
    return [FaultView(f) for f in await service.agents.faults()]


@router.post("", summary="Cut or delay a link", status_code=201, responses=responses(401, 403, 409, 422, 503))
async def create_fault(new: NewFault, service: Service, requester: Requester) -> FaultView:
    """Cut or delay the traffic from `from` to `to`, and back unless `both_ways` is false."""
    fault = new.root
    _check_nodes(fault, service)
    # Otherwise the responding hosts would apply the fault, and the silent one later, although the caller got an error.
    if (silence := next((each.silence for each in service.agents.all if each.silence is not None), None)) is not None:
        raise out_of_reach("any link", silence)
    made = HeldFault(id=f"f{secrets.token_hex(4)}", requester=requester, **msgspec.structs.asdict(fault))
    async with service.agents.changing_faults() as before:
        if len(before) >= FAULTS_MAX:
            raise Problem(409, f"there are {len(before)} faults already; reset some")
        await service.agents.set_faults([*before, made])
    return FaultView(made)


def _check_nodes(fault: LinkFault, service: Services) -> None:
    settings = service.settings
    nodes = [f"peer-{i}" for i in (*settings.peers, *settings.observers)]
    nodes += [f"broker-{i}" for i in settings.brokers]
    if fault.source not in nodes:
        raise Problem(422, f"from: there is no node {fault.source!r}; nodes are {', '.join(nodes)}")
    if fault.target not in nodes and fault.target != ANY:
        raise Problem(422, f"to: there is no node {fault.target!r}; nodes are {', '.join(nodes)}, or *")


@router.delete(
    "/{id}",
    summary="Remove a link fault",
    status_code=204,
    response_class=Response,
    responses=responses(401, 403, 404, 422, 503),
)
async def delete_fault(id: str, service: Service) -> Response:
    """Remove one fault."""
    async with service.agents.changing_faults() as before:
        after = [f for f in before if f.id != id]
        if len(after) == len(before):
            raise Problem(404, f"there is no fault {id}")
        await service.agents.set_faults(after)
    return Response(status_code=204)


@router.post("/reset", summary="Remove every link fault", responses=responses(401, 403, 503))
async def reset_faults(service: Service) -> list[FaultView]:
    """Remove every fault and return the removed faults."""
    async with service.agents.changing_faults() as before:
        await service.agents.set_faults([])
    return [FaultView(f) for f in before]
