"""A long journal of a running cluster on the page.

Every moment shows the state computed from its events, steps skip no event, and one key returns to the present.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watched, wait_until
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.page_times import EVENTS, write_many_events
from tests.browser.test_fold import as_the_page_has_it
from tests.browser.test_moments import SHOWN
from tests.browser.test_page import card
from zabka.journal import events as e
from zabka.journal.cluster_state import ClusterState
from zabka.journal.fold import apply

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MOMENTS = 100
PAGE_END = 4_000
"""Number of the last event of a batch. The browser fetches events in batches of 500."""
VISIT = """async () => {
  const {theMoment} = await import("/web/main.js");
  window.visited = [];
  theMoment().subscribe(({seq, live}) => window.visited.push(live ? "live" : seq));
}"""
GO = """async (at) => {
  const {theMoment} = await import("/web/main.js");
  location.hash = `run=live&at=${at}`;
  while (theMoment().current().seq !== at) await new Promise(requestAnimationFrame);
}"""


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Yield the server of a cluster whose history has 20,000 events."""
    server = PageServer(tmp_path_factory.mktemp("long"), served_max=10 * EVENTS).start()
    write_healthy_cluster(server)
    write_many_events(server, EVENTS)
    yield server
    server.stop()


@pytest.fixture
def page(watched: Watched, long_history: PageServer) -> Iterator[Page]:
    """Yield the page of the cluster with the long history, at the present moment."""
    watched.page.goto(long_history.url)
    expect(card(watched.page, "Broker 1")).to_be_visible()
    yield watched.page
    assert watched.leave() == []


def folds(server: PageServer, numbers: list[int]) -> dict[int, Any]:
    """Return the state after each of these event numbers, as Python computes it.

    Python computes the state from the events up to that number. The numbers in a state have the page's format.
    """
    state, found = ClusterState(), {}
    for entry in server.numbered():
        apply(state, entry)
        if entry.seq in numbers:
            found[entry.seq] = as_the_page_has_it(json.loads(msgspec.json.encode(state)))
    return found


def test_page_and_python_compute_equal_states_of_20000_events(page: Page, long_history: PageServer) -> None:
    numbers = random.Random(11).sample(range(1, long_history.last_seq), MOMENTS)
    expected = folds(long_history, numbers)
    for seq in numbers:
        page.evaluate(GO, seq)
        shown = page.evaluate(SHOWN)
        assert shown["seq"] == seq
        assert shown["state"] == expected[seq], seq


def test_steps_across_a_batch_boundary_visit_each_event_once(page: Page) -> None:
    page.evaluate(GO, PAGE_END - 15)
    page.evaluate(VISIT)
    for key in ["ArrowRight"] * 30 + ["ArrowLeft"] * 30:
        page.keyboard.press(key)
    on, back = range(PAGE_END - 14, PAGE_END + 16), range(PAGE_END + 14, PAGE_END - 16, -1)
    wait_until(page, "() => window.visited.length >= 60")
    assert page.evaluate("window.visited") == [*on, *back]


def test_end_key_returns_to_live_without_a_gap(page: Page, long_history: PageServer) -> None:
    page.evaluate(GO, 700)
    changes = [e.IsrChanged("many", 0, [1, 2], 1, 90_000 + n, 90_000 + n, "caught_up") for n in range(50)]
    long_history.append_events("broker-1", *changes)
    page.evaluate(VISIT)
    page.keyboard.press("End")
    expect(page.locator(".when")).to_contain_text("LIVE")
    last = long_history.last_seq
    wait_until(page, f"() => document.querySelector('#events .sum b').textContent === '{last}'")
    shown = page.evaluate(SHOWN)
    assert shown["live"]
    assert shown["state"] == folds(long_history, [last])[last]
    assert page.evaluate("window.visited") == ["live"]
