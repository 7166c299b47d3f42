"""Lessons and the comparison of two runs in the browser, with the real player process.

The tests go from a key press to the rule that explains the result.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watched
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_page import button, region, turn_to
from zabka.api.scenarios.process import ScenarioProcess
from zabka.compose.launch import player_argv

PLAYED_MS = 90_000
"""Time limit for a run in ms. The player is a separate process, which may get little CPU time during the whole
suite.
"""


@pytest.fixture(scope="module")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Yield a server that runs scripts in a real player process."""
    server = PageServer(tmp_path_factory.mktemp("playing"), player=ScenarioProcess(player_argv())).start()
    write_healthy_cluster(server)
    yield server
    server.stop()


@pytest.fixture
def pupil(watched: Watched, playing: PageServer) -> Iterator[Page]:
    """Yield the page with an open lesson. At the end, its console must be empty."""
    watched.page.goto(f"{playing.url}#tab=lessons&lesson=high-watermark")
    yield watched.page
    assert watched.leave() == []


# Count only elements that can be clicked, because containers include the text of their children.
FOCUSED = """() => {
  const at = document.activeElement;
  return at.matches("button, a, summary") ? at.ariaLabel ?? at.textContent.trim() : "";
}"""


def press_until(page: Page, key: str, name: str) -> None:
    """Press a key repeatedly until the element with that name has the focus."""
    for _ in range(60):
        page.keyboard.press(key)
        if name in str(page.evaluate(FOCUSED)):
            return
    pytest.fail(f"{name} cannot be reached with {key}")


def test_lesson_can_be_completed_with_only_the_keyboard(pupil: Page) -> None:
    lesson = pupil.get_by_role("article", name="A follower truncates committed records")
    expect(lesson).to_contain_text("Before Kafka 0.11: what does it truncate?")
    expect(button(pupil, "Predict and run")).to_be_disabled()

    lesson.get_by_role("radio").first.focus()
    pupil.keyboard.press("Space")
    pupil.keyboard.press("ArrowDown")
    pupil.keyboard.press("ArrowDown")
    expect(lesson.get_by_role("radio").nth(2)).to_be_checked()
    # The Tab key skips elements that are still disabled.
    expect(button(pupil, "Predict and run")).to_be_enabled()
    press_until(pupil, "Tab", "Predict and run")
    pupil.keyboard.press("Enter")

    came = pupil.get_by_role("region", name="Result")
    expect(came).to_contain_text("Your prediction was right", timeout=PLAYED_MS)
    expect(came).to_contain_text("broker-4 orders-0: log truncated from 6 to 5 (high watermark)")
    expect(came).to_contain_text("Before Kafka 0.11 a new follower truncated its log to its own high watermark")
    kip = str(came.get_by_role("link", name="KIP-101").first.get_attribute("href"))
    assert kip.startswith("https://cwiki.apache.org/confluence/display/KAFKA/KIP-101+-+Alter+Replication+Protocol")
    source = came.get_by_role("link", name="broker_sim/replication/truncation.py").get_attribute("href")
    assert source == "/source/broker_sim/replication/truncation.py#TruncateToHighWatermark"
    expect(region(pupil, "Lessons")).to_contain_text("1 of 1 right")
    expect(region(pupil, "Why")).to_contain_text("log truncated from 6 to 5")

    press_until(pupil, "Tab", "Show the moment in the tracks")
    pupil.keyboard.press("Enter")
    expect(
        pupil.get_by_role("navigation", name="Views").get_by_role("link", name="Tracks", exact=True)
    ).to_have_attribute("aria-current", "page")
    assert ".bug&at=" in pupil.url


def test_wrong_prediction_looks_different_from_the_right_one(pupil: Page) -> None:
    lesson = pupil.get_by_role("article", name="A follower truncates committed records")
    lesson.get_by_role("radio").first.check()
    button(pupil, "Predict and run").click()

    came = pupil.get_by_role("region", name="Result")
    expect(came).to_contain_text("Your prediction was wrong", timeout=PLAYED_MS)
    ground = "choice => getComputedStyle(choice).backgroundColor"
    right, wrong, neither = (lesson.locator(".choice").nth(place).evaluate(ground) for place in (2, 0, 1))
    assert len({right, wrong, neither}) == 3
    expect(lesson.locator(".choice").first).to_contain_text("your prediction, not correct")


def test_run_with_a_changed_setting_opens_at_the_decisive_moment(pupil: Page) -> None:
    """The run of jepsen-2013 opens at its unclean election.

    A setting of the run allows this election, so the page does not call the election a bug.
    """
    turn_to(pupil, "Lab")
    button(pupil, "Play jepsen-2013").click()

    expect(region(pupil, "Why")).to_contain_text("UNCLEAN", timeout=PLAYED_MS)
    banner = pupil.get_by_role("banner")
    expect(banner.locator(".badge")).to_have_text("with unclean.leader.election.enable=true")
    turn_to(pupil, "Compare")
    parted = region(pupil, "First difference")
    expect(parted).to_contain_text("jepsen-2013, with unclean.leader.election.enable=true")
    expect(parted).to_contain_text("leader 2, leader epoch 1, ISR 2, UNCLEAN")
    expect(parted).to_contain_text("no leader, leader epoch 1, ISR 1")
    # The Compare tab uses the full height, not the height of the list of changes since a pinned moment.
    both = region(pupil, "Events of both runs, side by side")
    expect(both.locator("time").nth(8)).to_be_visible()
    seen = both.evaluate(
        "(list) => list.getBoundingClientRect().bottom <= list.parentElement.getBoundingClientRect().bottom"
    )
    height = pupil.locator(".side-by-side").evaluate("(tab) => [tab.clientHeight, tab.scrollHeight]")
    assert seen
    assert height[0] == height[1] > 400


def test_run_with_a_bug_opens_at_its_first_difference(pupil: Page) -> None:
    turn_to(pupil, "Lab")
    button(pupil, "Play kafka-1211").click()

    expect(
        pupil.get_by_role("navigation", name="Views").get_by_role("link", name="Tracks", exact=True)
    ).to_have_attribute("aria-current", "page", timeout=PLAYED_MS)
    expect(region(pupil, "Why")).to_contain_text("broker-4 orders-0: log truncated from 6 to 5 (high watermark)")
    expect(pupil.get_by_role("banner")).to_contain_text("with its bug")
    expect(pupil.get_by_role("banner").locator(".badge")).to_be_in_viewport()
    turn_to(pupil, "Compare")
    parted = region(pupil, "First difference")
    expect(parted).to_contain_text("broker-4 orders-0: log truncated from 6 to 5 (high watermark)")
    expect(parted).to_contain_text("Before Kafka 0.11 a new follower truncated")
    both = region(pupil, "Events of both runs, side by side")
    expect(both.locator(".first").first).to_contain_text("log truncated from 6 to 5")
    pupil.get_by_role("button", name="identical lines before").click()
    expect(both).to_contain_text("leads the ensemble, epoch 1")
