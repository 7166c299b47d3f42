"""Past moments on the page: each shows the correct state, and no event is skipped.

This is tested for steps between moments, and for the return to the live state.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.chromium import Watched, wait_here, wait_until
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_fold import as_the_page_has_it
from tests.browser.test_page import button, card, region, turn_to
from zabka.api.runs import pages
from zabka.journal import events as e
from zabka.journal.fold import fold

MOMENTS = 12
TICK_MS = 40
"""Interval in ms at which the playback checks whether it must show the next event."""
SESSION_1 = 0x1_0000_A2C3_D001

SHOWN = """async () => {
  const {theMoment} = await import("/web/main.js");
  const {seq, state, live} = theMoment().current();
  return {seq, live, state};
}"""


def write_failover(server: PageServer) -> None:
    """Write the events of a failover.

    Controller 1 is killed, its session expires, broker 3 is elected controller, and a partition gets a new leader and
    loses records.
    """
    server.agent.write("host-1", e.ProcessChanged("broker-1", "down", None, "kill"))
    expired = ["/brokers/ids/1", "/controller"]
    server.agent.write("peer-2", e.SessionClosed(SESSION_1, 0x1_0000_0020, expired, "expiry 0x10000a2c3d001"))
    server.agent.write("broker-3", e.ControllerElected(3, 4, 4), e.ControllerBelieved(3, 3, 4, True))
    server.agent.write("broker-2", e.ControllerBelieved(2, 3, 4, False))
    server.agent.write("broker-3", e.LeaderElected("orders", 0, 2, 5, [2], [1, 2, 3], 7, 4, False, "offline"))
    server.agent.write("broker-2", *[e.ReplicaProgressed(2, [("orders", 0, 120 + i, 121 + i)]) for i in range(30)])
    server.agent.write("broker-3", e.RecordsLost(3, "orders", 0, 90, 120, 31, 30, "diverging_epoch"))
    server.agent.write("broker-3", e.IsrChanged("orders", 0, [2, 3], 2, 5, 8, "caught_up"))
    server.is_controller(3, 4)
    server.settle()


@pytest.fixture(scope="module")
def failed_over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Yield the server of a cluster whose history has a failover."""
    server = PageServer(tmp_path_factory.mktemp("failed_over")).start()
    write_healthy_cluster(server)
    write_failover(server)
    yield server
    server.stop()


@pytest.fixture
def tracks(watched: Watched, failed_over: PageServer) -> Iterator[Page]:
    """Yield the page of the cluster that had a failover, at its first tab (the tracks)."""
    watched.page.goto(failed_over.url)
    expect(card(watched.page, "Broker 1")).to_be_visible()
    yield watched.page
    assert watched.leave() == []


def go_to(page: Page, seq: int) -> None:
    page.evaluate("at => { location.hash = `run=live&at=${at}`; }", seq)
    expect(page.locator(".when.past")).to_contain_text(re.compile(rf"event {seq}\b"))


def folded(server: PageServer, seq: int) -> Any:
    """Return the state that Python computes from the events up to `seq`, in the page's number format."""
    state = fold(entry for entry in server.numbered() if entry.seq <= seq)
    return as_the_page_has_it(json.loads(msgspec.json.encode(state)))


def test_past_moment_shows_the_state_computed_from_its_events(tracks: Page, failed_over: PageServer) -> None:
    last = failed_over.numbered()[-1].seq
    for seq in random.Random(7).sample(range(1, last), MOMENTS):
        go_to(tracks, seq)
        shown = tracks.evaluate(SHOWN)
        assert shown["seq"] == seq
        assert shown["state"] == folded(failed_over, seq)


def test_link_opens_a_past_moment_with_disabled_actions(watched: Watched, failed_over: PageServer) -> None:
    page = watched.page
    elected = next(entry.seq for entry in failed_over.numbered() if entry.event == e.ControllerElected(3, 4, 4))
    page.goto(f"{failed_over.url}#run=live&at={elected - 1}")
    expect(page.locator(".when.past")).to_contain_text("PAST,")
    expect(page.get_by_label("controller epoch 3")).to_contain_text("none · epoch 3")
    expect(page.get_by_role("group", name="Health")).to_contain_text("no controller")
    expect(card(page, "Broker 1")).to_contain_text("down")
    expect(region(page, "The cluster at this moment")).to_contain_text("Actions are off: the past cannot be changed")
    expect(button(page, "Start broker 1")).to_be_disabled()
    expect(page.get_by_role("list", name="Events, newest first").locator(".shown")).to_be_in_viewport()

    turn_to(page, "Lab")
    expect(page.get_by_role("form", name="Inject a fault").get_by_role("button", name="Inject")).to_be_disabled()
    assert failed_over.agent.held == []
    assert watched.complaints == []


def test_arrow_keys_visit_each_event_once_and_end_key_goes_live(tracks: Page, failed_over: PageServer) -> None:
    last = failed_over.numbered()[-1].seq
    tracks.evaluate(
        """async () => {
          const {theMoment} = await import("/web/main.js");
          window.visited = [];
          theMoment().subscribe(({seq}) => window.visited.push(seq));
        }"""
    )
    for _ in range(8):
        tracks.keyboard.press("ArrowLeft")
    expect(tracks.locator(".when.past")).to_contain_text(f"event {last - 8}")
    for _ in range(5):
        tracks.keyboard.press("ArrowRight")
    expect(tracks.locator(".when.past")).to_contain_text(f"event {last - 3}")
    back, on = list(range(last - 1, last - 9, -1)), list(range(last - 7, last - 2))
    assert tracks.evaluate("window.visited") == back + on

    tracks.keyboard.press("End")
    expect(tracks.locator(".when")).to_contain_text("LIVE")
    assert tracks.evaluate("location.hash") == ""
    shown = tracks.evaluate(SHOWN)
    assert shown["live"]
    assert shown["state"] == folded(failed_over, last)


def test_stream_continues_while_a_past_moment_is_shown(page: Page, server: PageServer) -> None:
    expect(card(page, "Broker 1")).to_be_visible()
    last = server.numbered()[-1].seq
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".when.past")).to_contain_text(f"event {last - 1}")
    server.append_events("broker-2", e.IsrChanged("orders", 0, [1, 2, 3], 1, 4, 7, "caught_up"))
    page.keyboard.press("End")

    expect(page.get_by_role("row", name="Partition orders-0")).to_contain_text("ISR 1, 2, 3")
    shown = page.evaluate(SHOWN)
    assert shown["state"] == folded(server, server.numbered()[-1].seq)


@pytest.mark.parametrize("late", ["**/api/v1/runs", "**/api/v1/events?snapshot=true"])
@pytest.mark.parametrize(("key", "goes_to"), [("ArrowLeft", e.RecordsLost), ("e", e.LeaderElected)])
def test_key_pressed_during_page_load_takes_effect(
    watched: Watched, failed_over: PageServer, late: str, key: str, goes_to: type[e.Event]
) -> None:
    watched.page.route(late, lambda route: None)
    watched.page.goto(failed_over.url)
    watched.page.keyboard.press(key)
    target = [entry.seq for entry in failed_over.numbered() if isinstance(entry.event, goes_to)][-1]
    expect(watched.page.locator(".when.past")).to_contain_text(f"event {target}")


def test_keys_e_i_x_jump_to_election_isr_change_and_loss(tracks: Page, failed_over: PageServer) -> None:
    numbers = {type(entry.event): entry.seq for entry in failed_over.numbered()}
    go_to(tracks, 1)
    for key, kind in (("x", e.RecordsLost), ("Shift+E", e.LeaderElected), ("i", e.IsrChanged)):
        tracks.keyboard.press(key)
        expect(tracks.locator(".when.past")).to_contain_text(f"event {numbers[kind]}")
    tracks.keyboard.press("x")
    expect(tracks.get_by_role("alert")).to_contain_text("There is no later loss of records.")


def test_jump_continues_across_several_api_responses(
    page: Page, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A jump to the next loss of records works even if several API responses contain only progress events.

    An hour of a loaded cluster's history can have 200,000 such events in a row.
    """
    monkeypatch.setattr(pages, "BATCH_EVENTS", 250)
    monkeypatch.setattr(pages, "LOOKED_THROUGH_MAX", 500)
    progress = [e.ReplicaProgressed(2, [("orders", 0, 120 + i, 121 + i)]) for i in range(1_200)]
    server.agent.write("broker-2", *progress)
    server.settle()
    server.agent.write("broker-3", e.RecordsLost(3, "orders", 0, 90, 120, 31, 30, "diverging_epoch"))
    server.settle()
    loss = server.numbered()[-1].seq
    server.agent.write("broker-2", *progress)
    server.settle()
    for here, key in ((loss - 1_100, "x"), (server.numbered()[-1].seq, "Shift+X")):
        go_to(page, here)
        page.keyboard.press(key)
        expect(page.locator(".when.past")).to_contain_text(re.compile(rf"event {loss}\b"))


def test_comparison_with_a_pinned_moment_shows_only_differences(tracks: Page, failed_over: PageServer) -> None:
    killed = next(entry.seq for entry in failed_over.numbered() if isinstance(entry.event, e.SessionClosed)) - 1
    go_to(tracks, killed - 1)
    tracks.keyboard.press("a")
    expect(region(tracks, "Changed since A")).to_contain_text("No differences.")
    go_to(tracks, killed)
    tracks.evaluate("at => { location.hash += `&pin=${at}`; }", killed - 1)

    compared = region(tracks, "Changed since A")
    expect(compared).to_contain_text("controller term, broker 1 · epoch 3")
    expect(compared.get_by_role("row")).to_have_count(8)
    expect(compared).to_contain_text(re.compile("session state.*connected.*closed", re.DOTALL))
    expect(compared).to_contain_text(re.compile("process.*running.*down", re.DOTALL))
    tracks.keyboard.press("c")
    expect(tracks.locator(".when.past")).to_contain_text(f"event {killed - 1}")
    tracks.keyboard.press("c")
    expect(tracks.locator(".when.past")).to_contain_text(f"event {killed}")


def test_playback_visits_events_and_can_be_paused(tracks: Page, failed_over: PageServer) -> None:
    go_to(tracks, 3)
    tracks.get_by_label("speed").select_option("10")
    tracks.locator("body").click(position={"x": 5, "y": 300})
    tracks.keyboard.press("Space")
    expect(tracks.locator(".when")).to_contain_text("LIVE")
    tracks.keyboard.press("Space")
    tracks.keyboard.press("Space")
    expect(tracks.get_by_role("button", name="▶ play")).to_have_attribute("aria-pressed", "false")


def test_playback_resumes_where_it_was_paused(tracks: Page) -> None:
    seq = "import('/web/main.js').then(({theMoment}) => theMoment().current().seq)"
    go_to(tracks, 3)
    tracks.get_by_label("speed").select_option("0.001")
    tracks.get_by_role("button", name="▶ play").click()
    wait_until(tracks, f"() => {seq}.then((seq) => seq > 5)")
    tracks.get_by_role("button", name="❚❚ pause").click()
    paused = tracks.evaluate(seq)
    tracks.wait_for_timeout(6 * TICK_MS)
    assert tracks.evaluate(seq) == paused
    expect(tracks.locator(".when.past")).to_contain_text(f"event {paused}")

    tracks.get_by_role("button", name="▶ play").click()
    wait_until(tracks, f"(paused) => {seq}.then((seq) => seq > paused)", paused)


def test_home_key_goes_to_first_moment_and_end_key_to_live(tracks: Page) -> None:
    tracks.keyboard.press("Home")
    expect(tracks.locator(".when.past")).to_contain_text("event 1")
    assert tracks.evaluate(SHOWN)["seq"] == 1
    tracks.keyboard.press("ArrowLeft")
    tracks.keyboard.press("ArrowRight")
    expect(tracks.locator(".when.past")).to_contain_text("event 2")
    wait_until(
        tracks, "() => document.querySelector('.events .shown') && document.querySelector('.events').scrollTop > 0"
    )
    tracks.keyboard.press("End")
    expect(tracks.locator(".when")).to_contain_text("LIVE")
    # The event list is scrolled to its newest event again.
    wait_until(tracks, "() => document.querySelector('.events').scrollTop === 0")


def test_late_response_does_not_replace_a_moment_chosen_later(tracks: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    tracks.route("**/runs/live/state?at=10", hold)
    tracks.evaluate("location.hash = 'run=live&at=10'")
    # The page shows the new moment before it has the state: it first requests the run's range, and then the state.
    wait_here(tracks, lambda: held)
    expect(tracks.locator(".when.past")).to_contain_text("loading…")
    go_to(tracks, 20)
    held[0].continue_()
    go_to(tracks, 21)
    assert tracks.evaluate(SHOWN)["seq"] == 21
    assert tracks.evaluate("location.hash") == "#run=live&at=21"


def test_unanswered_moment_request_shows_an_error_and_live_state(tracks: Page) -> None:
    tracks.route("**/runs/live/state?at=10", lambda route: None)
    patience = "ms => import('/web/main.js').then(({theMoment}) => { theMoment().patience_ms = ms; })"
    tracks.evaluate(patience, 200)
    tracks.evaluate("location.hash = 'run=live&at=10'")
    expect(tracks.get_by_role("alert")).to_contain_text("cannot be shown: the API has not responded for 0.2 s.")
    expect(tracks.locator(".when")).to_contain_text("LIVE")
    tracks.evaluate(patience, 10_000)
    go_to(tracks, 20)
    expect(tracks.get_by_role("alert")).to_have_count(0)


def test_unknown_run_shows_an_error_and_the_live_cluster(watched: Watched, failed_over: PageServer) -> None:
    watched.page.goto(f"{failed_over.url}#run=r0000000&at=5")
    expect(watched.page.get_by_role("alert")).to_contain_text("This moment cannot be shown:")
    expect(card(watched.page, "Broker 2")).to_be_visible()


def test_internal_link_opens_the_tab_of_its_panel(tracks: Page) -> None:
    tracks.get_by_role("link", name="at least 30 committed records lost").click()
    expect(region(tracks, "Records removed from a replica")).to_be_focused()
    assert "tab=table" in tracks.evaluate("location.hash")


def test_past_moment_survives_a_reload_and_the_back_button(tracks: Page) -> None:
    go_to(tracks, 20)
    turn_to(tracks, "Table")
    tracks.reload()
    expect(tracks.locator(".when.past")).to_contain_text("event 20")
    expect(region(tracks, "Brokers")).to_be_visible()
    tracks.go_back()
    expect(region(tracks, "Tracks")).to_be_visible()
    expect(tracks.locator(".when.past")).to_contain_text("event 20")
