"""The panel of listeners and permissions: certificates, the token, and ACLs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.api.test_listeners_and_acls import AUTHORIZER, BINDING, LISTENER
from tests.browser.chromium import Watched
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_page import button, region, row

DAY_MS = 86_400_000
PANEL = "Listeners and permissions"


def listener(days: float, **more: Any) -> dict[str, Any]:
    end_ms = int(time.time() * 1000 + days * DAY_MS)
    return {**LISTENER, "certificate": {"subject": "CN=broker", "not_before_ms": 0, "not_after_ms": end_ms}, **more}


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[PageServer]:
    server = PageServer(tmp_path, token="sesame").start()
    write_healthy_cluster(server)
    server.admin.bindings = [BINDING]
    plain = {**LISTENER, "name": "INTERNAL", "protocol": "PLAINTEXT", "mechanisms": [], "inter_broker": True,
             "client_auth": None, "certificate": None}  # fmt: skip
    for number, days in ((1, 300), (2, 10.5), (3, -1)):
        server.agent.set_status(
            f"broker-{number}", 10, listeners=[plain, listener(days)], authorizer=AUTHORIZER if number < 3 else None
        )
    yield server
    server.stop()


@pytest.fixture
def page_of_secured(watched: Watched, secured: PageServer) -> Iterator[Page]:
    watched.page.goto(f"{secured.url}#tab=table")
    expect(row(watched.page, "Listener CLIENTS of broker 1")).to_be_visible()
    yield watched.page


def test_listeners_show_protocols_and_expiring_certificates(page_of_secured: Page) -> None:
    page = page_of_secured
    expect(region(page, PANEL)).to_contain_text("6 listeners, 3 without encryption and authentication")
    expect(row(page, "Listener INTERNAL of broker 1")).to_contain_text("between brokers")
    expect(row(page, "Listener CLIENTS of broker 1")).to_contain_text("SASL_SSL")
    expect(row(page, "Listener CLIENTS of broker 1").get_by_role("cell").nth(5)).to_contain_text("CN=broker expires")
    expect(row(page, "Listener CLIENTS of broker 2")).to_contain_text("in 10 days")
    expect(row(page, "Listener CLIENTS of broker 3")).to_contain_text("expired")


def test_acls_appear_after_the_token_is_given(page_of_secured: Page) -> None:
    page = page_of_secured
    button(page, "Show ACLs").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="The API requires a token")
    dialog.get_by_label("token").fill("sesame")
    page.keyboard.press("Enter")
    acls = page.get_by_role("table", name="ACLs").get_by_role("row")
    expect(acls.nth(1).get_by_role("cell")).to_have_text(["Deny", "Describe", "TransactionalId pay-", "prefixed", "*"])
    panel = region(page, PANEL)
    expect(panel.get_by_role("status")).to_contain_text("Authorizer AclAuthorizer, super users User:admin")
    expect(panel).to_contain_text("broker 3 has no authorizer and allows everything")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    button(page, "Close the ACLs").click()
    expect(page.get_by_role("table", name="ACLs")).to_have_count(0)
    expect(region(page, PANEL)).to_be_focused()
