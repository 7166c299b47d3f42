"""Access checks: the Host and Origin headers and the bearer token. Also sets the security headers of responses.

On loopback, the browser of every local user can access the service, and so can any web page in that browser. The check
of the Host header prevents DNS rebinding, and the check of the Origin header prevents cross-site requests. If the
service listens on other addresses, requests that change something, or read records or ACLs, also need the token.
"""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zabka.agent.problem_document import MEDIA_TYPE, document

_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_HOST = re.compile(r"^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?$")
_GUARDED = re.compile(
    r"/api/v1/(topics/[^/]+/[^/]+/records|acls|znodes/+(config/+(users|brokers)|kafka-acl[^/]*)(/.*)?)"
)
"""Paths of records, ACLs, and znodes with ACLs, users' credentials or stored passwords.

They need the token although they change nothing.
"""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""Control characters. The router ignores a newline at the end of a path, so paths with them are rejected."""
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Gate:
    """ASGI middleware that rejects forbidden requests and adds the security headers to every response.

    `hosts` are additional accepted values of the Host header, "*" for any. With `addresses`, every IP address is also
    accepted, because DNS rebinding needs a name. If `token` is None, no token is required.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str], token: str | None, policy: str, addresses: bool = False
    ) -> None:
        self._app = app
        self._hosts = frozenset(h.lower() for h in (*hosts, *_LOOPBACK_NAMES))
        self._token = token
        self._addresses = addresses
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"x-frame-options", b"DENY"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, then pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", [])
                present = {name.lower() for name, _ in own}
                # A response can set some of these headers itself, either to stricter values or to allow a page to
                # display the response in a frame.
                message["headers"] = [*own, *(header for header in self._headers if header[0] not in present)]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
            return
        status, detail = refusal
        body = json.dumps(document(status, detail, scope["path"])).encode()
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send_with_headers({"type": "http.response.start", "status": status, "headers": headers})
        await send_with_headers({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {k: v.decode("latin-1") for k, v in scope["headers"]}
        host = headers.get(b"host", "")
        if not self._known(host):
            return 400, f"the host name is not allowed: {host!r}"
        if _CONTROL.search(scope["path"]):
            return 400, "the path contains a control character"
        if scope["method"] in _SAFE and not _GUARDED.fullmatch(scope["path"]):
            return None
        origin = headers.get(b"origin")
        if origin is not None and _authority(origin) != host.lower():
            return 403, f"a page of {origin} is not allowed to change this cluster"
        if origin is None and headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "another site's page is not allowed to change this cluster"
        if self._token is not None:
            given = headers.get(b"authorization", "")
            if not secrets.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
                return 401, "calls that change something, or read records or ACLs, need `Authorization: Bearer <token>`"
        return None

    def _known(self, host: str) -> bool:
        match = _HOST.match(host)
        if match is None:
            return False
        name = match.group(1).lower()
        return "*" in self._hosts or name in self._hosts or (self._addresses and _is_address(name))


def _authority(origin: str) -> str:
    """Return the host and port of an Origin header, or an empty string if the header is not a valid origin."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
