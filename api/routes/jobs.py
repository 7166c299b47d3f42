"""Routes of jobs: the Spark stream, an audit and a campaign as child processes of the API."""

from __future__ import annotations

from fastapi import APIRouter

from zabka.api.analytics.job_models import Job, JobKind, NewJob
from zabka.api.http.problems import responses
from zabka.api.services import Service

router = APIRouter(prefix="/api/v1/jobs", tags=["campaigns"])


@router.get("", summary="The jobs", responses=responses())
async def get_jobs(service: Service) -> list[Job]:
    """Return the last stream, audit and campaign that this API process has run, with the end of its output."""
    return service.jobs.all()


@router.post("/{kind}", summary="Start a job", status_code=201, responses=responses(401, 403, 409, 422, 503))
async def start_job(kind: JobKind, service: Service, new: NewJob | None = None) -> Job:
    """Start the stream, an audit of this cluster's journals, or a campaign, as the command of the same name does.

    One job of each kind can run. It ends when the API ends.
    """
    return await service.jobs.start(kind, new or NewJob())


@router.delete("/{kind}", summary="Stop a job", status_code=202, responses=responses(401, 403, 404, 422))
async def stop_job(kind: JobKind, service: Service) -> Job:
    """Ask a job to end. The stream completes its batch first; a job that does not end within 30 s is killed."""
    return service.jobs.stop(kind)
