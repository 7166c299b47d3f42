"""The health status in the page header, and how the page looks while the API does not respond."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.chromium import Watched
from tests.browser.page_server import PageServer
from tests.browser.test_page import button, card, region, row, turn_to
from zabka.ensemble.runtime.link_fault import HeldFault
from zabka.journal import events as e


def health(page: Page) -> Locator:
    return page.get_by_role("group", name="Health")


def test_isolated_leader_and_its_network_partition_are_shown(page: Page, server: PageServer) -> None:
    server.agent.held = [HeldFault("broker-1", "broker-2", "cut", id="f1")]
    server.append_events("host-1", e.FaultInjected("f1", "cut", "broker-1", "broker-2", True))

    reason = "its leader, broker 1, is cut off from broker 2 in its ISR"
    expect(health(page)).to_contain_text("Broken")
    expect(health(page)).to_contain_text(f"orders-0 cannot be written with acks=all: {reason}")
    expect(health(page)).to_contain_text("1 fault injected: cut broker 1 \N{LEFT RIGHT ARROW} broker 2")
    partition = row(page, "Partition orders-0")
    expect(partition).to_contain_text(f"not writable: {reason}")
    expect(partition.get_by_role("cell").nth(3)).to_contain_text("in the ISR, cut off")
    expect(region(page, "Partitions")).to_contain_text("0 of 1 available and fully in sync")


def test_lagging_isr_member_is_shown_as_lagging(page: Page, server: PageServer) -> None:
    known = {"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 4, "isr": [1, 2], "hw": 120, "leo": 121}
    believes = {"controller_id": 1, "controller_epoch": 3, "age_ms": 100}
    reported = [{**known, "min_isr": 2, "lagging": [2]}]
    server.agent.set_status("broker-1", 0, is_controller=True, believes=believes, partitions=reported)

    expect(health(page)).to_contain_text("orders-0 cannot be written with acks=all")
    expect(row(page, "Partition orders-0").get_by_role("cell").nth(3)).to_contain_text("in the ISR, lagging")


def test_unreachable_api_is_unhealthy_and_disables_all_actions(watched: Watched, server: PageServer) -> None:
    page = watched.page
    page.goto(f"{server.url}#tab=lab")
    expect(button(page, "Start producer")).to_be_enabled()
    turn_to(page, "Table")
    expect(button(page, "Kill broker 2")).to_be_enabled()
    # The tab's files are loaded once this button is there. (The panel at the side has a Kill button as well.)
    expect(button(page, "Elect the preferred leaders of orders")).to_be_enabled()

    server.stop()
    # The connection is refused, so the page knows immediately that the API is down. It need not wait for a timeout.
    expect(health(page)).to_contain_text("Unknown", timeout=4_000)
    expect(health(page)).not_to_contain_text("Healthy")
    expect(button(page, "Kill broker 2")).to_be_disabled()
    expect(button(page, "Elect the preferred leaders of orders")).to_be_disabled()
    expect(page.get_by_role("navigation", name="Views")).to_contain_text("ZAB leader peer 2 · epoch 1 last known, ")
    expect(region(page, "ZAB ensemble")).to_contain_text("last known, ")
    turn_to(page, "Lab")
    expect(button(page, "Start producer")).to_be_disabled()
    expect(button(page, "Inject")).to_be_disabled()
    expect(region(page, "Link faults")).to_contain_text("Link faults are unknown: the API does not respond")

    server.start()
    expect(button(page, "Start producer")).to_be_enabled(timeout=15_000)
    turn_to(page, "Table")
    expect(button(page, "Kill broker 2")).to_be_enabled()


@pytest.mark.parametrize("node", ["broker 2", "peer 1"])
def test_all_actions_of_a_node_in_unknown_state_are_disabled(page: Page, server: PageServer, node: str) -> None:
    expect(button(page, f"Kill {node}")).to_be_enabled()
    server.agent.freeze(10)

    expect(card(page, node.capitalize())).to_contain_text("host-1 does not respond")
    for action in ("Start", "Kill"):
        expect(button(page, f"{action} {node}")).to_be_disabled()
    button(page, f"More on {node}").click()
    for action in ("Stop", "Pause", "Restart"):
        expect(button(page, f"{action} {node}")).to_be_disabled()


def lose_records(server: PageServer) -> None:
    server.agent.write("api", e.WorkloadProgressed("w1", "orders", 500, 498, 0, 389))
    server.append_events("broker-1", e.RecordsLost(1, "orders", 0, 90, 120, 31, 30, "diverging_epoch"))


def test_acknowledged_loss_no_longer_degrades_cluster_health(page: Page, server: PageServer) -> None:
    server.append_events("broker-1", e.IsrChanged("orders", 0, [1, 2, 3], 1, 4, 7, "caught_up"))
    lose_records(server)
    expect(health(page)).to_contain_text("30 committed records lost")
    expect(health(page)).to_contain_text("389 acknowledged records lost")

    button(page, "Acknowledge the losses").click()
    expect(health(page)).to_contain_text("Healthy")
    expect(health(page)).not_to_contain_text("lost")
    # An acknowledged loss no longer affects the health, but it stays in the list of losses.
    losses = region(page, "Records removed from a replica")
    expect(losses).to_contain_text("30 committed records lost")
    expect(losses).to_contain_text("acknowledged")
    expect(row(page, "Partition orders-0")).to_contain_text("30 committed records lost")
    expect(button(page, "Acknowledge the losses")).to_have_count(0)

    server.stop()
    server.start()
    page.reload()
    expect(health(page)).to_contain_text("Healthy")
    expect(losses).to_contain_text("acknowledged")

    server.append_events("broker-2", e.RecordsLost(2, "orders", 0, 121, 122, 2, 2, "diverging_epoch"))
    expect(health(page)).to_contain_text("2 committed records lost")
    expect(button(page, "Acknowledge the losses")).to_be_enabled()


def test_api_link_of_the_page_opens_the_api_documentation(page: Page, server: PageServer) -> None:
    link = page.get_by_role("navigation", name="Views").get_by_role("link", name="API", exact=True)
    expect(link).to_have_attribute("href", "/docs")
    documents = page.request.get(f"{server.url}/docs")
    assert documents.status == 200
    assert documents.headers["content-type"].startswith("text/html")


def test_key_7_opens_the_compare_tab_and_is_listed_in_the_help(page: Page) -> None:
    expect(card(page, "Broker 1")).to_be_visible()
    page.keyboard.press("7")
    expect(region(page, "Compare")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("1 \N{HORIZONTAL ELLIPSIS} 7")
    page.keyboard.press("Escape")
