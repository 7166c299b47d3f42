"""The page with real processes: a click kills the controller, and the page shows which broker replaces it."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.chromium import Watched
from tests.browser.test_page import button, card, region, row, turn_to
from zabka.testing.live.cluster import LiveCluster

FAILOVER_MS = 60_000


def test_controller_killed_from_the_page_is_replaced(zabka_cluster: LiveCluster, watched: Watched) -> None:
    zabka_cluster.topics.create("orders", partitions=3)
    before = zabka_cluster.until(lambda: zabka_cluster.controller)
    epoch = zabka_cluster.controller_epoch
    page = watched.page
    page.goto(f"{zabka_cluster.url}#tab=table")
    expect(card(page, f"Broker {before.id}").get_by_text("controller", exact=True)).to_be_visible()
    expect(row(page, "Partition orders-0")).to_be_visible()
    turn_to(page, "Lab")
    form = page.get_by_role("form", name="Start a producer")
    form.get_by_role("button", name="Start producer").click()
    expect(region(page, "Producers").get_by_role("row").nth(1)).to_contain_text("running")
    turn_to(page, "Table")

    button(page, f"Kill broker {before.id}").click()

    expect(card(page, f"Broker {before.id}")).to_contain_text("down")
    expect(page.get_by_label(f"controller epoch {epoch + 1}")).to_be_visible(timeout=FAILOVER_MS)
    controller_terms = page.get_by_role("list", name="Controller terms, newest first").get_by_role("listitem")
    expect(controller_terms.nth(1)).to_contain_text(f"{before.id}@{epoch}")
    for partition in range(3):
        expect(row(page, f"Partition orders-{partition}").get_by_role("cell").nth(1)).to_contain_text(str(before.id))
    for broker in zabka_cluster.brokers.values():
        if broker is not before:
            expect(row(page, f"Belief of broker {broker.id}")).to_contain_text("agrees")

    button(page, f"Start broker {before.id}").click()

    expect(card(page, f"Broker {before.id}")).to_contain_text("registeredyes", timeout=FAILOVER_MS)
    expect(page.get_by_role("group", name="Health")).to_contain_text("Healthy", timeout=FAILOVER_MS)
    expect(row(page, f"Belief of broker {before.id}")).to_contain_text("agrees")
    assert watched.complaints == []
