"""Streams the journal to the page as server-sent events. Needs the packages of the dashboard extra."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from sse_starlette import EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

from zabka.api.collector import event_models as events
from zabka.api.collector.collector import TooOld
from zabka.api.http.problems import Problem, responses
from zabka.api.routes.journal import After
from zabka.api.services import Service

router = APIRouter(prefix="/api/v1")
ENDED_WITHIN_S = 0.5


class WholeStream(EventSourceResponse):
    """An event stream that ends with the final chunk that HTTP requires when the server stops.

    Without this class, the library would abort the stream, and uvicorn would log an error for each stream.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until the client disconnects or the server stops."""
        last: Message = {"type": ""}

        async def noting(message: Message) -> None:
            nonlocal last
            last = message
            await send(message)

        await super().__call__(scope, receive, noting)
        if last.get("more_body", True) and last["type"]:
            # Limit the time for the final chunk, because a client that does not read must not delay the shutdown.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ENDED_WITHIN_S):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})


_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: `id` is the number, `data` the event",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": "id: 42\ndata: {…}\n\n"}},
    }
}


@router.get(
    "/events",
    tags=["journal"],
    summary="The journal as a stream",
    response_class=EventSourceResponse,
    responses={**responses(410, 422), **_STREAM},
)
async def get_events(
    service: Service,
    after: After = None,
    last_event_id: Annotated[str | None, Header(description="The last event that the client received")] = None,
    snapshot: Annotated[
        bool, Query(description="Start with `event: snapshot`, the folded state, if the stream cannot resume")
    ] = False,
) -> EventSourceResponse:
    """Return every event after an event number, then every new one. `Last-Event-ID` takes precedence over `after`.

    `snapshot` is for dashboards. If a stream cannot resume, it then begins with the folded state instead of old events,
    and the response is never 410. The stream begins with `event: history`, the identifier of the history; a client that
    receives a different identifier than before must start again. Without `snapshot`, the response is 410 if events
    after the number are no longer stored. It is also 410 if the number is above the last event number, which shows that
    the number belongs to another history.
    """
    begin = after or 0
    if last_event_id:
        if not last_event_id.isdecimal() or len(last_event_id) > 18:
            raise Problem(422, f"Last-Event-ID is a number, not {last_event_id!r}")
        begin = int(last_event_id)
    if not snapshot and begin > service.collector.last_seq:
        raise events.of_another_history(service.collector, begin)
    try:
        if not snapshot:
            service.collector.after(begin, 1)
    except TooOld as reason:
        raise events.too_old(reason) from None
    stream = events.stream(service.collector, begin, service.stopping, with_snapshot=snapshot)
    return WholeStream(stream, ping=3600, headers={"cache-control": "no-store"})
