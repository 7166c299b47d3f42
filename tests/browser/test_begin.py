"""The first page of a cluster without topics, and the search in the outage library."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.chromium import Watched
from tests.browser.page_server import PageServer
from tests.browser.test_page import button, region
from zabka.journal import events as e


def test_empty_cluster_page_offers_topic_lesson_and_scenario(watched: Watched, tmp_path: Path) -> None:
    server = PageServer(tmp_path).start()
    try:
        server.ensemble.reading = server.ensemble.reading._replace(topics={})
        for broker in (1, 2, 3):
            server.agent.write(f"broker-{broker}", e.BrokerRegistered(broker, 24 + broker, 7 + broker))
        page = watched.page
        page.goto(server.url)
        first = page.get_by_role("region", name="This cluster has no topics yet")
        expect(first).to_contain_text("in-sync replicas")
        expect(first.get_by_role("link", name="Start lesson 1")).to_have_attribute(
            "href", "#tab=lessons&lesson=controller-killed"
        )
        first.get_by_role("link", name="Open a scenario").click()
        expect(region(page, "Outage library")).to_be_visible()
        page.get_by_role("link", name="Tracks").click()
        with page.expect_request(lambda request: request.url.endswith("/api/v1/workloads")) as started:
            first.get_by_role("button", name="Create a topic with a producer").click()
        assert started.value.post_data_json == {"topic": "orders", "acks": "all", "records_per_s": 50}
        expect(first).to_have_count(0)
        assert watched.leave() == []
    finally:
        server.stop()


def test_cluster_with_topics_does_not_show_the_first_screen(page: Page) -> None:
    page.evaluate("location.hash = '#tab=tracks'")
    expect(region(page, "Tracks")).to_be_visible()
    expect(page.get_by_text("This cluster has no topics yet")).to_have_count(0)


def test_library_search_finds_scenarios_by_words_and_type(page: Page) -> None:
    page.evaluate("location.hash = '#tab=lab'")
    library = region(page, "Outage library")
    rows = library.locator("tbody tr")
    expect(rows.first).to_be_visible()
    whole = rows.count()
    name = rows.first.locator(".name").inner_text()
    library.get_by_role("searchbox").fill(name.upper())
    expect(rows).to_have_count(1)
    expect(library.get_by_role("status")).to_contain_text(f"1 of {whole}")
    library.get_by_role("searchbox").fill("nothing has this")
    expect(rows).to_have_count(0)
    library.get_by_role("searchbox").fill("")
    button(page, "Show the library").wait_for(state="detached")
    expect(rows).to_have_count(whole)
