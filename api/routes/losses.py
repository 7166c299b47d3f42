"""Route with which a user acknowledges lost records, so that they no longer make the cluster unhealthy."""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from zabka.api.http.problems import Problem, responses
from zabka.api.services import Service, Services
from zabka.api.views.models import Body
from zabka.journal.events import LossesAcknowledged

router = APIRouter(prefix="/api/v1/losses", tags=["losses"])

KEPT_WITHIN_S = 10.0
"""Maximum time for the collector to store an acknowledgement. After that, the request fails."""
_POLL_S = 0.02


class NewAcknowledgement(Body):
    """Request body: which lost records to acknowledge."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"through_seq": 1913}})

    through_seq: int | None = Field(
        None, ge=0, le=2**63, description="Acknowledge losses up to this journal number; default: all losses so far"
    )


class Acknowledgement(BaseModel):
    """Response: the lost records that were acknowledged."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"through_seq": 1913, "losses": 3, "producers": {"w1": 12}}}
    )

    through_seq: int = Field(description="Losses up to this journal number are acknowledged")
    losses: int = Field(description="Number of losses that were not acknowledged before")
    producers: dict[str, int] = Field(description="Lost records per producer, now acknowledged")


@router.post("/acknowledge", summary="Acknowledge lost records", responses=responses(401, 403, 422, 503))
async def acknowledge(service: Service, requested: NewAcknowledgement | None = None) -> Acknowledgement:
    """Acknowledge lost records: they stay in the history and no longer count against the cluster's health.

    The acknowledgement is an event of the journal. It is stored before the response is sent.
    """
    state, last_seq = service.collector.state, service.collector.last_seq
    through_seq = last_seq if requested is None or requested.through_seq is None else requested.through_seq
    if through_seq > last_seq:
        raise Problem(422, f"through_seq: the journal ends at {last_seq}")
    producers = {name: told.lost for name, told in state.workloads.items() if told.lost}
    found = [loss for loss in state.losses if state.losses_acknowledged_seq < loss.seq <= through_seq]
    service.emit(LossesAcknowledged(through_seq, producers))
    await _kept(service, through_seq, producers)
    return Acknowledgement(through_seq=through_seq, losses=len(found), producers=producers)


async def _kept(service: Services, through_seq: int, producers: dict[str, int]) -> None:
    """Wait until the collector has stored the acknowledgement. Raises Problem 503."""
    deadline = time.monotonic() + KEPT_WITHIN_S
    collector = service.collector
    while collector.state.losses_acknowledged_seq < through_seq or any(
        collector.state.lost_acknowledged.get(name, 0) < lost for name, lost in producers.items()
    ):
        if time.monotonic() >= deadline:
            why = collector.trouble or "the host agent has not delivered the API's journal"
            raise Problem(503, f"the acknowledgement is not stored yet: {why}. Try again.")
        await asyncio.sleep(_POLL_S)
