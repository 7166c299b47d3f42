"""What-if questions on the page: forecasts of a live node's death, and forks of simulated runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx as http
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.api.api_server import FakeFollower
from tests.browser import axe
from tests.browser.chromium import Watched, wait_here
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_page import button, region
from zabka.api.scenarios.process import ScenarioProcess
from zabka.compose.launch import player_argv
from zabka.journal import events as e

SIMULATED_MS = 90_000
"""Time in ms in which a seed or a fork is played on a busy machine."""


def ask(page: Page, node: str) -> Locator:
    """Ask the question from the node's menu, and return the dialog."""
    button(page, f"More on {node}").click()
    button(page, f"What if {node} is killed").click()
    return page.get_by_role("dialog", name=f"What if {node} died now?")


def test_answer_grows_and_shows_when_the_state_was_read(page: Page, server: PageServer) -> None:
    shown = ask(page, "broker 2")
    expect(shown).to_contain_text("1 future so far")
    expect(shown).to_contain_text("Live state read at")
    expect(shown.get_by_role("button", name="Ask again")).to_be_disabled()

    server.follower.released.set()
    expect(shown).to_contain_text("4 futures in a simulated world, with producers that use acks=all")
    expect(shown).to_contain_text("1 of 4 (10 to 60 %)")
    expect(shown).to_contain_text("median 6.1 s, 90 % 6.4 s, longest 6.6 s")
    expect(shown).to_contain_text("no interruption")
    expect(shown.get_by_role("list", name="Partitions that wait for broker 2")).to_contain_text(
        "orders-0 is not writable until broker 2 returns, in 1 of 4"
    )
    shown.get_by_text("Not included in the forecast").click()
    expect(shown).to_contain_text("Consumer groups, transactions and internal topics.")
    assert server.agent.asked == []

    shown.get_by_role("button", name="Ask with acks=1").click()
    wait_here(page, lambda: len(server.follower.asked) == 2)
    assert [asked[6] for asked in server.follower.asked] == ["all", "1"]
    expect(shown.get_by_role("button", name="Ask again")).to_be_enabled()
    page.keyboard.press("Escape")
    expect(shown).to_have_count(0)


def test_old_answer_is_marked_as_old(page: Page, server: PageServer) -> None:
    page.clock.install()
    server.follower.released.set()
    shown = ask(page, "peer 1")
    page.clock.run_for(3_000)
    expect(shown).to_contain_text("4 futures")
    expect(shown).not_to_contain_text("the cluster may have changed since")
    page.clock.run_for(40_000)

    def is_marked() -> bool:
        # On a busy machine the page can draw after the clock was moved: let its timers run on.
        page.clock.run_for(1_000)
        return "the cluster may have changed since" in shown.inner_text()

    wait_here(page, is_marked)


def test_refusal_of_the_api_is_shown(page: Page, server: PageServer) -> None:
    server.ensemble.stale = True
    shown = ask(page, "broker 3")
    expect(shown.get_by_role("alert")).to_contain_text("the ensemble has no quorum, so the state is out of date")
    expect(shown.get_by_role("button", name="Ask again")).to_be_enabled()


def test_answer_appears_after_the_token_is_given(watched: Watched, tmp_path: Path) -> None:
    server = PageServer(tmp_path, token="sesame").start()
    try:
        write_healthy_cluster(server)
        server.follower.released.set()
        page = watched.page
        page.goto(f"{server.url}#tab=table")
        shown = ask(page, "broker 2")
        dialog = page.get_by_role("dialog", name="The API requires a token")
        expect(dialog.get_by_label("token")).to_be_focused()
        expect(shown).to_have_count(0)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(shown).to_have_count(0)

        ask(page, "broker 2")
        dialog.get_by_label("token").fill("sesame")
        dialog.get_by_role("button", name="Use token").click()
        expect(shown).to_contain_text("4 futures in a simulated world")
        expect(dialog).to_have_count(0)
    finally:
        server.stop()
    assert watched.complaints == []


def test_dead_node_and_past_moment_have_no_question(page: Page, server: PageServer) -> None:
    button(page, "Kill broker 3").click()
    button(page, "More on broker 3").click()
    expect(button(page, "What if broker 3 is killed")).to_be_disabled()
    page.keyboard.press("Escape")
    server.append_events("broker-1", e.LeaderElected("orders", 0, 2, 5, [2, 1], [1, 2, 3], 7, 3, False, "test"))
    page.evaluate(f"location.hash = '#run=live&at={server.last_seq - 1}'")
    expect(region(page, "The cluster at this moment")).to_contain_text("Actions are off")
    button(page, "More on broker 1").click()
    expect(button(page, "What if broker 1 is killed")).to_be_disabled()


@pytest.fixture
def simulating(tmp_path: Path) -> Iterator[PageServer]:
    server = PageServer(tmp_path, player=ScenarioProcess(player_argv())).start()
    write_healthy_cluster(server)
    yield server
    server.stop()


class PlotFollower(FakeFollower):
    """Fake of the process that plays a course. It yields a half plot, and the whole one after `released`."""

    async def follow(self, *arguments: str, feed: bytes, patience_s: float) -> AsyncIterator[bytes]:
        self.asked.append(arguments)
        yield self.plot(1)
        await asyncio.to_thread(self.released.wait, SIMULATED_MS / 1000)
        yield self.plot(3)

    @staticmethod
    def plot(played: int) -> bytes:
        points = [
            {"at_us": place * 1_000_000, "losing": losing, "low": 0.1, "high": 1, "writable_us": None}
            for place, losing in enumerate((1, 4, 4))
        ]
        ended = {"loss_us": 3_000_000, "certain_us": 1_000_000 if played == 3 else None}
        return json.dumps({"futures": 4, "moments": 3, "points": points[:played], **ended}).encode() + b"\n"


def test_probability_of_a_loss_is_plotted_and_leads_to_moments(watched: Watched, simulating: PageServer) -> None:
    page, follower = watched.page, PlotFollower()
    simulating.stop()
    simulating.follower = follower
    simulating.start()
    page.goto(f"{simulating.url}#scenario=ensemble&seed=2&at=300&tab=tracks")
    begin = button(page, "How likely was a loss?")
    begin.click(timeout=SIMULATED_MS)
    course = region(page, "Probability of a loss")
    expect(course.get_by_role("status")).to_contain_text("1 of 3 moments played, 4 futures each")
    expect(begin).to_be_disabled()
    page.reload()
    expect(course.get_by_role("status")).to_contain_text("1 of 3 moments played, 4 futures each")
    expect(begin).to_be_disabled()
    course.get_by_role("button", name="Stop").click()
    expect(course.get_by_role("alert")).to_contain_text("Not complete: it was stopped")

    follower.released.set()
    begin.click()
    expect(course).to_contain_text("13:21.000 on, the loss was certain: each of 4 futures loses acknowledged records")
    expect(course.locator("b")).to_have_text("loss certain")
    assert axe.check(page).violations == []
    plot = course.get_by_role("slider", name="Share of futures that lose records")
    plot.press("Home")
    expect(plot).to_have_attribute("aria-valuetext", re.compile("13:20.* 1 of 4 futures lose .*10 to 100 %"))
    expect(plot).to_have_attribute("aria-valuenow", "1")
    plot.press("ArrowRight")
    expect(plot).to_have_attribute("aria-valuenow", "2")
    points = course.locator("i")
    for place in (2, 0):
        box, track = points.nth(place).bounding_box(), plot.bounding_box()
        assert box is not None and track is not None
        plot.click(position={"x": box["x"] + 4 - track["x"], "y": 10})
        expect(plot).to_have_attribute("aria-valuenow", str(place + 1))
    course.get_by_text("All moments as a table").click()
    expect(course.get_by_role("row")).to_have_count(4)
    assert watched.leave() == []


def test_seed_is_forked_at_its_moment_and_both_runs_open(watched: Watched, simulating: PageServer) -> None:
    page = watched.page
    page.goto(f"{simulating.url}#scenario=ensemble&seed=2&at=300")
    panel = region(page, "What if")
    expect(panel).to_be_visible(timeout=SIMULATED_MS)
    expect(panel.get_by_label("faults", exact=True)).to_contain_text("f1: ")
    assert axe.check(page).violations == []
    form = panel.get_by_role("form", name="Fork with a dead node")
    form.get_by_label("node", exact=True).select_option("peer-1")
    form.get_by_role("button", name="Died here").click()
    expect(panel).to_contain_text("peer-1 dies at event 300")
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible(timeout=SIMULATED_MS)
    expect(page.locator("main")).to_contain_text("peer-1 is killed for 10 s")
    fork, run = http.get(f"{simulating.url}/api/v1/runs").json()[1:3]
    assert (fork["pair"], fork["variant"]) == (run["id"], "peer-1 is killed for 10 s")

    page.evaluate(f"location.hash = '#run={fork['id']}&at=200'")
    expect(panel).to_contain_text("This fork can only be forked after its last change")
    expect(form.get_by_role("button", name="Died here")).to_be_disabled()
    page.evaluate(f"location.hash = '#run={fork['id']}&at=320'")
    expect(panel.get_by_label("from").get_by_role("option")).to_have_text(["this moment"])
    form.get_by_label("node", exact=True).select_option("peer-2")
    form.get_by_role("button", name="Died here").click()
    expect(page.locator("main")).to_contain_text("peer-1 is killed for 10 s, then peer-2 is", timeout=SIMULATED_MS)
    expect(page.get_by_role("region", name="First difference")).to_contain_text("peer-2")
    again = http.get(f"{simulating.url}/api/v1/runs").json()[1]
    assert (again["pair"], len(again["origin"]["changes"])) == (fork["id"], 2)

    page.evaluate(f"location.hash = '#run={run['id']}&at=300'")
    form = panel.get_by_role("form", name="Fork with another setting")
    form.get_by_label("setting").fill("tickTime")
    form.get_by_label("value").fill("700")
    form.get_by_role("button", name="Change").click()
    expect(panel.get_by_role("alert")).to_contain_text("tickTime cannot change at a moment")
    form.get_by_label("from").select_option("start")
    form.get_by_role("button", name="Change").click()
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible(timeout=SIMULATED_MS)
    expect(page.locator("main")).to_contain_text("tickTime=700 from the start")
    assert watched.leave() == []
