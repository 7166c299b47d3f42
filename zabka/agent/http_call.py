"""One blocking HTTP/1.1 call on a separate connection, with Python's own client.

`zabka up`, `zabka status` and tests use it. They mostly call servers on this machine, where a new connection takes much
less time than the response. The API, which calls agents continuously, uses `zabka.agent.client`.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import quote, urlsplit

_NOT_QUOTED = "/%:?#[]@!$&'()*+,;=~"
"""Characters of a URL that are not percent-encoded: those that RFC 3986 allows, and `%` for existing escapes."""
_SCHEMES = {"http": HTTPConnection, "https": HTTPSConnection}


class NoAnswer(Exception):
    """No response arrived, or an invalid one, or the URL is invalid. The message gives the reason."""


class Answer(NamedTuple):
    """An HTTP response: its status code and its body."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the response is neither an error nor a redirect."""
        return 200 <= self.status < 300


def call(
    method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *, timeout_s: float
) -> Answer:
    """Send a request and read the whole response; `timeout_s` limits each wait for the server. Raises NoAnswer."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise ValueError(
                f"{url!r} is not the address of a server: it must begin with http:// or https:// and a host"
            )
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
