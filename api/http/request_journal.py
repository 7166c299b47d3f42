"""Journals HTTP requests: each successful request that can change something is an event in the API's own journal."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zabka.journal.admin_requests import admin_requested
from zabka.journal.events import Event

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_PREFIX = "/api/v1"
_REFUSED = 400


class RequestJournal:
    """ASGI middleware that journals `admin_requested` for each successful request that can change something."""

    def __init__(self, app: ASGIApp, emit: Callable[[Event], object]) -> None:
        self._app = app
        self._emit = emit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on. Write an event to the journal if the response reports success."""
        if scope["type"] != "http" or scope["method"] in _SAFE or not scope["path"].startswith(_PREFIX):
            await self._app(scope, receive, send)
            return

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < _REFUSED:
                path = scope["path"].removeprefix(_PREFIX)
                client = scope.get("client")
                self._emit(admin_requested(f"{scope['method']} {path}", [], client[0] if client else ""))
            await send(message)

        await self._app(scope, receive, telling)
