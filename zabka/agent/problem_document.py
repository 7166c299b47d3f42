"""RFC 9457 problem documents as plain data: the error responses of all servers in this project."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

MEDIA_TYPE = "application/problem+json"


def document(status: int, detail: str, path: str, title: str | None = None, **extra: Any) -> dict[str, Any]:
    """Return a problem document as a dict. `extra` contains extension members."""
    phrase = title or HTTPStatus(status).phrase
    return {"type": "about:blank", "title": phrase, "status": status, "detail": detail, "instance": path, **extra}
