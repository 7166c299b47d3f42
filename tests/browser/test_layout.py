"""Layout on a screen of ordinary width: the header, the list of an event's causes, and a table with seven brokers."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.page_server import PageServer
from tests.browser.test_page import region, row
from zabka.ensemble.runtime.link_fault import HeldFault
from zabka.journal import events as e

SEVEN = list(range(1, 8))
OVERFLOW = "(box) => box.scrollWidth - box.clientWidth"


def test_row_of_seven_replicas_fits_next_to_the_side_panel(page: Page, server: PageServer) -> None:
    for broker in SEVEN[3:]:
        server.agent.write(f"broker-{broker}", e.NodeStarted("broker", broker, {}))
        server.agent.write("api", e.BrokerRegistered(broker, 24 + broker, broker))
    server.append_events(
        "broker-1",
        e.TopicCreated("payments", "id2", {0: SEVEN}),
        e.LeaderElected("payments", 0, 1, 0, SEVEN, SEVEN, 0, 3, False, "new"),
    )
    # Block this request, because the API would respond with three brokers, while the journal has seven.
    page.route("**/api/v1/cluster", lambda route: route.abort())
    page.reload()

    cells = row(page, "Partition payments-0").locator("td.replica .leo")
    expect(cells).to_have_text(["?"] * 7)
    expect(cells.first).to_have_attribute("title", "log end offset unknown")
    expect(row(page, "Partition payments-0").get_by_role("img").first).to_have_accessible_name(
        "log end offset unknown, high watermark unknown"
    )
    assert region(page, "Partitions").locator(".scroll").evaluate(OVERFLOW) <= 0


def test_page_header_stays_compact_with_six_faults_and_a_moment(page: Page, server: PageServer) -> None:
    slow = [HeldFault(f"peer-{peer}", "broker-2", "delay", id=f"d{peer}", delay_ms=9) for peer in (1, 2, 3)]
    server.agent.held = [*slow, *(HeldFault("broker-2", f"broker-{b}", "cut", id=f"c{b}") for b in (1, 3))]
    for fault in server.agent.held:
        injected = e.FaultInjected(fault.id, fault.kind, fault.source, fault.target, False, fault.delay_ms)
        server.agent.write("host-1", injected)
    server.append_events("broker-2", e.IsrChanged("orders", 0, [1, 2], 1, 4, 7, "lag"))
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(f"{server.url}#at={server.last_seq}&tab=table")

    expect(page.get_by_role("group", name="Health")).to_contain_text(
        "5 faults injected: delay peer 1 \N{RIGHTWARDS ARROW} broker 2; "
        "delay peer 2 \N{RIGHTWARDS ARROW} broker 2; delay peer 3 \N{RIGHTWARDS ARROW} broker 2; 2 more"
    )
    box = page.get_by_role("banner").bounding_box()
    assert box is not None
    assert box["height"] <= 100
    page.evaluate("scrollTo(0, 300)")
    page.wait_for_function("() => scrollY > 0")
    tabs = page.get_by_role("navigation", name="Views").bounding_box()
    assert tabs is not None
    assert tabs["y"] >= box["height"] - 1


def test_controller_gap_box_is_as_wide_as_its_reason_text(page: Page, server: PageServer) -> None:
    server.agent.write("host-1", e.ProcessChanged("broker-1", "down", None, "kill"))
    server.agent.write("broker-2", e.ControllerElected(2, 4, 4), e.ControllerReady(2, 4, 3, 1))
    server.settle()
    elected = next(entry.seq for entry in reversed(server.numbered()) if isinstance(entry.event, e.ControllerElected))
    page.goto(f"{server.url}#at={elected}&tab=table")

    gap = region(page, "Why").get_by_text("No controller for")
    expect(gap).to_contain_text("election")
    rule = region(page, "Why").locator(".effect .rule").bounding_box()
    box = gap.bounding_box()
    assert rule is not None
    assert box is not None
    assert abs(box["width"] - rule["width"]) < 20
