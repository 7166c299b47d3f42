"""The route that exports runs as files that need no server."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from zabka.api.exports.document import NoPage
from zabka.api.exports.file import MEDIA_TYPES, SUFFIXES, Format, file_of
from zabka.api.exports.stored import stored_runs
from zabka.api.http.problems import Problem, responses
from zabka.api.routes.runs import RunId
from zabka.api.services import Service

router = APIRouter(prefix="/api/v1", tags=["runs"])
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {kind: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()},
        "headers": {"Content-Disposition": {"description": "The file's name", "schema": {"type": "string"}}},
    }
}


@router.get(
    "/runs/{id}/export",
    summary="A run as one file",
    response_class=Response,
    responses={**responses(404, 410, 422, 503), **_FILE},
)
async def export_run(
    id: RunId,
    service: Service,
    from_us: Annotated[
        int | None, Query(alias="from", ge=0, le=2**63, description="In microseconds, like `wall_us`")
    ] = None,
    to_us: Annotated[int | None, Query(alias="to", ge=0, le=2**63, description="In microseconds")] = None,
    form: Annotated[Format, Query(alias="format", description="`perfetto` and `shiviz` are traces")] = Format.HTML,
) -> Response:
    """Return this run, and the run paired with it if that is stored, as one HTML file that contains the page.

    The file opens from disk, without a server or a network. With `from` and `to`, only the events between these times
    are exported. The other formats are Chrome trace JSON, for Perfetto, and a log with vector clocks, for ShiViz.
    """
    runs = await stored_runs(service, id, from_us, to_us)
    about = runs[0].about
    try:
        file = await asyncio.to_thread(file_of, runs, about.id, form)
    except NoPage as reason:
        raise Problem(503, str(reason)) from None
    name = f"zabka-{about.of or about.id}{SUFFIXES[form]}"
    return Response(file, media_type=MEDIA_TYPES[form], headers={"content-disposition": _attachment(name)})


def _attachment(name: str) -> str:
    """Return the Content-Disposition header for a file name. Special characters, which names of uploads can contain,
    are replaced.
    """
    safe = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-._") else "-" for letter in name)
    return f'attachment; filename="{safe}"'
