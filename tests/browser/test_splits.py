"""A split of the network from the Links tab, and the tooltips of words in headings."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.page_server import PageServer
from tests.browser.test_page import button, region, turn_to


def test_split_cuts_all_links_between_the_two_sides(page: Page, server: PageServer) -> None:
    turn_to(page, "Links")
    split = page.get_by_role("group", name="Split the network")
    expect(button(page, "Split the network")).to_be_disabled()
    split.get_by_label("broker-3").check()
    split.get_by_label("peer-3").check()
    expect(split.get_by_role("status")).to_have_text("{broker-3, peer-3} | {broker-1, broker-2, peer-1, peer-2}")
    button(page, "Split the network").click()
    expect(page.get_by_role("list", name="Faults").get_by_role("listitem")).to_have_count(8)
    found = {frozenset((fault.source, fault.target)) for fault in server.agent.held}
    assert found == {
        frozenset((one, other))
        for one in ("broker-3", "peer-3")
        for other in ("broker-1", "broker-2", "peer-1", "peer-2")
    }
    assert all(fault.both_ways and fault.kind == "cut" for fault in server.agent.held)
    button(page, "Heal all").click()
    expect(region(page, "Links")).to_contain_text("no link faults")


@pytest.mark.parametrize(
    "sides",
    [
        [["broker-1"]],
        [["broker-1"], []],
        [["broker-1"], ["broker-1", "broker-2"]],
        [["broker-1"], ["broker-9"]],
        [["broker-1"], [f"peer-{i}" for i in range(100)]],
    ],
)
def test_impossible_split_is_rejected_and_cuts_nothing(server: PageServer, sides: list[list[str]]) -> None:
    answer = httpx.post(f"{server.url}/api/v1/faults/split", json={"sides": sides}, trust_env=False)
    assert answer.status_code == 422
    assert server.agent.held == []


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("Controller", "the broker that holds the znode /controller"),
        ("epoch", "a number that rises"),
        ("ZAB", "the protocol by which"),
        ("ISR", "in-sync replicas"),
        ("session", "the connection of a broker"),
    ],
)
def test_word_of_a_heading_has_its_meaning(page: Page, word: str, meaning: str) -> None:
    found = page.locator(".stage abbr.term", has_text=word).first
    expect(found).to_have_attribute("title", re.compile(f"^{meaning}"))
