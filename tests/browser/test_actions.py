"""Actions that a user starts on the page: with the mouse, with the keyboard alone, and while the API restarts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watched
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_page import act, button, card, region, row, turn_to
from zabka.journal import events as e


def test_killed_broker_is_shown_as_down_with_the_curl_command(page: Page, server: PageServer) -> None:
    button(page, "Kill broker 2").click()

    expect(card(page, "Broker 2")).to_contain_text("down")
    expect(button(page, "Start broker 2")).to_be_enabled()
    expect(button(page, "Kill broker 2")).to_be_disabled()
    expect(region(page, "API calls")).to_contain_text(f"curl -X POST '{server.url}/api/v1/brokers/2/kill'")
    expect(region(page, "API calls")).to_contain_text("202 broker-2 is down")
    expect(page.get_by_role("group", name="Health")).to_contain_text("broker 2 down")
    assert server.agent.processes["broker-2"].process == "down"


@pytest.mark.parametrize("node", ["peer 1", "broker 3"])
def test_every_valid_action_is_possible_from_the_page(page: Page, server: PageServer, node: str) -> None:
    for action, state in (
        ("Pause", "paused"), ("Resume", "running"), ("Stop", "down"), ("Start", "running"), ("Restart", "running"),
        ("Kill", "down"),
    ):  # fmt: skip
        act(page, action, node)
        expect(card(page, node.capitalize()).locator(".process")).to_contain_text(state)
        expect(region(page, "API calls")).to_contain_text(f"/{action.lower()}'")


def test_rejected_action_is_shown_with_the_message_of_the_api(page: Page) -> None:
    button(page, "Create topic").click()
    form = page.get_by_role("form", name="Create topic")
    form.get_by_label("name").fill("orders")
    form.get_by_role("button", name="Create").click()

    expect(page.get_by_role("alert")).to_contain_text("409 Topic 'orders' already exists.")


def test_topic_is_created_configured_and_deleted(page: Page, server: PageServer) -> None:
    button(page, "Create topic").click()
    form = page.get_by_role("form", name="Create topic")
    form.get_by_label("name").fill("payments")
    form.get_by_label("min.insync.replicas").fill("2")
    form.get_by_role("button", name="Create").click()
    expect(page.get_by_text("min.insync.replicas=2")).to_be_visible()

    button(page, "Configure payments").click()
    form = page.get_by_role("form", name="Configure payments")
    form.get_by_label("unclean.leader.election.enable").select_option("true")
    form.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("unclean.leader.election.enable=true")).to_be_visible()

    button(page, "Delete payments").click()
    button(page, "Really delete payments").click()
    expect(page.get_by_role("heading", name="payments")).to_have_count(0)
    assert list(server.ensemble.reading.topics) == ["orders"]


def test_elections_are_started_from_a_partition_row(page: Page, server: PageServer) -> None:
    server.append_events("broker-1", e.LeaderElected("orders", 0, 2, 5, [2, 1], [1, 2, 3], 7, 3, False, "test"))
    button(page, "Elect the preferred leader of orders-0").click()

    expect(region(page, "API calls")).to_contain_text('"type":"PREFERRED"')
    expect(region(page, "API calls")).to_contain_text("200 done")


def test_link_is_cut_and_healed(page: Page, server: PageServer) -> None:
    turn_to(page, "Lab")
    form = page.get_by_role("form", name="Inject a fault")
    form.get_by_label("from").select_option("broker-1")
    form.get_by_label("to", exact=True).select_option("peer-2")
    form.get_by_role("button", name="Inject").click()
    expect(region(page, "Link faults").get_by_role("listitem")).to_contain_text("broker-1 ↔ peer-2")

    button(page, "Heal broker-1 to peer-2").click()
    expect(region(page, "Link faults")).to_contain_text("No link faults.")
    assert server.agent.held == []


def test_client_bandwidth_is_limited_with_the_form(page: Page, server: PageServer) -> None:
    turn_to(page, "Lab")
    form = page.get_by_role("form", name="Inject a fault")
    form.get_by_label("fault").select_option("bandwidth")
    form.get_by_label("or a client").fill("client:shop-*")
    form.get_by_label("bytes per second").fill("9000")
    form.get_by_role("button", name="Inject").click()
    listed = region(page, "Link faults").get_by_role("listitem")
    expect(listed).to_contain_text("client:shop-* ↔ all nodes, 9000 bytes/s")
    (held,) = server.agent.held
    assert (held.source, held.target, held.kind, held.bytes_per_s) == ("client:shop-*", "*", "bandwidth", 9000)


def test_request_fault_is_added_counted_and_removed(page: Page, server: PageServer) -> None:
    turn_to(page, "Lab")
    form = page.get_by_role("form", name="Add a request fault")
    form.get_by_label("topic").fill("orders")
    form.get_by_role("button", name="Add").click()
    listed = region(page, "Request faults").get_by_role("listitem")
    expect(listed).to_contain_text("Produce topic=orders: drop_response, once, used 0 of 0")

    (held,) = server.agent.held
    server.agent.set_status("broker-1", 0, request_faults={held.id: [4, 1]})
    expect(listed).to_contain_text("used 1 of 4")
    button(page, "Remove Produce topic=orders: drop_response, once").click()
    expect(region(page, "Request faults")).to_contain_text("No request faults.")
    assert server.agent.held == []


def test_ready_made_set_of_request_faults_is_added(page: Page, server: PageServer) -> None:
    turn_to(page, "Lab")
    form = page.get_by_role("form", name="Add a predefined set of request faults")
    form.get_by_label("ready set").select_option("connection-loss-on-create")
    form.get_by_label("path").fill("/locks/*")
    form.get_by_role("button", name="Add set").click()
    expect(region(page, "Request faults").get_by_role("listitem")).to_contain_text(
        "create path=/locks/*: drop_response"
    )


def test_producer_that_cannot_start_is_shown_with_the_reason(page: Page) -> None:
    turn_to(page, "Lab")
    form = page.get_by_role("form", name="Start a producer")
    form.get_by_role("button", name="Start producer").click()

    expect(page.get_by_role("alert")).to_contain_text("there is no topic orders; create it first")


def test_missing_table_shows_the_command_that_creates_it(page: Page) -> None:
    turn_to(page, "Lab")
    region(page, "Analytics").get_by_role("button", name="Load").click()

    expect(region(page, "Analytics")).to_contain_text("zabka pipeline tables --data ")


def test_scenario_runs_and_its_story_is_shown(page: Page) -> None:
    turn_to(page, "Lab")
    expect(row(page, "Scenario kafka-708")).to_contain_text("The last member stays.")
    expect(row(page, "Scenario kafka-708")).to_contain_text("empty-isr")
    button(page, "Play kafka-708").click()

    run = region(page, "Run of kafka-708")
    expect(run).to_contain_text("passed")
    expect(run).to_contain_text("zabka scenarios run kafka-708")
    expect(run.get_by_role("list", name="Story: zabka as it is")).to_contain_text("1.171 skill second (broker-1)")
    expect(run.get_by_role("list", name="Story: With its bug")).to_contain_text("broker-2orders-0: no leader")
    expect(run).to_contain_text("LeaderInIsr: orders-0: the ISR is empty")
    expect(run).to_be_in_viewport()
    first = run.get_by_role("list", name="Story: With its bug").locator(".parts")
    expect(first).to_contain_text("broker-2orders-0: no leader")
    expect(first).to_contain_text("first difference")
    run.get_by_role("link", name="first difference at 6.515 s").click()
    expect(first).to_be_in_viewport()
    expect(run.get_by_role("list", name="Story: zabka as it is").locator(".parts")).to_contain_text(
        "this story ends here"
    )
    expect(region(page, "API calls")).to_contain_text("202 accepted")

    button(page, "Play broken").click()
    expect(region(page, "Run of broken")).to_contain_text("the player exited with code -9")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


def test_page_can_be_used_with_only_the_keyboard(page: Page, server: PageServer) -> None:
    expect(card(page, "Broker 3")).to_be_visible()
    expected = ["Skip to the cluster", "Kill peer 1", "More on peer 1"]
    met = []
    for _ in range(30):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent.trim()")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"{name} has no visible focus"
        met.append(name)
        if name == expected[-1]:
            break
    assert [name for name in met if name in expected] == expected
    page.keyboard.press("Enter")
    items = []
    for _ in range(3):
        page.keyboard.press("Tab")
        items.append(page.evaluate("document.activeElement.ariaLabel"))
    assert items[1:] == ["Stop peer 1", "Pause peer 1"]
    page.keyboard.press("Enter")

    expect(card(page, "Peer 1")).to_contain_text("paused")
    button(page, "Create topic").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("form", name="Create topic")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.type("typed")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="typed")).to_be_visible()


def test_page_resumes_when_the_api_returns(watched: Watched, server: PageServer) -> None:
    page = watched.page
    page.goto(f"{server.url}#tab=table")
    expect(card(page, "Broker 1")).to_be_visible()
    page.evaluate("window.same = true")

    server.stop()
    expect(page.get_by_role("alert")).to_contain_text("Reconnecting:")
    expect(card(page, "Broker 1")).to_contain_text("controller")
    # Without recent reports, the health is neither good nor bad, but unknown. The page shows the last report and its
    # age.
    expect(page.get_by_role("group", name="Health")).to_contain_text("Unknown")
    expect(page.get_by_role("group", name="Health")).to_contain_text("no response from the API for")
    expect(region(page, "Controller epoch")).to_contain_text("last known, ")
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"its state at event \d+, .* ago"))
    server.agent.write("broker-3", e.ControllerElected(3, 4, 4))
    server.is_controller(3, 4)
    server.start()
    server.settle()

    expect(page.get_by_label("controller epoch 4")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("group", name="Health")).not_to_contain_text("Unknown")
    expect(page.get_by_role("list", name="Events, newest first")).to_contain_text("is controller, epoch 4")
    assert page.evaluate("window.same")
    assert watched.complaints == []


def recreate_cluster(server: PageServer, directory: Path) -> None:
    """Replace the cluster by a new one in the same directory, with a longer history than the old one.

    A browser that reconnects afterwards finds other events with numbers that it has already received.
    """
    server.stop()
    shutil.rmtree(directory / "api" / "collected")
    before = server.last_seq
    server.agent.lines.clear()
    server.agent.write("broker-2", e.ControllerElected(2, 1, 1), *[e.ControllerBelieved(2, 2, 1, True)] * before)
    server.is_controller(2, 1)
    server.start()
    server.settle()


def test_page_of_a_recreated_cluster_shows_no_old_state(watched: Watched, server: PageServer, tmp_path: Path) -> None:
    page = watched.page
    page.goto(f"{server.url}#tab=table")
    controller_terms = page.get_by_role("list", name="Controller terms, newest first")
    expect(controller_terms).to_contain_text("1@3")

    recreate_cluster(server, tmp_path)

    expect(page.get_by_label("controller epoch 1")).to_be_visible(timeout=15_000)
    expect(controller_terms).to_contain_text("2@1")
    expect(controller_terms).not_to_contain_text("1@3")
    expect(page.get_by_role("list", name="Events, newest first")).not_to_contain_text("epoch 3")
    assert watched.complaints == []


def test_link_to_a_past_moment_shows_the_recreated_cluster(
    watched: Watched, server: PageServer, tmp_path: Path
) -> None:
    """A link to an event number shows the new cluster if the cluster was created again in the meantime."""
    page = watched.page
    page.goto(f"{server.url}#tab=table&run=live&at={server.last_seq}")
    controller_terms = page.get_by_role("list", name="Controller terms, newest first")
    expect(controller_terms).to_contain_text("1@3")

    recreate_cluster(server, tmp_path)

    expect(controller_terms).to_contain_text("2@1", timeout=15_000)
    expect(controller_terms).not_to_contain_text("1@3")


def test_page_too_far_behind_the_stream_restarts_from_a_snapshot(watched: Watched, tmp_path: Path) -> None:
    server = PageServer(tmp_path, served_max=60).start()
    try:
        write_healthy_cluster(server)
        page = watched.page
        page.goto(f"{server.url}#tab=table")
        expect(card(page, "Broker 1")).to_be_visible()
        server.stop()
        server.agent.write("broker-2", *[e.ReplicaProgressed(2, [("orders", 0, 200, 200 + i)]) for i in range(200)])
        server.start()
        server.settle()

        expect(row(page, "Partition orders-0")).to_contain_text("399")
        expect(page.get_by_role("alert")).to_have_count(0)
    finally:
        server.stop()


def test_page_asks_the_user_for_the_token_on_401(watched: Watched, tmp_path: Path) -> None:
    server = PageServer(tmp_path, token="sesame").start()
    try:
        write_healthy_cluster(server)
        page = watched.page
        page.goto(f"{server.url}#tab=table")
        button(page, "Kill broker 2").click()
        dialog = page.get_by_role("dialog", name="The API requires a token")
        expect(dialog.get_by_label("token")).to_be_focused()
        assert server.agent.processes["broker-2"].process == "running"
        dialog.get_by_label("token").fill("sesame")
        page.keyboard.press("Enter")

        expect(card(page, "Broker 2")).to_contain_text("down")
        expect(dialog).to_have_count(0)
        expect(region(page, "API calls")).to_contain_text('-H "Authorization: Bearer $ZABKA_TOKEN"')
        assert page.evaluate("sessionStorage.length") == 1
        assert "sesame" not in page.content()
    finally:
        server.stop()
    assert watched.complaints == []


def test_content_security_policy_is_strict_and_enforced(page: Page, server: PageServer) -> None:
    answer = page.request.get(server.url)

    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    fetched = page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert fetched
    assert [url for url in fetched if not url.startswith(server.url)] == []


def test_live_script_requires_confirmation_and_opens_the_tracks(page: Page) -> None:
    turn_to(page, "Lab")
    page.get_by_role("button", name="Play kafka-708 live").click()
    expect(page.get_by_role("region", name="Run of kafka-708")).to_have_count(0)
    sure = page.get_by_role("button", name="Really break this cluster with kafka-708")
    expect(sure).to_be_focused()
    sure.click()

    expect(page.get_by_role("region", name="Tracks")).to_be_visible()
    expect(page.get_by_text("kafka-708 ran on this cluster: passed.")).to_be_visible()
    expect(page.locator(".when")).to_contain_text("LIVE")


def test_script_that_cannot_run_live_is_only_simulated(page: Page) -> None:
    turn_to(page, "Lab")
    expect(page.get_by_role("button", name="Play broken live")).to_be_disabled()
