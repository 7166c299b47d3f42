"""Accessibility of the page: screen readers, keyboard, narrow screens and contrast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import wait_until
from tests.browser.page_server import PageServer
from tests.browser.test_page import act, button, card, row, turn_to
from zabka.journal import events as e

CONTRAST_MIN = 4.5
"""Minimum contrast ratio for text of normal size (WCAG 2.1, success criterion 1.4.3)."""

CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a));
  const ground = (element) => {
    if (!element) return [255, 255, 255];
    return over(rgba(getComputedStyle(element).backgroundColor), ground(element.parentElement));
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const read = ["#peers *", "#brokers *", "#beliefs *", "#controller_terms .history *", ".top *"];
  for (const element of document.querySelectorAll(read.join())) {
    const texts = [...element.childNodes].filter((n) => n.nodeType === 3 && n.textContent.trim());
    if (!texts.length || element.closest("svg, button:disabled, [aria-disabled=true]")) continue;
    const below = ground(element);
    let opacity = 1;
    for (let e = element; e; e = e.parentElement) opacity *= Number(getComputedStyle(e).opacity);
    const [r, g, b, a] = rgba(getComputedStyle(element).color);
    const [x, y] = [light(over([r, g, b, a * opacity], below)), light(below)];
    found.push({text: element.textContent.trim(), ratio: (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05)});
  }
  return found;
}"""


def test_focus_stays_on_the_node_after_the_node_is_killed(page: Page) -> None:
    button(page, "Kill broker 2").focus()
    page.keyboard.press("Enter")
    expect(card(page, "Broker 2").locator(".process")).to_contain_text("down")
    expect(button(page, "Start broker 2")).to_be_enabled()

    expect(button(page, "Kill broker 2")).to_be_focused()
    expect(button(page, "Kill broker 2")).to_be_disabled()
    for _ in range(5):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.ariaLabel") == "Start broker 2":
            break
    page.keyboard.press("Enter")
    expect(card(page, "Broker 2").locator(".process")).to_contain_text("running")


def test_focus_stays_in_the_panel_after_a_topic_deletion(page: Page) -> None:
    button(page, "Delete orders").focus()
    page.keyboard.press("Enter")
    expect(button(page, "Really delete orders")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="orders")).to_have_count(0)
    assert page.evaluate("document.activeElement.id") == "partitions"


def test_status_message_of_a_failover_includes_its_result(page: Page, server: PageServer) -> None:
    expect(row(page, "Partition orders-0")).to_be_visible()
    server.is_controller(3, 4)
    server.append_events(
        "broker-3",
        e.ControllerElected(3, 4, 4),
        e.LeaderElected("orders", 0, -1, 5, [2], [1, 2, 3], 7, 4, False, "offline"),
        e.LeaderElected("orders", 0, 2, 6, [2], [1, 2, 3], 8, 4, False, "offline"),
    )

    expect(page.get_by_role("status")).to_have_text(
        "Broker 3 is controller, epoch 4. New leaders for 1 partition; no partition is offline."
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_stopped_nodes_is_readable(browser_process: Browser, server: PageServer, scheme: Any) -> None:
    context = browser_process.new_context(reduced_motion="reduce", color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{server.url}#tab=table")
    for node in ("broker 1", "broker 2", "peer 3"):
        button(page, f"Kill {node}").click()
        expect(card(page, node.capitalize()).locator(".process")).to_contain_text("down")
    act(page, "Pause", "broker 3")
    expect(card(page, "Broker 3").locator(".process")).to_contain_text("paused")
    page.mouse.move(0, 0)
    found = page.evaluate(CONTRASTS)
    context.close()

    assert len(found) > 60
    assert [(f["text"], round(f["ratio"], 2)) for f in found if f["ratio"] < CONTRAST_MIN] == []


GROUND = """() => {
  const canvas = document.querySelector(".tracks-view canvas");
  const [r, g, b] = canvas.getContext("2d").getImageData(4, canvas.height - 4, 1, 1).data;
  const place = document.body.appendChild(document.createElement("div"));
  place.style.background = "Canvas";
  const system = getComputedStyle(place).backgroundColor;
  place.remove();
  return [`rgb(${r}, ${g}, ${b})`, system];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colours_mode_uses_the_system_background(
    browser_process: Browser, server: PageServer, scheme: Any
) -> None:
    context = browser_process.new_context(forced_colors="active", color_scheme=scheme)
    page = context.new_page()
    page.goto(server.url)
    expect(card(page, "Broker 1")).to_be_visible()
    wait_until(page, "async () => (await import('/web/tracks/tab.js')).theStage()?.draws > 0")
    drawn, system = page.evaluate(GROUND)
    context.close()
    assert drawn == system


def test_whole_page_fits_the_width_of_a_phone(page: Page, server: PageServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for node in ("broker 1", "peer 2"):
        button(page, f"Kill {node}").click()
    button(page, "Create topic").click()
    button(page, "Configure orders").click()
    long_name = "a-topic-with-quite-a-long-name." * 3
    server.append_events("broker-1", e.RecordsLost(1, long_name, 0, 90, 120, 31, 30, "diverging_epoch"))
    expect(page.get_by_role("region", name="Records removed from a replica")).to_contain_text(long_name)
    expect(page.get_by_role("form", name="Configure orders")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    turn_to(page, "Lab")
    button(page, "Play kafka-708").click()
    expect(page.get_by_role("region", name="Run of kafka-708")).to_contain_text("passed")
    expect(page.get_by_role("group", name="Health")).to_contain_text("broker 1")

    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_belief_table_of_seven_brokers_fits_the_first_screen(browser_process: Browser, tmp_path: Path) -> None:
    server = PageServer(tmp_path).start()
    try:
        for peer in range(1, 6):
            server.agent.write(f"peer-{peer}", e.NodeStarted("peer", peer, {}))
        for broker in range(1, 8):
            server.agent.write(f"broker-{broker}", e.NodeStarted("broker", broker, {}))
            server.agent.write("api", e.BrokerRegistered(broker, 24 + broker, broker))
        server.settle()
        context = browser_process.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        # Block this request, because the API would respond with three peers and brokers, while the journal has five and
        # seven.
        page.route("**/api/v1/cluster", lambda route: route.abort())
        page.goto(f"{server.url}#tab=table")
        last = row(page, "Belief of broker 7")
        expect(last).to_be_visible()
        box = last.bounding_box()
        context.close()
        assert box is not None
        assert box["y"] + box["height"] <= 900
    finally:
        server.stop()
