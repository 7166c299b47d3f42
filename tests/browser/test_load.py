"""What the page costs: bytes at its first load, and the main thread's time under load."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, expect

from api.ensemble_view import PartitionZnodes
from journal import events as e
from tests.browser.page_server import PageServer, tell_a_healthy_cluster
from tests.browser.test_page import card, region

KEPT = 20_000
FIRST_LOAD_BYTES_MAX = 300_000
PARTITIONS = 500
LONG_MS_OF_5_S_MAX = 1_000


def bytes_received(network: CDPSession) -> list[int]:
    """What comes over the wire: whatever has ended tells its bytes; the stream, which is not compressed, goes on."""
    stream: list[str] = []
    received: list[int] = []

    def begun(of: dict[str, Any]) -> None:
        if "/events" in of["request"]["url"]:
            stream.append(of["requestId"])

    def told(of: dict[str, Any]) -> None:
        if of["requestId"] in stream:
            received.append(of["dataLength"])

    network.on("Network.requestWillBeSent", begun)
    network.on("Network.dataReceived", told)
    network.on("Network.loadingFinished", lambda of: received.append(of["encodedDataLength"]))
    network.send("Network.enable")
    return received


def test_the_first_load_is_small_beside_20000_kept_events(browser_process: Browser, tmp_path: Path) -> None:
    server = PageServer(tmp_path, served_max=100_000).start()
    try:
        tell_a_healthy_cluster(server)
        server.agent.write("broker-2", *[e.ReplicaProgressed(2, [("orders", 0, 120, i)]) for i in range(KEPT)])
        server.settle(30)
        context = browser_process.new_context()
        page = context.new_page()
        received = bytes_received(context.new_cdp_session(page))
        page.goto(server.url)
        expect(card(page, "Broker 1")).to_be_visible()
        # Long ago, but kept: the list is not empty.
        expect(page.get_by_text("topic orders, 1 partition")).to_be_visible()
        context.close()
    finally:
        server.stop()

    assert 20_000 < sum(received) < FIRST_LOAD_BYTES_MAX


def test_progress_is_fetched_when_it_is_asked_for(page: Page) -> None:
    expect(page.get_by_text("topic orders, 1 partition")).to_be_visible()
    expect(page.get_by_text("replica_progressed")).to_have_count(0)
    region(page, "Events").get_by_label("progress").check()

    expect(page.get_by_text("replica_progressed").first).to_be_visible()


def test_the_main_thread_is_free_beside_500_partitions_under_load(server: PageServer, page: Page) -> None:
    assignment = {number: [1, 2, 3] for number in range(PARTITIONS)}
    server.has_topic("many", {n: PartitionZnodes((1, 2, 3), 1, 0, (1, 2, 3), 3, 0) for n in assignment})
    led = [e.LeaderElected("many", n, 1, 0, r, r, 0, 3, False, "new") for n, r in assignment.items()]
    server.tell("broker-1", e.TopicCreated("many", "id2", assignment), *led)
    expect(page.get_by_role("heading", name="many")).to_be_visible()
    page.evaluate(
        """() => {
          window.long = [];
          new PerformanceObserver((list) => window.long.push(...list.getEntries().map((e) => e.duration)))
            .observe({entryTypes: ["longtask"]});
        }"""
    )
    # Three brokers tell twice a second how far each of their logs has got, 2,000 records in a second.
    end_s = time.monotonic() + 5
    offset = 0
    while time.monotonic() < end_s:
        offset += 2
        for broker in (1, 2, 3):
            rows = [("many", n, offset, offset + 1) for n in assignment]
            server.agent.write(f"broker-{broker}", e.ReplicaProgressed(broker, rows))
        page.wait_for_timeout(500)

    assert page.evaluate("window.long.reduce((sum, ms) => sum + ms, 0)") < LONG_MS_OF_5_S_MAX
