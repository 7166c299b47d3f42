"""Access control: Host, Origin and token checks, and the security headers of every response."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from zabka.agent.loopback import loopback, names_of
from zabka.api.http import page
from zabka.api.http.security import Gate


async def _app(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"through"})


def call(gate: Gate, method: str = "GET", path: str = "/x", **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    raw = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": raw}
    asyncio.run(gate(scope, receive, send))
    answered = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return sent[0]["status"], answered, sent[1]["body"]


OPEN = Gate(_app, hosts=[], token=None, policy="default-src 'self'")
LOCKED = Gate(_app, hosts=["lab.example"], token="secret", policy="default-src 'self'")


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "LOCALHOST"])
def test_requests_to_loopback_names_are_accepted(host: str) -> None:
    assert call(OPEN, host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "", "localhost.evil.example", "127.0.0.1:x"])
def test_unknown_host_names_are_rejected_to_stop_dns_rebinding(host: str) -> None:
    status, headers, body = call(OPEN, host=host)

    assert status == 400
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["status"] == 400


@pytest.mark.parametrize("path", ["/api/v1/topics/orders/0/records\n", "/x\0", "/x\x7fy"])
def test_path_with_a_control_character_is_rejected(path: str) -> None:
    """The router also matches a path that ends with a newline, so the gate would not recognise its route."""
    assert call(LOCKED, path=path, host="localhost", authorization="Bearer secret")[0] == 400


def test_request_to_an_allowed_host_name_is_accepted() -> None:
    assert call(LOCKED, host="lab.example:8080")[0] == 200


def test_wildcard_bind_accepts_ip_host_headers_but_not_names() -> None:
    wide = Gate(_app, hosts=[], token="secret", policy="x", addresses=True)

    assert call(wide, host="192.0.2.7:8080")[0] == 200
    assert call(wide, host="[2001:db8::1]:8080")[0] == 200
    assert call(wide, host="evil.example:8080")[0] == 400


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999", "http://[::1"])
def test_request_from_a_page_of_another_origin_is_rejected(origin: str) -> None:
    assert call(OPEN, "POST", host="localhost:8080", origin=origin)[0] == 403


def test_same_origin_page_and_tools_can_change_the_cluster() -> None:
    assert call(OPEN, "POST", host="localhost:8080", origin="http://localhost:8080")[0] == 200
    assert call(OPEN, "POST", host="localhost:8080")[0] == 200
    assert call(OPEN, "POST", host="localhost:8080", sec_fetch_site="cross-site")[0] == 403


def test_configured_token_is_required_only_for_change_requests() -> None:
    assert call(LOCKED, host="localhost")[0] == 200
    status, headers, _ = call(LOCKED, "POST", host="localhost")
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert call(LOCKED, "DELETE", host="localhost", authorization="Bearer wrong")[0] == 401
    assert call(LOCKED, "PATCH", host="localhost", authorization="Bearer secret")[0] == 200


def test_every_response_has_the_content_security_policy() -> None:
    for headers in (call(OPEN, host="localhost")[1], call(OPEN, host="evil")[1]):
        assert headers["content-security-policy"] == "default-src 'self'"
        assert headers["x-content-type-options"] == "nosniff"


def test_import_map_is_allowed_only_by_its_hash() -> None:
    found = page.policy('<script type="importmap">{"imports":{}}</script>')

    assert "script-src 'self' 'sha256-" in found
    assert "unsafe" not in found
    assert "sha256" not in page.policy("<html></html>")


def test_loopback_addresses_are_recognised() -> None:
    assert loopback("127.0.0.1")
    assert loopback("localhost")
    assert not loopback("0.0.0.0")
    assert not loopback("192.0.2.7")


def test_name_starting_like_a_loopback_address_is_not_loopback() -> None:
    """A host name such as 127.example.com is not a loopback address.

    Otherwise any web page could use such a name to change the cluster without a token.
    """
    assert loopback("127.8.9.10")
    assert not loopback("127.example.com")


@pytest.mark.parametrize(
    ("bind", "host"), [("127.0.0.2", "127.0.0.2:8080"), ("::1", "[::1]:8080"), ("192.0.2.7", "192.0.2.7")]
)
def test_server_accepts_its_listening_address_as_host_name(bind: str, host: str) -> None:
    """The API accepts its listening address in the Host header.

    Before the fix, `zabka up --host 127.0.0.2` never became ready, because the API rejected its own address.
    """
    gate = Gate(_app, hosts=names_of(bind), token=None, policy="x")

    assert call(gate, host=host)[0] == 200
    assert call(gate, host="evil.example")[0] == 400
