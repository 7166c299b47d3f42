"""Routes of link faults.  The agents hold them, so that they outlive this process."""

from __future__ import annotations

import secrets

import msgspec
from fastapi import APIRouter, Response

from api.agent_protocol import Fault
from api.models import FaultView, NewFault
from api.problems import Problem, responses
from api.services import Service, Services

router = APIRouter(prefix="/api/v1/faults", tags=["faults"])

FAULTS_MAX = 1_000
EVERYBODY = "*"


def _view(fault: Fault) -> FaultView:
    return FaultView.model_validate(msgspec.to_builtins(fault))


async def fault_views(service: Services) -> list[FaultView]:
    """The faults that hold."""
    return [_view(f) for f in await service.agents.faults()]


@router.get("", summary="The faults that hold", responses=responses())
async def get_faults(service: Service) -> list[FaultView]:
    """Link faults between running nodes."""
    return await fault_views(service)


@router.post("", summary="Cut or delay a link", status_code=201, responses=responses(401, 403, 409, 422, 503))
async def create_fault(fault: NewFault, service: Service) -> FaultView:
    """Cut or delay what `from` sends to `to` (and back, unless `both_ways` is false)."""
    _check(fault, service)
    before = await service.agents.faults()
    if len(before) >= FAULTS_MAX:
        raise Problem(409, f"there are {len(before)} faults already; reset some")
    made = Fault(f"f{secrets.token_hex(4)}", fault.source, fault.target, fault.kind, fault.both_ways, fault.delay_ms)
    await service.agents.set_faults([*before, made])
    return _view(made)


def _check(fault: NewFault, service: Services) -> None:
    settings = service.settings
    nodes = [f"peer-{i}" for i in (*settings.peers, *settings.observers)]
    nodes += [f"broker-{i}" for i in settings.brokers]
    if fault.source not in nodes:
        raise Problem(422, f"from: there is no node {fault.source!r}; nodes are {', '.join(nodes)}")
    if fault.target not in nodes and fault.target != EVERYBODY:
        raise Problem(422, f"to: there is no node {fault.target!r}; nodes are {', '.join(nodes)}, or *")
    if fault.source == fault.target:
        raise Problem(422, "a node has no link to itself")
    if fault.kind == "delay" and fault.delay_ms == 0:
        raise Problem(422, "a delay needs delay_ms above 0")


@router.delete(
    "/{id}",
    summary="Heal a link",
    status_code=204,
    response_class=Response,
    responses=responses(401, 403, 404, 422, 503),
)
async def delete_fault(id: str, service: Service) -> Response:
    """Remove one fault."""
    before = await service.agents.faults()
    after = [f for f in before if f.id != id]
    if len(after) == len(before):
        raise Problem(404, f"there is no fault {id}")
    await service.agents.set_faults(after)
    return Response(status_code=204)


@router.post("/reset", summary="Heal every link", responses=responses(401, 403, 503))
async def reset_faults(service: Service) -> list[FaultView]:
    """Remove every fault; answers with those that were removed."""
    before = await service.agents.faults()
    await service.agents.set_faults([])
    return [_view(f) for f in before]
