"""One blocking HTTP/1.1 call on a separate connection, with Python's own client.

`zabka up`, `zabka status` and tests use it. They mostly call servers on this machine, where a new connection takes much
less time than the response. The API, which calls agents continuously, uses `zabka.agent.client`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

_NOT_QUOTED = "/%:?#[]@!$&'()*+,;=~"
"""Characters of a URL that are not percent-encoded: those that RFC 3986 allows, and `%` for existing escapes."""
_SCHEMES = ("http", "https")


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
    method: str,
    url: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    timeout_s: float,
    authority: Path | None = None,
) -> Answer:
    """Send a request and read the whole response; `timeout_s` limits each wait for the server. Raises NoAnswer.

    `authority` is the certificate that verifies an HTTPS server, instead of the system's (or SSL_CERT_FILE).
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise ValueError(
                f"{url!r} is not the address of a server: it must begin with http:// or https:// and a host"
            )
        connection = HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=authority)
            connection = HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)
        target = quote(f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}", safe=_NOT_QUOTED)
        try:
            connection.request(method, target, body or None, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.read())
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as reason:
        raise NoAnswer(repr(reason)) from None
