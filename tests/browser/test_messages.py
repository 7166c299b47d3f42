"""The space-time diagram draws or counts each message in its time window. It works with mouse and keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.api.api_server import settings
from tests.browser.chromium import Watched, wait_until
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_page import region, turn_to
from zabka.api.runs.intake import SIMULATION_BEGINS_US, on_one_clock
from zabka.api.runs.kept import KeptRuns
from zabka.api.runs.run_models import Run
from zabka.journal.events import ControllerElected, Entry, FollowershipTaken
from zabka.journal.reader import decode_line
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.run import run_with_journal
from zabka.simulation.scenarios.library import LIBRARY, play
from zabka.simulation.seeds.whole_cluster import WHOLE_CLUSTER

RUN = "r00001211"
WHOLE_RUN, WHOLE_SEED = "r00000003", 3
"""Id and seed of a simulated run of complete server processes, with three peers and a killed controller."""
ASKED = "performance.getEntriesByType('resource').map(e => e.name).filter(n => n.includes('/messages?')).at(-1)"
PAINTED = """() => {
  const canvas = document.querySelector(".spacetime canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let at = 3; at < data.length; at += 4) if (data[at]) count += 1;
  return count > 10_000;
}"""


def followed(entry: Entry) -> bool:
    return isinstance(entry.event, FollowershipTaken) and entry.mono_us < 10_000_000


class Failover:
    """Server that has stored a run of kafka-1211 with its messages."""

    def __init__(self, directory: Path) -> None:
        self.tap = MessageTap()
        verdict = play(LIBRARY["kafka-1211"], self.tap, MessageTap())
        journal = [msgspec.structs.replace(e, wall_us=SIMULATION_BEGINS_US + e.mono_us) for e in verdict.journal]
        # Find the last event with which broker 4 becomes a follower of broker 3, during the failover.
        follows = [seq for seq, entry in enumerate(journal, 1) if entry.node == "broker-4" and followed(entry)]
        self.seq = follows[-1]
        times = [entry.wall_us for entry in journal]
        run = Run(
            id=RUN, kind="scenario", title="kafka-1211", of="kafka-1211", first_seq=1, last_seq=len(journal),
            first_us=min(times), last_us=max(times), events=len(journal), created_ms=1,
        )  # fmt: skip
        kept = KeptRuns(settings(directory).data / "runs")
        file = directory / "heard.jsonl"
        file.write_bytes(b"".join(self.tap.lines()))
        kept.keep(run, journal, file)
        self.whole_tap = MessageTap()
        self.whole_seq = self._keep_whole(kept, directory / "whole.jsonl")
        self.server = PageServer(directory).start()
        write_healthy_cluster(self.server)

    def _keep_whole(self, kept: KeptRuns, file: Path) -> int:
        """Store a run of complete server processes with its messages.

        Return the number of the run's last ControllerElected event.
        """
        # Use another thread, because simulated processes run their own event loops and the browser's loop runs in this
        # thread.
        with ThreadPoolExecutor(1) as thread:
            _, lines = thread.submit(run_with_journal, WHOLE_SEED, WHOLE_CLUSTER, tap=self.whole_tap).result()
        journal = on_one_clock([decode_line(line) for line in lines])
        file.write_bytes(b"".join(self.whole_tap.lines()))
        run = Run(
            id=WHOLE_RUN, kind="seed", title="Seed 3 of whole-cluster", of="3", first_seq=1, last_seq=len(journal),
            first_us=journal[0].wall_us, last_us=journal[-1].wall_us, events=len(journal), created_ms=2,
        )  # fmt: skip
        kept.keep(run, journal, file)
        return max(seq for seq, entry in enumerate(journal, 1) if isinstance(entry.event, ControllerElected))

    @property
    def url(self) -> str:
        return f"{self.server.url}#run={RUN}&at={self.seq}&tab=messages"


@pytest.fixture(scope="module")
def failover(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failover]:
    made = Failover(tmp_path_factory.mktemp("failover"))
    yield made
    made.server.stop()


@pytest.fixture
def page(watched: Watched, failover: Failover) -> Iterator[Page]:
    watched.page.goto(failover.url)
    expect(watched.page.locator("#messages header")).to_contain_text(re.compile(r"[1-9]\d* messages in [\d.]+ ms"))
    expect(watched.page.locator(".phases")).to_be_visible()
    yield watched.page
    assert watched.leave() == []


def number(text: str) -> int:
    found = re.search(r"\d+", text)
    assert found is not None
    return int(found[0])


def drawn_and_hidden(page: Page, tap: MessageTap) -> tuple[int, int]:
    """Return how many messages are drawn, and how many are hidden and only counted.

    The sum must be the number of messages in the time window.
    """
    asked = page.evaluate(ASKED)
    begin, end = (int(found) for found in re.findall(r"(?:from|to)_us=(\d+)", asked))
    there = [
        message
        for message in tap.messages
        if message.sent_us <= end - SIMULATION_BEGINS_US
        and (message.sent_us if message.arrived_us is None else message.arrived_us) >= begin - SIMULATION_BEGINS_US
    ]
    drawn = number(page.locator("#messages header span").inner_text())
    counted = [text for text in page.locator("#messages .chip .count").all_inner_texts() if re.search(r"\d", text)]
    hidden = sum(map(number, counted))
    assert drawn + hidden == len(there) > 50
    return drawn, hidden


def test_every_message_of_a_full_process_run_is_drawn_or_counted(page: Page, failover: Failover) -> None:
    page.goto("about:blank")
    page.goto(f"{failover.server.url}#run={WHOLE_RUN}&at={failover.whole_seq}&tab=messages")
    wait_until(page, f"() => {ASKED}?.includes('{WHOLE_RUN}')")
    wait_until(page, PAINTED)
    expect(page.locator("#messages header span")).to_contain_text(re.compile(r"[1-9]\d* messages"))
    assert drawn_and_hidden(page, failover.whole_tap)[0] > 50


def test_every_message_of_the_failover_is_drawn_or_counted(page: Page, failover: Failover) -> None:
    drawn, hidden = drawn_and_hidden(page, failover.tap)
    assert hidden > 0

    page.get_by_text("Show as a table").click()
    expect(page.locator("#messages .twin tbody tr")).to_have_count(drawn)


def test_pings_are_hidden_until_they_are_switched_on(page: Page) -> None:
    before = number(page.locator("#messages header span").inner_text())
    chip = page.get_by_role("button", name="pings")
    hidden = number(chip.inner_text())
    chip.click()
    expect(page.locator("#messages header span")).to_contain_text(f"{before + hidden} messages")


def test_failover_phases_are_shown_above_the_diagram(page: Page) -> None:
    assert re.sub(r"\s+", " ", page.locator(".phases").inner_text()).startswith(
        "expire 1.2 ms read 5.1 ms decide 1.4 ms"
    )


def test_request_fault_form_is_filled_in_from_a_message(watched: Watched, tmp_path: Path) -> None:
    request = {
        "id": 1, "arrived_us": 1, "from": "shop-1", "to": "broker-2", "class": "data", "kind": "Produce",
        "subject": {"acks": -1, "names": ["my-orders-0"]}, "bytes": 9, "answers": None, "lost": None,
    }  # fmt: skip
    page, server = watched.page, PageServer(tmp_path).start()
    try:
        write_healthy_cluster(server)
        answer = {"messages": [{**request, "sent_us": 1}], "hidden": {}, "truncated": False}
        page.route("**/runs/live/messages?*", lambda route: route.fulfill(json=answer))
        page.goto(f"{server.url}#tab=messages")
        page.get_by_text("Show as a table").click()
        page.get_by_role("button", name="Add a fault for the next request like this: Produce from shop-1").click()
        form = page.get_by_role("form", name="Add a request fault")
        for label, value in (
            ("request", "Produce"),
            ("topic", "my-orders"),
            ("client id", "shop-1"),
            ("node", "broker-2"),
        ):
            expect(form.get_by_label(label, exact=True)).to_have_value(value)
        form.get_by_role("button", name="Add").click()
        expect(region(page, "Request faults").get_by_role("listitem")).to_contain_text(
            "Produce client_id=shop-1 topic=my-orders on broker-2: drop_response, once"
        )
    finally:
        server.stop()


def test_keys_select_messages_and_jump_to_their_moments(page: Page) -> None:
    before = page.url
    page.locator(".spacetime canvas").focus()
    page.keyboard.press(".")
    expect(page.locator("#messages .told")).to_contain_text("→")
    first = page.locator("#messages .told").inner_text()
    page.keyboard.press(".")
    expect(page.locator("#messages .told")).not_to_have_text(first)
    page.keyboard.press("Enter")
    expect(page).not_to_have_url(before)
    expect(page.locator("#messages .told")).to_contain_text("→")


def test_tracks_tab_of_a_stored_run_shows_its_lanes(page: Page) -> None:
    turn_to(page, "Tracks")
    wait_until(page, "async () => (await import('/web/tracks/tab.js')).theStage()?.window?.spans.count > 20")
    expect(page.get_by_text("Cannot read the history")).to_have_count(0)


def test_reloaded_page_shows_the_name_of_its_run(page: Page, failover: Failover) -> None:
    expect(page.get_by_label("run", exact=True)).to_have_value(RUN)
    for seq in (failover.seq, failover.seq - 5):
        page.goto(f"{failover.server.url}#run={RUN}&at={seq}&tab=messages")
        page.reload()
        expect(page.locator("#messages header")).to_contain_text(re.compile(r"[1-9]\d* messages in [\d.]+ ms"))
        expect(page.get_by_label("run", exact=True)).to_have_value(RUN)


@pytest.mark.parametrize("axis", ["Even spacing", "Real time", "Skip idle time"])
def test_message_diagram_is_painted_with_every_axis(page: Page, axis: str) -> None:
    chosen = page.get_by_role("group", name="axis").get_by_role("button", name=axis)
    chosen.click()
    expect(chosen).to_have_attribute("aria-pressed", "true")
    wait_until(page, PAINTED)


def test_message_axis_is_evenly_spaced_by_default(page: Page) -> None:
    """The time axis is spaced evenly per event by default; one click switches to real time.

    The controller sends a dozen messages in the same millisecond.
    """
    axes = page.get_by_role("group", name="axis")
    expect(axes.get_by_role("button", name="Even spacing")).to_have_attribute("aria-pressed", "true")
    axes.get_by_role("button", name="Real time").click()
    expect(axes.get_by_role("button", name="Even spacing")).to_have_attribute("aria-pressed", "false")


DIAGRAM = """(async () => {
  const diagram = (await import('/web/messages/tab.js')).theDiagram();
  while (diagram.scene === null) await new Promise(requestAnimationFrame);
  return diagram;
})()"""
"""Waits until the tab has drawn its first scene."""
WINDOW = f"{DIAGRAM}.then(({{shown}}) => [shown.window.from_us, shown.window.to_us])"
MOMENT = "import('/web/main.js').then(({theMoment}) => theMoment().entry()?.wall_us ?? 0)"


def shown_window(page: Page) -> tuple[int, int]:
    """Return the start and end of the diagram's time window in µs."""
    begin, end = page.evaluate(WINDOW)
    return begin, end


def test_zoom_near_an_edge_keeps_the_current_moment_visible(page: Page) -> None:
    wait_until(page, f"() => {MOMENT}")
    moment = page.evaluate(MOMENT)
    page.get_by_role("button", name="Real time").click()
    page.get_by_role("button", name="Later").click()
    wait_until(page, f"(us) => {WINDOW}.then(([begin, end]) => us - begin < (end - begin) / 4)", moment)
    begin, end = shown_window(page)
    for _ in range(3):
        page.get_by_role("button", name="Zoom in").click()
    eighth = (end - begin) / 8
    wait_until(page, f"(least) => {WINDOW}.then(([begin, end]) => end - begin < least)", eighth * 1.01)
    begin, end = shown_window(page)
    assert end - begin == pytest.approx(eighth, rel=0.01)
    assert begin <= moment <= end


def test_diagram_window_moved_by_the_user_is_not_moved_back(page: Page) -> None:
    before = shown_window(page)
    # Half of the window's width can be a fraction of a microsecond, which the page rounds up.
    step = (before[1] - before[0] + 1) // 2
    for _ in range(3):
        page.get_by_role("button", name="Later").click()
    wait_until(page, f"(begin) => {WINDOW}.then(([now]) => now === begin)", before[0] + 3 * step)
    wait_until(page, f"() => {ASKED}.includes('from_us={before[0] + 3 * step}')")
    page.evaluate("import('/web/tracks/tab.js').then(() => new Promise((drawn) => setTimeout(drawn, 1200)))")
    assert shown_window(page)[0] == before[0] + 3 * step
    page.get_by_role("button", name="Show the activity around this moment").click()
    wait_until(page, f"(begin) => {WINDOW}.then(([now]) => now === begin)", before[0])


def test_moment_outside_the_diagram_window_moves_the_window(page: Page) -> None:
    for _ in range(4):
        page.get_by_role("button", name="Later").click()
    page.keyboard.press("ArrowLeft")
    wait_until(
        page, f"async () => {{ const us = await {MOMENT}; const [a, b] = await {WINDOW}; return a <= us && us <= b; }}"
    )


def test_burst_of_messages_fills_the_width_of_the_diagram(page: Page) -> None:
    page.get_by_role("button", name="Real time").click()
    share = f"""async () => {{
      const {{arrows, points, gutter, width}} = (await {DIAGRAM}).scene;
      const xs = [...arrows.flatMap(({{x1, x2}}) => [x1, x2]), ...points.map(({{x}}) => x)];
      return (Math.max(...xs) - Math.min(...xs)) / (width - gutter) > 0.85;
    }}"""
    wait_until(page, share)


def test_message_diagram_on_a_phone_does_not_scroll_horizontally(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    wait_until(page, "() => document.querySelector('.spacetime canvas').clientWidth < 390")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
