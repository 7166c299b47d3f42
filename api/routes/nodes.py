"""Routes of the cluster's nodes: peers, the controller, brokers, and actions on their processes."""

from __future__ import annotations

from fastapi import APIRouter

from zabka.agent.protocol import NodeAction
from zabka.api.collector.silent_hosts import out_of_reach
from zabka.api.http.problems import responses
from zabka.api.http.requester import Requester
from zabka.api.routes.faults import fault_views
from zabka.api.services import Service, Services
from zabka.api.views.models import Broker, Cluster, Controller, Peer, ProcessResult

router = APIRouter(prefix="/api/v1")


@router.get("/cluster", tags=["cluster"], summary="The whole cluster in one object", responses=responses())
async def get_cluster(service: Service) -> Cluster:
    """Return peers, controller, brokers, topics, workloads and faults, as of event number `seq`."""
    fresh = await service.ensemble.read()
    return service.views.cluster(fresh, service.workloads.all(), await fault_views(service))


@router.get("/peers", tags=["ensemble"], summary="The ensemble's servers", responses=responses())
async def get_peers(service: Service) -> list[Peer]:
    """Return each peer's process, and the role, phase, epochs and zxid that the peer last reported."""
    return service.views.peers()


@router.get("/peers/{id}", tags=["ensemble"], summary="One server of the ensemble", responses=responses(404, 422))
async def get_peer(id: int, service: Service) -> Peer:
    """Return one peer's state and process."""
    return service.views.peer(id)


@router.get("/controller", tags=["cluster"], summary="The controller", responses=responses())
async def get_controller(service: Service) -> Controller:
    """Return the controller according to ZooKeeper; broker_id is -1 if there is none."""
    return service.views.controller(await service.ensemble.read())


@router.get("/brokers", tags=["brokers"], summary="The brokers", responses=responses())
async def get_brokers(service: Service) -> list[Broker]:
    """Return each broker's process, its registration, and the controller that the broker considers active."""
    return service.views.brokers(await service.ensemble.read())


@router.get("/brokers/{id}", tags=["brokers"], summary="One broker", responses=responses(404, 422))
async def get_broker(id: int, service: Service) -> Broker:
    """Return one broker's process, its registration, and the controller that the broker considers active."""
    return service.views.broker(id, await service.ensemble.read())


@router.post(
    "/brokers/{id}/{action}",
    tags=["brokers"],
    summary="Kill, stop, pause, resume, start or restart a broker",
    status_code=202,
    responses=responses(401, 403, 404, 409, 422, 503),
)
async def act_on_broker(id: int, action: NodeAction, service: Service, requester: Requester) -> ProcessResult:
    """Change the state of a broker's process: `kill` is SIGKILL, `pause` SIGSTOP, `stop` a controlled shutdown.

    Returns once the process has changed its state.
    """
    if id not in service.settings.brokers:
        raise service.views.not_ours(id, await service.ensemble.read())
    return await _act(service, f"broker-{id}", action, requester)


@router.post(
    "/peers/{id}/{action}",
    tags=["ensemble"],
    summary="Kill, stop, pause, resume, start or restart a peer",
    status_code=202,
    responses=responses(401, 403, 404, 409, 422, 503),
)
async def act_on_peer(id: int, action: NodeAction, service: Service, requester: Requester) -> ProcessResult:
    """Change the state of a peer's process: `kill` is SIGKILL, `pause` SIGSTOP, `stop` SIGTERM.

    Returns once the process has changed its state.
    """
    service.views.peer(id)
    return await _act(service, f"peer-{id}", action, requester)


async def _act(service: Services, node: str, action: NodeAction, requester: str) -> ProcessResult:
    # Do not send the request to a silent agent: a frozen agent would carry out the action when it resumes, long after
    # the caller gave up.
    if (silence := service.agents.silence(node)) is not None:
        raise out_of_reach(node, silence)
    info = await service.agents.request_action(node, action, requester)
    number = int(node.rpartition("-")[2])
    return ProcessResult(id=number, node=node, action=action, process=info.process, pid=info.pid)  # type: ignore[arg-type]
