"""Routes of consumer groups."""

from __future__ import annotations

from fastapi import APIRouter

from zabka.api.http.problems import responses
from zabka.api.services import Service
from zabka.api.views.models import GroupDetails, Groups

router = APIRouter(prefix="/api/v1")


@router.get("/groups", tags=["groups"], summary="The consumer groups", responses=responses(503))
async def get_groups(service: Service) -> Groups:
    """Return the consumer groups of all clients, as their coordinators describe them."""
    return await service.groups.all()


@router.get("/groups/{group:path}", tags=["groups"], summary="One consumer group", responses=responses(404, 422, 503))
async def get_group(group: str, service: Service) -> GroupDetails:
    """Return one consumer group with its members, committed offsets and lag."""
    return await service.groups.one(group)
