"""A topic of 500 partitions on the page: smaller topics stay visible, and its deletion is not shown as an outage."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import wait_until
from tests.browser.page_server import PageServer
from tests.browser.test_page import button, region, row
from zabka.api.views.ensemble_view import PartitionZnodes
from zabka.journal import events as e

MANY = 500
BROKERS = (1, 2, 3)


def replicas_of(partition: int) -> list[int]:
    """Return a partition's replicas. The first replicas of consecutive partitions are on consecutive brokers."""
    return [BROKERS[(partition + i) % 3] for i in range(3)]


@pytest.fixture
def crowded(server: PageServer) -> PageServer:
    """Add a topic `archive` of 500 partitions, which is listed before `orders`."""
    assignment = {number: replicas_of(number) for number in range(MANY)}
    server.has_topic("archive", {n: PartitionZnodes(tuple(r), r[0], 0, tuple(r), 3, 0) for n, r in assignment.items()})
    led = [e.LeaderElected("archive", n, r[0], 0, r, r, 0, 3, False, "new") for n, r in assignment.items()]
    server.append_events("broker-1", e.TopicCreated("archive", "id2", assignment), *led)
    return server


def test_small_topic_stays_visible_next_to_500_partitions(crowded: PageServer, page: Page) -> None:
    expect(row(page, "Partition orders-0")).to_be_visible()
    expect(button(page, "Expand partitions of archive")).to_have_attribute("aria-expanded", "false")
    expect(region(page, "Partitions").get_by_role("row")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollHeight") < 4_000


def test_expanded_topic_is_paginated(crowded: PageServer, page: Page) -> None:
    button(page, "Expand partitions of archive").click()
    expect(row(page, "Partition archive-24")).to_be_visible()
    expect(row(page, "Partition archive-25")).to_have_count(0)
    expect(region(page, "Partitions")).to_contain_text("1\N{EN DASH}25 of 500")

    button(page, "Next partitions of archive").click()
    expect(row(page, "Partition archive-25")).to_be_visible()
    button(page, "Last partitions of archive").click()
    expect(row(page, "Partition archive-499")).to_be_visible()
    expect(button(page, "Next partitions of archive")).to_be_disabled()
    expect(row(page, "Partition orders-0")).to_be_visible()


def test_filter_finds_topics_and_single_partitions(crowded: PageServer, page: Page) -> None:
    search = page.get_by_role("searchbox", name="Filter topics and partitions")
    search.fill("ORD")
    expect(page.get_by_role("heading", name="archive")).to_have_count(0)
    expect(row(page, "Partition orders-0")).to_be_visible()
    search.fill("archive-311")
    expect(row(page, "Partition archive-311")).to_be_visible()
    expect(page.get_by_role("heading", name="orders")).to_have_count(0)
    search.fill("nothing")
    expect(region(page, "Partitions")).to_contain_text("The filter matches none of 2 topics.")


def test_problem_filter_shows_only_partitions_with_a_problem(crowded: PageServer, page: Page) -> None:
    crowded.append_events("broker-1", e.IsrChanged("archive", 77, [3, 1], 3, 0, 1, "lag"))
    expect(region(page, "Partitions")).to_contain_text("1 under-replicated")
    region(page, "Partitions").get_by_label("with problems only").check()

    expect(row(page, "Partition archive-77")).to_be_visible()
    expect(row(page, "Partition orders-0")).to_be_visible()
    expect(page.get_by_role("row", name="Partition archive-")).to_have_count(1)


def test_topic_whose_deletion_was_requested_is_not_offline(crowded: PageServer, page: Page) -> None:
    # The page must follow the stream, because the state that it loads first does not contain requests.
    follows = "async (seq) => (await import('/web/main.js')).theMoment().current().seq === seq"
    wait_until(page, follows, crowded.last_seq)
    health = page.get_by_role("group", name="Health")
    page.evaluate(
        """() => {
          const health = document.querySelector(".health");
          window.shown = [];
          new MutationObserver(() => window.shown.push(health.textContent))
            .observe(health, {subtree: true, childList: true, characterData: true});
        }"""
    )
    offline = [e.IsrChanged("archive", n, [], -1, 1, 1, "deletion") for n in range(MANY)]
    crowded.append_events("broker-1", e.AdminRequested("DeleteTopics", ["archive"], "10.0.0.1"), *offline)
    expect(health).to_contain_text("1 topic being deleted")
    del crowded.ensemble.reading.topics["archive"]
    crowded.append_events("broker-1", e.TopicDeleted("archive"))

    expect(page.get_by_role("heading", name="archive")).to_have_count(0)
    expect(health).not_to_contain_text("being deleted")
    shown = page.evaluate("window.shown.join('\\n')")
    assert "being deleted" in shown
    assert "offline" not in shown
