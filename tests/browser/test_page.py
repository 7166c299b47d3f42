"""The page's tables in a real browser, filled from a hand-written journal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.chromium import Watched
from tests.browser.page_server import PageServer
from zabka.api.views.ensemble_view import PartitionZnodes
from zabka.journal import events as e


def region(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("listitem", name=name, exact=True)


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row", name=name, exact=True)


def act(page: Page, action: str, node: str) -> None:
    """Apply an action to a node: click its button, or its entry in the node's menu."""
    if action in ("Stop", "Pause", "Restart"):
        button(page, f"More on {node}").click()
    button(page, f"{action} {node}").click()


def turn_to(page: Page, tab: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("link", name=tab, exact=True).click()


def test_peers_show_role_phase_epochs_zxid_and_leader(page: Page) -> None:
    expect(card(page, "Peer 2")).to_contain_text("LEADING")
    expect(card(page, "Peer 2")).to_contain_text("acc 1 · cur 1")
    for peer in (1, 3):
        expect(card(page, f"Peer {peer}")).to_contain_text("FOLLOWING")
        expect(card(page, f"Peer {peer}")).to_contain_text("peer 2")
        expect(card(page, f"Peer {peer}")).to_contain_text("0x100000012")
        expect(card(page, f"Peer {peer}")).to_contain_text("running")
    expect(region(page, "ZAB ensemble")).to_contain_text("leader: peer 2 · epoch 1")


def test_broker_cards_show_process_registration_and_controller(page: Page) -> None:
    expect(card(page, "Broker 1")).to_contain_text("controller")
    for broker in (1, 2, 3):
        expect(card(page, f"Broker {broker}")).to_contain_text("running")
        expect(card(page, f"Broker {broker}")).to_contain_text("registeredyes")
        expect(card(page, f"Broker {broker}")).to_contain_text(f"0x{24 + broker:x}")
        expect(row(page, f"Belief of broker {broker}")).to_contain_text("agrees")
    expect(page.get_by_role("group", name="Health")).to_contain_text("partition under-replicated")


def test_broker_with_a_stale_belief_is_marked(page: Page, server: PageServer) -> None:
    server.agent.write("host-1", e.ProcessChanged("broker-1", "paused", 103, "pause"))
    server.is_controller(2, 4)
    server.agent.write("broker-2", e.ControllerElected(2, 4, 4), e.ControllerBelieved(2, 2, 4, True))
    server.append_events("broker-3", e.ControllerBelieved(3, 2, 4, False))

    expect(row(page, "Belief of broker 1")).to_contain_text(
        "stale: reports broker 1 · epoch 3; ZooKeeper has broker 2 · epoch 4"
    )
    expect(row(page, "Belief of broker 2")).to_contain_text("agrees")
    expect(row(page, "Belief of broker 3")).to_contain_text("agrees")
    expect(card(page, "Broker 1")).to_contain_text("acts as controller")
    expect(card(page, "Broker 2").get_by_text("controller", exact=True)).to_be_visible()
    expect(page.get_by_role("group", name="Health")).to_contain_text("broker 1 wrong about the controller")


def test_fenced_writes_and_requests_are_counted_for_each_broker(page: Page, server: PageServer) -> None:
    server.agent.write("broker-1", e.WriteFenced(1, 3, "set", "/brokers/topics/orders/partitions/0/state"))
    server.append_events("broker-2", e.RequestFenced(2, "LeaderAndIsr", 1, "STALE_CONTROLLER_EPOCH", 3, 4))

    expect(row(page, "Belief of broker 1")).to_contain_text("1 / 1")
    expect(row(page, "Belief of broker 2")).to_contain_text("0 / 0")


def test_controller_epoch_and_end_of_past_terms_are_shown(page: Page, server: PageServer) -> None:
    expect(page.get_by_label("controller epoch 3")).to_be_visible()
    session = 0x1_0000_A2C3_D001
    server.is_controller(-1, 3)
    server.append_events("peer-2", e.SessionClosed(session, 0x1_0000_0020, ["/brokers/ids/1", "/controller"]))
    expect(region(page, "Controller epoch")).to_contain_text("No controller")

    server.is_controller(3, 4)
    server.append_events("broker-3", e.ControllerElected(3, 4, 4))

    expect(page.get_by_label("controller epoch 4")).to_be_visible()
    controller_terms = page.get_by_role("list", name="Controller terms, newest first").get_by_role("listitem")
    expect(controller_terms.first).to_contain_text("3@4")
    expect(controller_terms.nth(1)).to_contain_text("1@3")
    expect(controller_terms.nth(1)).to_contain_text("session closed")
    expect(page.locator("#announcements")).to_contain_text("Broker 3 is controller, epoch 4.")
    expect(page).to_have_title(re.compile(r"^4: broker 3"))


@pytest.mark.parametrize(
    ("action", "cause", "reason"),
    [
        ("Kill", "expiry 0x10000a2c3d001", "killed, session expired"),
        ("Pause", "expiry 0x10000a2c3d001", "frozen, session expired"),
        ("", "request closeSession", "session closed"),
        ("", "expiry 0x10000a2c3d001", "session expired"),
    ],
)
def test_controller_term_shows_why_it_ended(
    page: Page, server: PageServer, action: str, cause: str, reason: str
) -> None:
    epoch = region(page, "Controller epoch")
    if action:
        act(page, action, "broker 1")
        expect(epoch).to_contain_text("session expires in about")
        expect(card(page, "Broker 1").get_by_role("timer")).to_contain_text("session expires in about")
        expect(epoch.locator(".band.absent")).to_have_count(1)
    server.is_controller(-1, 3)
    session = 0x1_0000_A2C3_D001
    server.append_events("peer-2", e.SessionClosed(session, 0x1_0000_0020, ["/brokers/ids/1", "/controller"], cause))
    server.is_controller(3, 4)
    server.append_events("broker-3", e.ControllerElected(3, 4, 4))

    controller_terms = page.get_by_role("list", name="Controller terms, newest first").get_by_role("listitem")
    expect(controller_terms.first).to_contain_text("3@4")
    expect(controller_terms.nth(1)).to_contain_text(reason)


def test_partitions_show_leader_isr_and_log_end_offsets(page: Page) -> None:
    partition = row(page, "Partition orders-0")

    expect(partition).to_contain_text("leader epoch 4")
    expect(partition).to_contain_text("ISR 1, 2")
    expect(partition).to_contain_text("HW 120")
    expect(partition.get_by_role("cell").nth(2)).to_contain_text("leader121")
    expect(partition.get_by_role("cell").nth(3)).to_contain_text("in sync120")
    expect(partition.get_by_role("cell").nth(4)).to_contain_text("out of sync90\N{MINUS SIGN}31")
    expect(partition.get_by_role("img", name="log end offset 90, high watermark 90")).to_be_visible()


def test_eligible_leader_replicas_are_shown(page: Page, server: PageServer) -> None:
    expect(row(page, "Partition orders-0")).not_to_contain_text("eligible")
    server.append_events("broker-1", e.IsrChanged("orders", 0, [1], 1, 4, 7, "lag", eligible=[2]))

    expect(row(page, "Partition orders-0")).to_contain_text("ISR 1eligible 2")
    expect(page.get_by_text("orders-0: ISR 1, eligible 2 (lag)")).to_be_visible()


def test_unclean_election_and_its_lost_records_are_shown(page: Page, server: PageServer) -> None:
    server.append_events("broker-1", e.LeaderElected("orders", 0, -1, 5, [1], [1, 2, 3], 7, 3, False, "offline"))
    expect(row(page, "Partition orders-0")).to_contain_text("offline")
    server.has_topic("orders", {0: PartitionZnodes((1, 2, 3), 3, 6, (3,), 3, 8)})
    server.agent.write("broker-1", e.LeaderElected("orders", 0, 3, 6, [3], [1, 2, 3], 8, 3, True, "unclean"))
    server.append_events("broker-1", e.RecordsLost(1, "orders", 0, 90, 120, 31, 30, "diverging_epoch"))

    expect(row(page, "Partition orders-0")).to_contain_text("unclean")
    expect(row(page, "Partition orders-0")).to_contain_text("at least 30 committed records lost")
    expect(region(page, "Records removed from a replica")).to_contain_text("90\N{EN DASH}120")


def test_records_lost_on_three_replicas_are_counted_once(page: Page, server: PageServer) -> None:
    for broker, first, last, committed in (
        (1, 100, 325, 226),
        (2, 156, 325, 170),
        (3, 100, 260, 161),
        (3, 261, 325, 65),
    ):
        count = last - first + 1
        lost = e.RecordsLost(broker, "orders", 0, first, last, count, committed, "diverging_epoch")
        server.append_events(f"broker-{broker}", lost)

    expect(row(page, "Partition orders-0")).to_contain_text("at least 226 committed records lost")
    expect(region(page, "Records removed from a replica")).to_contain_text("at least 226 committed records lost")
    health = page.get_by_role("group", name="Health")
    expect(health).to_contain_text("at least 226 committed records lost")
    expect(health).not_to_contain_text("Healthy")


def test_state_not_received_from_the_api_is_unknown(watched: Watched, tmp_path: Path) -> None:
    server = PageServer(tmp_path).start()
    try:
        server.agent.write("peer-1", e.NodeStarted("peer", 1, {}))
        server.settle()
        watched.page.route("**/api/v1/cluster", lambda route: route.abort())
        watched.page.goto(f"{server.url}#tab=table")

        expect(card(watched.page, "Peer 1")).to_contain_text("zxidunknown")
        turn_to(watched.page, "Lab")
        expect(region(watched.page, "Producers")).to_contain_text("unknown: no response from the API yet")
        expect(region(watched.page, "Producers")).not_to_contain_text("0 running")
    finally:
        server.stop()


def test_state_without_a_quorum_is_shown_as_last_known(page: Page, server: PageServer) -> None:
    server.ensemble.stale = True
    server.append_events("peer-2", e.PeerStateChanged("LOOKING", "ELECTION", -1, 2, 1, 1, 0))

    expect(page.get_by_role("group", name="Health")).to_contain_text("no quorum")
    expect(region(page, "Controller epoch")).to_contain_text("last known, ")
    expect(page.get_by_role("navigation", name="Views")).to_contain_text("controller broker 1 · epoch 3 last known, ")
    expect(region(page, "Brokers")).to_contain_text("3 of 3 registered, last known, ")
    expect(card(page, "Peer 2")).to_contain_text("LOOKING")
    expect(card(page, "Broker 1")).to_contain_text("running")


def test_session_of_a_dead_controller_remains_without_a_leader(page: Page, server: PageServer) -> None:
    """A dead controller's session is still shown while the ensemble has no leader.

    The session timeout has long passed, but without a leader no peer can expire the session.
    """
    act(page, "Kill", "broker 1")
    expect(card(page, "Broker 1").get_by_role("timer")).to_contain_text("session expires in about")
    looks = [e.PeerStateChanged("LOOKING", "ELECTION", -1, 2, 1, 1, 0x1_0000_0012)]
    for peer in (1, 2, 3):
        server.append_events(f"peer-{peer}", *looks)
    stands = "session not expired: no session expires without a quorum"
    expect(card(page, "Broker 1").get_by_role("timer")).to_contain_text(stands)
    expect(page.locator("#controller_terms")).to_contain_text(stands)
    page.wait_for_timeout(500)
    expect(page.locator("body")).not_to_contain_text("any moment")


def test_events_are_shown_newest_first_and_can_be_filtered(page: Page, server: PageServer) -> None:
    server.append_events("broker-2", e.IsrChanged("orders", 0, [1, 2, 3], 1, 4, 7, "caught_up"))
    events = page.get_by_role("list", name="Events, newest first").get_by_role("listitem")
    expect(events.first).to_contain_text("orders-0: ISR 1, 2, 3 (caught up)")
    expect(page.get_by_text("replica_progressed")).to_have_count(0)

    region(page, "Events").get_by_label("node").select_option("peer-2")
    expect(events.first).to_contain_text("leader_established")
    region(page, "Events").get_by_label("node").select_option("")
    region(page, "Events").get_by_label("type").select_option("topic_created")
    expect(events).to_have_count(1)
    region(page, "Events").get_by_label("type").select_option("")
    region(page, "Events").get_by_label("show routine events").check()
    expect(page.get_by_text("replica_progressed").first).to_be_visible()


def test_event_text_is_never_rendered_as_markup(page: Page, server: PageServer) -> None:
    server.append_events("peer-1", e.PeerProtocolBroken("<img src=x onerror=alert(1)>", "<b>rude</b>"))

    expect(page.get_by_text("closes the connection from <img src=x onerror=alert(1)>: <b>rude</b>")).to_be_visible()


def test_progress_events_do_not_hide_older_events(page: Page, server: PageServer) -> None:
    server.append_events("broker-2", *[e.ReplicaProgressed(2, [("orders", 0, 120, 121 + i)]) for i in range(1_200)])
    page.reload()

    expect(page.get_by_text("created topic orders, 1 partition")).to_be_visible()


def test_producer_reports_do_not_hide_older_events(page: Page, server: PageServer) -> None:
    reports = [e.WorkloadProgressed("w1", "orders", n, n, 0, n) for n in range(450)]
    server.append_events("api", *reports)
    page.reload()
    expect(region(page, "Events")).to_contain_text("controller_elected")
    region(page, "Events").get_by_label("type").select_option("controller_elected")
    region(page, "Events").get_by_label("node").select_option("peer-1")
    expect(region(page, "Events")).to_contain_text("no matches among the newest events")


@pytest.mark.parametrize("width", [400, 1440])
def test_page_does_not_scroll_horizontally(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    expect(card(page, "Broker 3")).to_be_visible()

    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_state_is_shown_by_text_and_shapes_not_only_by_colour(page: Page) -> None:
    act(page, "Pause", "broker 3")

    process = card(page, "Broker 3").locator(".process")
    expect(process).to_contain_text("paused")
    running = card(page, "Broker 2").locator(".process")
    assert process.locator("svg").inner_html() != running.locator("svg").inner_html()
