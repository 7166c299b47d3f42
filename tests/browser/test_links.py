"""Creating link faults on the page: by dragging from node to node, or with the form for users without a mouse."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.page_server import PageServer
from tests.browser.test_page import button, region, turn_to


def faults_asked_for(page: Page) -> list[Any]:
    """Record the bodies of the page's requests that create link faults."""
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
    """Drag the mouse from one node of the ring to another."""
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


def test_faults_of_clients_are_drawn_outside_the_ring(page: Page, server: PageServer) -> None:
    turn_to(page, "Links")
    links, ends = page.locator("svg.ring path.fault"), page.locator("svg.ring .client")
    expect(page.locator("svg.ring .spot")).to_have_count(6)
    expect(ends).to_have_count(0)

    form = page.get_by_role("form", name="Add fault")
    for name, node, drawn in (("client:shop-*", "*", 3), ("session:0x1*", "peer-2", 4), ("10.0.0.0/8", "broker-2", 5)):
        form.get_by_label("or a client").fill(name)
        form.get_by_label("to", exact=True).select_option(node)
        form.get_by_role("button", name="Add fault").click()
        expect(links).to_have_count(drawn)

    expect(ends.locator("title")).to_have_text(["client:shop-*", "10.0.0.0/8", "session:0x1*"])
    expect(ends.locator("text.number")).to_have_text(["shop-*", "10.0.0.0/8", "0x1*"])
    tooltips = page.locator("svg.ring g:has(> path.fault) > title")
    expect(tooltips.first).to_have_text("cut from client:shop-* to all nodes, both ways")
    assert all(lies_outside(page, end) for end in range(3))
    asked = faults_asked_for(page)
    drag(page, "broker-1", "peer-2")
    expect(links).to_have_count(6)
    assert [(body["from"], body["to"]) for _, _, body in asked] == [("broker-1", "peer-2")]

    for name, drawn in (("client:shop-* to *", 3), ("session:0x1* to peer-2", 2), ("10.0.0.0/8 to broker-2", 1)):
        button(page, f"Heal {name}").click()
        expect(links).to_have_count(drawn)
    expect(ends).to_have_count(0)


def lies_outside(page: Page, end: int) -> bool:
    """Return whether the circle of a client lies above or below all nodes, but within the diagram."""
    nodes = [page.locator("svg.ring .spot circle").nth(number).bounding_box() for number in range(6)]
    circle = page.locator("svg.ring .client circle").nth(end).bounding_box()
    whole = page.locator("svg.ring").bounding_box()
    assert circle is not None and whole is not None
    tops = [box["y"] for box in nodes if box is not None]
    bottoms = [box["y"] + box["height"] for box in nodes if box is not None]
    bottom = circle["y"] + circle["height"]
    outside = bottom < min(tops) or circle["y"] > max(bottoms)
    return outside and whole["y"] <= circle["y"] and bottom <= whole["y"] + whole["height"]
