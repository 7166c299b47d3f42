"""Routes of link faults and request faults.

The agents store the faults, so faults remain active when this process ends. After an agent has restarted, this process
sends it the faults again.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import combinations, product
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Body, Response

from zabka.api.collector.silent_hosts import out_of_reach
from zabka.api.http.problems import Problem, responses
from zabka.api.http.requester import Requester
from zabka.api.services import Service, Services
from zabka.api.views.models import CountedRequestFault, FaultView, NewFault, NewSplit, ReadySetView
from zabka.ensemble.request_fault import HeldRequestFault, RequestFault, describe
from zabka.ensemble.runtime.client_end import client_end
from zabka.ensemble.runtime.link_fault import ANY, AnyFault, HeldFault, LinkFault
from zabka.kafka.request_faults.ready_sets import READY_SETS, narrowed, takes, why_impossible

router = APIRouter(prefix="/api/v1/faults", tags=["faults"])

FAULTS_MAX = 1_000
CLIENT_ENDS = "client:ID (Kafka), session:0xID (ZooKeeper) or an IP address"
FRESH_MS = 200
"""Maximum time to wait for the nodes to report their request fault counts."""


async def fault_views(service: Services) -> list[FaultView] | None:
    """Return the active faults, or None if no agent responds."""
    known = await service.agents.known_faults()
    return None if known is None else [_view(fault, service) for fault in known]


def _view(fault: AnyFault, service: Services) -> FaultView:
    if isinstance(fault, HeldFault):
        return FaultView(fault)
    counts = service.agents.fault_counts(fault.id)
    return FaultView(
        CountedRequestFault(
            **msgspec.structs.asdict(fault),
            text=describe(fault),
            matched=sum(matched for matched, _ in counts.values()),
            used=sum(used for _, used in counts.values()),
            used_by={node: used for node, (_, used) in counts.items() if used},
        )
    )


@router.get("", summary="The active faults", responses=responses(503))
async def get_faults(service: Service) -> list[FaultView]:
    """Return the faults of links and requests, or 503 while no host agent responds: only the agents know the faults.

    A request fault includes how often it was injected. The nodes are asked for these counts when this route is called.
    """
    faults = await service.agents.faults()
    if any(isinstance(fault, HeldRequestFault) for fault in faults):
        await service.agents.refresh(FRESH_MS)
    return [_view(fault, service) for fault in faults]


@router.get("/sets", summary="The ready sets of request faults", responses=responses())
async def get_ready_sets() -> list[ReadySetView]:
    """Return each predefined set of request fault rules (ready set) and the outage that it imitates."""
    return [
        ReadySetView(
            name=name,
            imitates=ready.imitates,
            expected=ready.expected,
            takes=takes(name),
            rules=[msgspec.to_builtins(rule) for rule in ready.rules],
        )
        for name, ready in READY_SETS.items()
    ]


@router.post("", summary="Add a fault", status_code=201, responses=responses(401, 403, 409, 422, 503))
async def create_fault(new: NewFault, service: Service, requester: Requester) -> FaultView:
    """Partition, delay or limit the traffic from `from` to `to`, and back unless `both_ways` is false.

    The ends are two nodes, or a node and a client. A fault for clients applies to open connections at once, and to new
    connections from their first request.

    With the kind `request`, change how nodes process the matching requests of clients.
    """
    (made,) = await _add([new.root], service, requester)
    return _view(made, service)


@router.post(
    "/sets/{name}", summary="Add a predefined set of request faults", status_code=201,
    responses=responses(401, 403, 404, 409, 422, 503),
)  # fmt: skip
async def create_ready_set(
    name: str,
    service: Service,
    requester: Requester,
    narrowing: Annotated[dict[str, Any], Body(examples=[{"topic": "orders"}])],
) -> list[FaultView]:
    """Add every request fault rule of a predefined set.

    The body can restrict the rules, for example to a topic, and replace their times.
    """
    if name not in READY_SETS:
        raise Problem(404, f"there is no ready set {name}; sets are {', '.join(READY_SETS)}")
    try:
        rules = narrowed(name, narrowing)
    except ValueError as bad:
        raise Problem(422, str(bad)) from None
    return [_view(made, service) for made in await _add(rules, service, requester)]


@router.post("/split", summary="Split the network", status_code=201, responses=responses(401, 403, 409, 422, 503))
async def create_split(split: NewSplit, service: Service, requester: Requester) -> list[FaultView]:
    """Cut every link between nodes of different sides, both ways. All cuts are added, or none."""
    named = [node for side in split.sides for node in side]
    if len(set(named)) < len(named) or not all(split.sides):
        raise Problem(422, "sides: each side needs a node, and a node can be on one side only")
    nodes = _nodes(service)
    if (unknown := next((node for node in named if node not in nodes), None)) is not None:
        raise Problem(422, f"sides: there is no node {unknown!r}; nodes are {', '.join(nodes)}")
    links = sum(len(one) * len(other) for one, other in combinations(split.sides, 2))
    if links > FAULTS_MAX:
        raise Problem(422, f"sides: the split cuts {links} links; at most {FAULTS_MAX} faults can be active")
    cuts = [
        LinkFault(source=source, target=target, kind="cut")
        for one, other in combinations(split.sides, 2)
        for source, target in product(one, other)
    ]
    return [_view(made, service) for made in await _add(cuts, service, requester)]


async def _add(faults: Sequence[LinkFault | RequestFault], service: Services, requester: str) -> list[AnyFault]:
    """Check the faults, assign ids to them, and make them active. Raises Problem."""
    for fault in faults:
        _check(fault, service)
    # Reject the request if an agent does not respond. Otherwise the other hosts would apply the fault although the
    # caller received an error, and the silent agent's host would apply it later, when the agent responds again.
    if (silence := next((each.silence for each in service.agents.all if each.silence is not None), None)) is not None:
        raise out_of_reach("any node", silence)
    made = [_held(fault, requester) for fault in faults]
    async with service.agents.changing_faults() as before:
        if len(before) + len(made) > FAULTS_MAX:
            raise Problem(409, f"there are {len(before)} faults already; reset some")
        await service.agents.set_faults([*before, *made])
    return made


def _held(fault: LinkFault | RequestFault, requester: str) -> AnyFault:
    made_id = f"f{secrets.token_hex(4)}"
    if isinstance(fault, RequestFault):
        return HeldRequestFault(id=made_id, requester=requester, **msgspec.structs.asdict(fault))
    return HeldFault(id=made_id, requester=requester, **msgspec.structs.asdict(fault))


def _nodes(service: Services) -> list[str]:
    """Return the names of the cluster's nodes."""
    settings = service.settings
    peers = [f"peer-{i}" for i in (*settings.peers, *settings.observers)]
    return peers + [f"broker-{i}" for i in settings.brokers]


def _check(fault: LinkFault | RequestFault, service: Services) -> None:
    nodes = _nodes(service)
    if isinstance(fault, RequestFault):
        if (reason := why_impossible(fault)) is not None:
            raise Problem(422, reason)
        if fault.node not in nodes and fault.node != ANY:
            raise Problem(422, f"node: there is no node {fault.node!r}; nodes are {', '.join(nodes)}, or *")
        return
    _check_end("from", fault.source, nodes, fault)
    _check_end("to", fault.target, nodes, fault)


def _check_end(name: str, end: str, nodes: list[str], fault: LinkFault) -> None:
    """Raise Problem 422 if one end of the link does not exist.

    `*` is valid as the target, and as the node of a link to a client.
    """
    is_any = end == ANY and (name == "to" or fault.client is not None)
    if end not in nodes and client_end(end) is None and not is_any:
        star = ", or *" if name == "to" else ""
        text = f"{name}: there is no node {end!r}; nodes are {', '.join(nodes)}{star}; clients are {CLIENT_ENDS}"
        raise Problem(422, text)


@router.delete(
    "/{id}",
    summary="Remove a fault",
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


@router.post("/reset", summary="Remove every fault", responses=responses(401, 403, 503))
async def reset_faults(service: Service) -> list[FaultView]:
    """Remove every fault and return the removed faults."""
    async with service.agents.changing_faults() as before:
        await service.agents.set_faults([])
    return [_view(fault, service) for fault in before]
