"""The route that returns the open transactions."""

from __future__ import annotations

from fastapi import APIRouter

from zabka.api.http.problems import responses
from zabka.api.services import Service
from zabka.api.views.models import Transactions

router = APIRouter(prefix="/api/v1")


@router.get("/transactions", tags=["transactions"], summary="The open transactions", responses=responses())
async def get_transactions(service: Service) -> Transactions:
    """Return the open transactions with their coordinators, and the partitions whose readers wait for one of them."""
    return service.views.transactions()
