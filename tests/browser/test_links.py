"""Link faults, created by dragging from node to node and with the form for users without a mouse."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.page_server import PageServer
from tests.browser.test_page import button, region, turn_to


def faults_asked_for(page: Page) -> list[Any]:
    """Record the bodies of the page's requests that create faults."""
    bodies: list[Any] = []
    page.on(
        "request",
        lambda sent: (
            bodies.append((sent.method, sent.url, json.loads(sent.post_data or "null")))
            if sent.url.endswith("/api/v1/faults")
            else None
        ),
    )
    return bodies


def drag(page: Page, one: str, other: str) -> None:
    """Press the mouse button on one node of the ring and release it over another."""
    for name, then in ((one, page.mouse.down), (other, page.mouse.up)):
        role, number = name.split("-")
        box = page.locator(f"svg.ring .spot.{role}").nth(int(number) - 1).locator("circle").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
        then()


def test_link_fault_by_drag_and_by_form_sends_the_same_request(page: Page, server: PageServer) -> None:
    turn_to(page, "Links")
    expect(region(page, "Links")).to_contain_text("no link faults")
    asked = faults_asked_for(page)

    drag(page, "broker-1", "peer-2")
    made = region(page, "Links").get_by_role("list", name="Faults")
    expect(made).to_contain_text("broker-1 ↔ peer-2")
    expect(page.locator("svg.ring path.fault")).to_have_count(1)
    button(page, "Heal broker-1 to peer-2").click()
    expect(page.locator("svg.ring path.fault")).to_have_count(0)

    form = page.get_by_role("form", name="Add fault")
    form.get_by_label("from").select_option("broker-1")
    form.get_by_label("to", exact=True).select_option("peer-2")
    form.get_by_role("button", name="Add fault").press("Enter")
    expect(made).to_contain_text("broker-1 ↔ peer-2")

    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert [(fault.source, fault.target) for fault in server.agent.held] == [("broker-1", "peer-2")]


def test_drag_that_does_not_end_on_another_node_shows_a_note(page: Page, server: PageServer) -> None:
    turn_to(page, "Links")
    expect(page.locator("svg.ring .spot")).to_have_count(6)
    asked = faults_asked_for(page)

    drag(page, "broker-3", "broker-3")

    expect(page.get_by_text("the drag from broker-3 ended on no other node")).to_be_visible()
    assert asked == []
    assert server.agent.held == []
