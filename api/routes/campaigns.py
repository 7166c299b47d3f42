"""Routes of the lake: campaigns and their reports, audits, and the state of the tables."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from zabka.api.analytics import audits, lake
from zabka.api.http.problems import responses
from zabka.api.scenarios.campaign_models import Audits, CampaignView, PipelineStands
from zabka.api.services import Service

router = APIRouter(prefix="/api/v1", tags=["campaigns"])

REPORT_HEADERS = {
    # Reports may come from another machine, so they must not run scripts or have this site's origin. They need only
    # inline styles.
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
    "cache-control": "no-cache",
}
Name = Annotated[str, Path(max_length=200, examples=["session-timeout"])]


@router.get("/campaigns", summary="Every campaign of the lake", responses=responses())
async def get_campaigns(service: Service) -> list[CampaignView]:
    """Return every campaign: its question, its progress and its result."""
    return await asyncio.to_thread(lake.campaigns, service.settings.tables)


@router.get("/campaigns/{name}", summary="One campaign", responses=responses(404, 422))
async def get_campaign(name: Name, service: Service) -> CampaignView:
    """Return one campaign: its question, its progress and its result."""
    return await asyncio.to_thread(lake.campaign, service.settings.tables, name)


@router.get(
    "/campaigns/{name}/report",
    summary="A campaign's report",
    response_class=HTMLResponse,
    responses=responses(404, 422),
)
async def get_report(name: Name, service: Service) -> HTMLResponse:
    """Return the report that `zabka campaign run` wrote: one page of HTML without scripts."""
    page = await asyncio.to_thread(lake.report, service.settings.tables, name)
    return HTMLResponse(page, headers=REPORT_HEADERS)


@router.get("/audits", summary="Result of the last audit", responses=responses(503))
async def get_audits(service: Service) -> Audits:
    """Return each invariant's results over all audited runs (`zabka pipeline audit`), and the first violations."""
    settings = service.settings
    return await asyncio.to_thread(audits.audits, settings.tables, settings.cluster_data)


@router.get("/pipeline", summary="State of the tables", responses=responses(503))
async def get_pipeline(service: Service) -> PipelineStands:
    """Return the row count and age of every table, the lag of the stream, and Spark's status."""
    settings = service.settings
    return await asyncio.to_thread(lake.pipeline_stands, settings.tables, settings.cluster_data)
