"""Consumer groups on the page: present states come from their coordinators, past states from the journal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.api.test_groups import NO_ANSWER, readers
from tests.browser.page_server import PageServer
from tests.browser.test_moments import go_to
from tests.browser.test_page import button, region, row
from zabka.journal import events as e
from zabka.kafka.client.group_reading import GroupReading, UnknownGroup


def group_changed(state: str, generation: int) -> e.GroupChanged:
    return e.GroupChanged(2, "readers", state, generation, "", ["reader-1-7f3a"])


@pytest.fixture
def page_with_group(server: PageServer, page: Page) -> Iterator[Page]:
    """Yield the page of a cluster with one group, which has one member."""
    server.admin.reading = GroupReading({"readers": readers()})
    server.append_events("broker-2", group_changed("Stable", 4))
    expect(row(page, "Group readers")).to_be_visible()
    yield page


def test_cluster_without_groups_shows_one_line(page: Page) -> None:
    groups = region(page, "Consumer groups")
    expect(groups.locator("p")).to_have_text("There are no consumer groups.")
    expect(groups.get_by_role("table")).to_have_count(0)


def test_group_shows_state_generation_members_and_lag(page_with_group: Page) -> None:
    cells = row(page_with_group, "Group readers").get_by_role("cell")
    expect(cells.nth(0)).to_have_text("Stable")
    expect(cells.nth(1)).to_have_text("4")
    expect(cells.nth(2)).to_have_text("1")
    expect(cells.nth(3)).to_have_text("14")
    expect(cells.nth(4)).to_have_text("broker 2")


def test_opened_group_shows_members_and_lag_per_partition(page_with_group: Page) -> None:
    button(page_with_group, "Show group readers").click()
    members = page_with_group.get_by_role("table", name="Members of readers").get_by_role("row").nth(1)
    for text in ("reader-1", "/127.0.0.1", "orders-0, orders-1"):
        expect(members).to_contain_text(text)
    offsets = page_with_group.get_by_role("table", name="Offsets of readers").get_by_role("row")
    expect(offsets.nth(1).get_by_role("cell")).to_have_text(["106", "120", "14", "reader-1"])
    expect(offsets.nth(2).get_by_role("cell")).to_have_text(["none", "7", "none", "reader-1"])
    button(page_with_group, "Close group readers").click()
    expect(page_with_group.get_by_role("table", name="Members of readers")).to_have_count(0)


def test_group_of_a_silent_coordinator_is_shown_as_unknown(page_with_group: Page, server: PageServer) -> None:
    button(page_with_group, "Show group readers").click()
    expect(page_with_group.get_by_role("table", name="Members of readers")).to_be_visible()
    server.admin.reading = GroupReading(unknown={"readers": UnknownGroup(2, NO_ANSWER)}, silent={2: NO_ANSWER})
    found = row(page_with_group, "Group readers")
    expect(found).to_contain_text(f"unknown {NO_ANSWER}; Stable: last known, ")
    # The generation, the members and the lag are unknown, too.
    expect(found.get_by_text("unknown", exact=True)).to_have_count(4)
    expect(page_with_group.get_by_role("table", name="Members of readers")).to_have_count(0)
    expect(region(page_with_group, "Consumer groups")).to_contain_text("broker 2 did not list all groups")


def test_last_change_of_a_group_links_to_its_event(page_with_group: Page, server: PageServer) -> None:
    server.append_events("broker-2", group_changed("PreparingRebalance", 4), group_changed("Stable", 5))
    at = server.last_seq
    link = page_with_group.get_by_role("link", name="Go to the last change of group readers")
    expect(link).to_have_attribute("href", f"#run=live&at={at}")
    link.click()
    expect(region(page_with_group, "Why")).to_contain_text("group readers: Stable, generation 5")


def test_past_moment_shows_the_groups_of_the_journal(page_with_group: Page, server: PageServer) -> None:
    stable_at = server.last_seq
    server.append_events("broker-2", group_changed("Empty", 5))
    go_to(page_with_group, stable_at)
    page_with_group.evaluate("location.hash += '&tab=table'")
    cells = row(page_with_group, "Group readers").get_by_role("cell")
    expect(cells).to_have_text(["Stable", "4", "1", "broker 2"])
    go_to(page_with_group, stable_at - 1)
    page_with_group.evaluate("location.hash += '&tab=table'")
    expect(region(page_with_group, "Consumer groups")).to_contain_text("no consumer group at this moment")
