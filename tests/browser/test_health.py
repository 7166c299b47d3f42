"""What the page's header says of the cluster's health, and how the page stands while the API does not answer."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from ensemble.runtime.link_fault import HeldFault
from journal import events as e
from tests.browser.page_server import PageServer
from tests.browser.test_page import region, row, turn_to


def health(page: Page) -> Locator:
    return page.get_by_role("group", name="Health")


def test_isolated_leader_and_its_partition_are_named(page: Page, server: PageServer) -> None:
    server.agent.held = [HeldFault("broker-1", "broker-2", "cut", id="f1")]
    server.tell("host-1", e.FaultInjected("f1", "cut", "broker-1", "broker-2", True))

    reason = "its leader, broker 1, is cut off from broker 2 of its ISR"
    expect(health(page)).to_contain_text("Broken")
    expect(health(page)).to_contain_text(f"orders-0 cannot be written with acks=all: {reason}")
    expect(health(page)).to_contain_text("1 fault injected: cut broker 1 \N{LEFT RIGHT ARROW} broker 2")
    partition = row(page, "Partition orders-0")
    expect(partition).to_contain_text(f"cannot be written: {reason}")
    expect(partition.get_by_role("cell").nth(3)).to_contain_text("in the ISR, cut off")
    expect(region(page, "Partitions")).to_contain_text("0 of 1 served and fully in sync")


def test_lagging_member_is_shown_as_the_leader_reports_it(page: Page, server: PageServer) -> None:
    known = {"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 4, "isr": [1, 2], "hw": 120, "leo": 121}
    believes = {"controller_id": 1, "controller_epoch": 3, "age_ms": 100}
    reported = [{**known, "min_isr": 2, "lagging": [2]}]
    server.agent.say("broker-1", 0, is_controller=True, believes=believes, partitions=reported)

    expect(health(page)).to_contain_text("orders-0 cannot be written with acks=all")
    expect(row(page, "Partition orders-0").get_by_role("cell").nth(3)).to_contain_text("in the ISR, lagging")
    turn_to(page, "Lab")
