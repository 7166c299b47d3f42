"""The Tracks tab: lanes on one time axis, used with mouse, keyboard and screen reader."""

from __future__ import annotations

import functools
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.chromium import Watched, wait_until
from tests.browser.page_server import PageServer
from tests.browser.test_moments import failed_over, tracks
from tests.browser.test_page import button, card, region, turn_to
from zabka.api.views.ensemble_view import PartitionZnodes
from zabka.journal import events as e

__all__ = ["failed_over", "tracks"]

STAGE = """const {theStage} = await import("/web/tracks/tab.js");
  while (!theStage()?.window) await new Promise(requestAnimationFrame);
  const stage = theStage();"""
"""Waits until the tab has drawn its first window. The tab has no stage until its modules are loaded."""
WINDOW = f"async () => {{ {STAGE} const {{from_us, to_us}} = stage.window; return [from_us, to_us]; }}"
ZOOMED = f"""async () => {{ {STAGE}
  const {{from_us, to_us}} = stage.timeline.window();
  return stage.window.from_us === from_us && stage.window.to_us === to_us;
}}"""
DRAWS = f"async () => {{ {STAGE} return stage.draws; }}"
LANES = f"""async () => {{ {STAGE}
  const {{lanes}} = stage.window.spans;
  return Object.fromEntries([...lanes].map(([lane, spans]) => [lane, spans.map((span) => span.state)]));
}}"""
SESSION_1 = 0x1_0000_A2C3_D001


def slider(page: Page) -> Locator:
    return page.get_by_role("slider", name="Moment")


def test_lanes_show_controllers_and_beliefs(tracks: Page) -> None:
    expect(slider(tracks).locator("canvas")).to_be_visible()
    lanes = tracks.evaluate(LANES)

    assert lanes["controller"] == ["active", "dead", "none", "active"]
    assert lanes["belief:1"][-1] == "down"
    assert lanes["belief:2"][-3:] == ["right", "stale", "right"]
    assert lanes["replica:orders-0:2"][-2:] == ["in_sync", "leader"]
    assert lanes["trouble:orders-0"] == ["orphan"]


def test_tracks_slider_value_is_the_current_moment(tracks: Page, failed_over: PageServer) -> None:
    last = failed_over.numbered()[-1].seq
    expect(slider(tracks)).to_have_attribute("aria-valuetext", re.compile("^live; controller broker 3 · epoch 4, "))
    slider(tracks).focus()
    tracks.keyboard.press("ArrowLeft")
    expect(slider(tracks)).to_have_attribute("aria-valuenow", str(last - 1))
    expect(slider(tracks)).to_have_attribute(
        "aria-valuetext",
        re.compile(rf"event {last - 1}: broker-3 orders-0: 31 records removed.*controller broker 3 · epoch 4"),
    )
    expect(slider(tracks)).to_be_focused()
    tracks.keyboard.press("End")
    expect(slider(tracks)).to_have_attribute("aria-valuetext", re.compile("^live; "))


def place(page: Page, lane: str, number: int) -> tuple[float, float, int]:
    """Return (x, y, event number) of a span of a pinned lane: the position of its start, and the event that started
    it.
    """
    x, y, seq = page.evaluate(
        f"""async ([lane, number]) => {{ {STAGE}
          const {{xOf}} = await import("/web/tracks/scale.js");
          const span = stage.window.spans.lanes.get(lane)[number];
          const row = stage.window.layout.pinned.find((each) => each.lane === lane);
          const {{left, top}} = stage.view.getBoundingClientRect();
          return [left + xOf(stage.window, span.from_us), top + row.top + row.height / 2, span.seq];
        }}""",
        [lane, number],
    )
    return x, y, seq


def test_mouse_selects_an_event_zooms_and_drags_the_tracks(tracks: Page) -> None:
    expect(slider(tracks).locator("canvas")).to_be_visible()
    # Go to a past moment, at which the tracks do not scroll with the time.
    tracks.keyboard.press("ArrowLeft")
    expect(tracks.locator(".when.past")).to_contain_text("PAST")
    x, y, controller_terms = place(tracks, "controller", 3)
    tracks.mouse.click(x + 2, y)
    expect(tracks.locator(".when.past")).to_contain_text(f"event {controller_terms}")
    before = tracks.evaluate(WINDOW)
    tracks.mouse.wheel(0, -600)
    wait_until(
        tracks,
        "async (width) => { const {theStage} = await import('/web/tracks/tab.js');"
        " const {from_us, to_us} = theStage().window; return to_us - from_us < width / 2; }",
        before[1] - before[0],
    )
    near, y, _ = place(tracks, "controller", 3)
    assert abs(near - x) < 4
    tracks.mouse.move(near + 2, y)
    tracks.mouse.down()
    tracks.mouse.move(near - 300, y, steps=4)
    tracks.mouse.up()
    expect(tracks.locator(".when.past")).not_to_contain_text(f"event {controller_terms} ")
    expect(tracks.locator(".when.past")).to_contain_text(re.compile(r"event \d+"))


def test_hovering_shows_the_span_under_the_pointer(tracks: Page) -> None:
    expect(slider(tracks).locator("canvas")).to_be_visible()
    x, y, seq = place(tracks, "controller", 3)
    tracks.mouse.move(x + 9, y)
    expect(tracks.locator(".tip")).to_contain_text("Controller: broker 3 · epoch 4. From")
    expect(tracks.locator(".tip")).to_contain_text(f"event {seq}")
    tracks.mouse.move(0, 0)
    expect(tracks.locator(".tip")).to_be_hidden()


def test_unchanged_tracks_are_not_redrawn(tracks: Page) -> None:
    tracks.keyboard.press("ArrowLeft")
    expect(tracks.locator(".when.past")).to_contain_text("PAST")
    # Zoom in until the right end of the tracks, which moves with the time, is out of view.
    for _ in range(9):
        tracks.keyboard.press("+")
    wait_until(tracks, ZOOMED)
    expect(slider(tracks)).to_have_attribute("aria-valuetext", re.compile(r"event \d+: "))
    before = tracks.evaluate(DRAWS)
    tracks.evaluate(
        """() => {
          window.touched = 0;
          const seen = new MutationObserver((found) => { window.touched += found.length; });
          const whatever = {subtree: true, childList: true, attributes: true, characterData: true};
          seen.observe(document.querySelector(".stage"), whatever);
        }"""
    )
    # Wait longer than half a second: clocks on the page are redrawn at that interval.
    tracks.evaluate("() => new Promise((resolve) => setTimeout(resolve, 1600))")
    assert tracks.evaluate(DRAWS) == before
    assert tracks.evaluate("window.touched") == 0


def test_failover_can_be_triggered_with_only_the_keyboard(watched: Watched, server: PageServer) -> None:
    page = watched.page
    page.goto(server.url)
    expect(card(page, "Broker 1")).to_contain_text("controller")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.ariaLabel") == "Kill broker 1":
            break
    page.keyboard.press("Enter")
    expect(card(page, "Broker 1")).to_contain_text("down")
    expect(card(page, "Broker 1").get_by_role("timer")).to_contain_text("session expires in about")
    expect(button(page, "Kill broker 1")).to_be_focused()

    server.is_controller(3, 4)
    gone = ["/brokers/ids/1", "/controller"]
    server.append_events("peer-2", e.SessionClosed(SESSION_1, 0x1_0000_0020, gone, "expiry 0x10000a2c3d001"))
    server.append_events("broker-3", e.ControllerElected(3, 4, 4))
    expect(page.get_by_label("controller epoch 4")).to_contain_text("broker 3 · epoch 4")
    expect(card(page, "Broker 3")).to_contain_text("controller")
    expect(page.get_by_role("status")).to_contain_text("Broker 3 is controller, epoch 4.")

    page.keyboard.press("e")
    expect(slider(page)).to_have_attribute("aria-valuetext", re.compile("broker-3 is controller, epoch 4"))
    page.keyboard.press("ArrowLeft")
    expect(slider(page)).to_have_attribute("aria-valuetext", re.compile("controller none · epoch 3"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("previous event, next event")
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    # Wait until the page shows the present, because buttons for actions are disabled before that.
    expect(page.locator(".when")).to_contain_text("LIVE")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.ariaLabel") == "Start broker 1":
            break
    page.keyboard.press("Enter")
    expect(card(page, "Broker 1")).to_contain_text("running")
    assert watched.complaints == []


@pytest.mark.parametrize("tab", ["Tracks", "Messages", "Links", "Table", "Lab", "Lessons"])
def test_no_tab_scrolls_horizontally_on_a_phone(tracks: Page, tab: str) -> None:
    tracks.set_viewport_size({"width": 390, "height": 844})
    turn_to(tracks, tab)
    expect(tracks.locator(".stage .panel").first).to_be_visible()
    assert tracks.evaluate("document.documentElement.scrollWidth") <= 390
    tracks.keyboard.press("ArrowLeft")
    expect(tracks.locator(".when.past")).to_contain_text("PAST")
    assert tracks.evaluate("document.documentElement.scrollWidth") <= 390


def test_projector_mode_shows_only_the_tracks_and_a_drawer(tracks: Page) -> None:
    tracks.keyboard.press("p")
    expect(region(tracks, "The cluster")).to_be_hidden()
    expect(slider(tracks)).to_be_visible()
    tracks.keyboard.press("r")
    expect(region(tracks, "The cluster")).to_be_visible()
    tracks.keyboard.press("p")
    expect(region(tracks, "Events")).to_be_visible()


SEEN = """() => [".transport", ".top", "html"].map((part) => {
  const of = document.querySelector(part);
  return of.scrollWidth - of.clientWidth;
})"""


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1440, 900), (1920, 1080)])
@pytest.mark.parametrize("projector", [False, True])
def test_projector_button_and_toolbar_fit_the_window(tracks: Page, width: int, height: int, projector: bool) -> None:
    """The projector button and the toolbar fit into the window, even if a moment is pinned.

    A pinned moment adds a button.
    """
    tracks.set_viewport_size({"width": width, "height": height})
    tracks.keyboard.press("ArrowLeft")
    tracks.keyboard.press("a")
    if projector:
        button(tracks, "Projector").click()
    expect(tracks.get_by_role("button", name="A ↔ here")).to_be_in_viewport(ratio=1)
    expect(button(tracks, "Projector")).to_be_in_viewport(ratio=1)
    expect(button(tracks, "Keys")).to_be_in_viewport(ratio=1)
    assert tracks.evaluate(SEEN) == [0, 0, 0]
    assert tracks.evaluate("document.querySelector('.transport').clientHeight") < 60, "one row"


def test_projector_at_1280_by_720_shows_two_partitions(page: Page, server: PageServer) -> None:
    """In projector mode at 1280 by 720, two partitions of three replicas each are visible.

    They are below the lanes of the controller and of three brokers.
    """
    server.has_topic("payments", {0: PartitionZnodes((1, 2, 3), 1, 0, (1, 2, 3), 3, 0)})
    led = e.LeaderElected("payments", 0, 1, 0, [1, 2, 3], [1, 2, 3], 0, 3, False, "new")
    server.append_events("broker-1", e.TopicCreated("payments", "id2", {0: [1, 2, 3]}), led)
    page.set_viewport_size({"width": 1280, "height": 720})
    turn_to(page, "Tracks")
    page.keyboard.press("p")
    fits = f"""async () => {{ {STAGE}
      const {{layout, height}} = stage.window;
      const partitions = layout.rows.filter(({{kind}}) => kind === "partition");
      const ends = partitions.map(({{top, extent}}) => layout.pinned_height + top + extent);
      const isProjector = document.documentElement.classList.contains("projector");
      return isProjector && ends.length === 2 && Math.max(...ends) <= height;
    }}"""
    wait_until(page, fits)


def test_many_partitions_share_one_lane_until_expanded(page: Page, server: PageServer) -> None:
    assignment = {number: [1, 2, 3] for number in range(200)}
    server.has_topic("many", {n: PartitionZnodes((1, 2, 3), 1, 0, (1, 2, 3), 3, 0) for n in assignment})
    led = [e.LeaderElected("many", n, 1, 0, r, r, 0, 3, False, "new") for n, r in assignment.items()]
    server.append_events("broker-1", e.TopicCreated("many", "id2", assignment), *led)
    turn_to(page, "Tracks")
    unfold = page.get_by_role("button", name="Expand many (200)")
    expect(unfold).to_be_visible()
    shown = f"async (label) => {{ {STAGE} return stage.window.layout.rows.some((row) => row.label === label); }}"
    tracks_show = functools.partial(wait_until, page, shown)
    tracks_show("many, 200 partitions")
    unfold.click()
    page.get_by_role("searchbox", name="Filter topics and partitions").fill("many-150")
    expect(page.get_by_role("button", name="Collapse many (200)")).to_be_visible()
    tracks_show("many-150")
    assert not page.evaluate(shown, "many-151")
