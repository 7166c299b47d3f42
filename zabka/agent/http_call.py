"""One call over HTTP/1.1 that blocks until it is answered, on a connection of its own: Python's own client.

For `zabka up`, `zabka status` and tests, which ask servers that are mostly on this machine, where a connection costs a
fraction of the answer.  The API, which asks agents for ever, has `zabka.agent.client`.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import quote, urlsplit

_NOT_QUOTED = "/%:?#[]@!$&'()*+,;=~"
"""What RFC 3986 lets stand in a path and query, and escapes that are there already."""
_SCHEMES = {"http": HTTPConnection, "https": HTTPSConnection}


class NoAnswer(Exception):
    """Nobody answered, or not in HTTP, or the address is none; the text says why."""


class Answer(NamedTuple):
    """An HTTP answer: its status and its body."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether it is no error, and no other address."""
        return 200 <= self.status < 300


def call(
    method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *, timeout_s: float
) -> Answer:
    """Ask, and read the whole answer; `timeout_s` bounds each wait for the other side.  Raises NoAnswer."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a server: it begins with http:// or https:// and a host")
        connection = _SCHEMES[parts.scheme](parts.hostname, parts.port, timeout=timeout_s)
        target = quote(f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}", safe=_NOT_QUOTED)
        try:
            connection.request(method, target, body or None, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.read())
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as reason:
        raise NoAnswer(repr(reason)) from None
