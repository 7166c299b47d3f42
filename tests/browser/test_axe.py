"""axe-core finds no violation of accessibility rules in any view of the page, dark and light, wide and narrow.

In a tall window, nothing covers the text of a view, so axe can compute every contrast. The other combinations of
colours, width and height are marked `long`, because these do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser import axe
from tests.browser.chromium import WAIT_MS
from tests.browser.page_server import PageServer
from tests.browser.test_moments import write_failover
from tests.browser.test_page import button, region
from zabka.api.exports.file import page_of
from zabka.api.exports.lesson_page import lesson_page
from zabka.api.exports.played import scenario_runs
from zabka.journal import events as e
from zabka.simulation.scenarios.lessons import LESSONS
from zabka.simulation.scenarios.library import LIBRARY

WIDE: ViewportSize = {"width": 1440, "height": 900}
WIDE_TALL: ViewportSize = {"width": 1440, "height": 6_000}
NARROW: ViewportSize = {"width": 390, "height": 844}
NARROW_TALL: ViewportSize = {"width": 390, "height": 9_000}
PASSED_MIN = 15
"""Minimum number of rules that pass in every view. An empty page passes fewer."""
SCREENS = [
    pytest.param(("dark", WIDE), id="dark-wide"),
    pytest.param(("light", NARROW_TALL), id="light-narrow"),
    *(
        pytest.param((scheme, size), marks=pytest.mark.long)
        for scheme, size in (
            ("light", WIDE),
            ("light", NARROW),
            ("dark", NARROW),
            ("light", WIDE_TALL),
            ("dark", WIDE_TALL),
            ("dark", NARROW_TALL),
        )
    ),
]


@pytest.fixture(params=SCREENS)
def page(browser_process: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    scheme, size = request.param
    context = browser_process.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    yield page
    context.close()


def assert_accessible(page: Page, view: str) -> None:
    """Check a view of the page."""
    found = axe.check(page)
    assert found.violations + found.unsure == [], view
    assert found.passed >= PASSED_MIN, view


def test_axe_finds_no_violation_in_the_live_page(page: Page, server: PageServer) -> None:
    write_failover(server)
    server.append_events("broker-2", e.GroupChanged(2, "readers", "Stable", 4, "reader-1", ["reader-1"]))
    page.goto(server.url)
    expect(page.locator(".when")).to_contain_text("LIVE")
    assert_accessible(page, "tracks")
    page.keyboard.press("x")
    expect(region(page, "Why").locator(".effect")).to_be_visible()
    assert_accessible(page, "tracks of a past moment")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert_accessible(page, "keys")
    for tab in ("messages", "links", "table", "lab", "lessons"):
        page.goto("about:blank")
        page.goto(f"{server.url}#tab={tab}")
        expect(page.locator(f"main.on-{tab} .stage .panel h2").first).to_be_visible()
        if tab == "lab":
            expect(page.get_by_role("row", name="Scenario kafka-708")).to_be_visible()
        if tab == "table":
            button(page, "Create topic").click()
        assert_accessible(page, tab)


def test_axe_finds_no_violation_in_menus_and_dialogs(page: Page, server: PageServer) -> None:
    server.follower.released.set()
    page.goto(f"{server.url}#tab=table")
    button(page, "More on broker 2").click()
    assert_accessible(page, "menu of a node")
    button(page, "What if broker 2 is killed").click()
    expect(page.get_by_role("dialog")).to_contain_text("4 futures")
    assert_accessible(page, "forecast")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an exported run of a scenario and the page of a lesson."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "run.html").write_text(page_of(scenario_runs(LIBRARY["kafka-1211"]), "kafka-1211.bug"))
    (folder / "lesson.html").write_text(lesson_page(next(iter(LESSONS.values()))))
    return folder


@pytest.mark.parametrize("tab", ["tracks", "compare"])
def test_axe_finds_no_violation_in_an_exported_run(page: Page, files: Path, tab: str) -> None:
    page.goto(f"{(files / 'run.html').as_uri()}#tab={tab}{'&with=kafka-1211' if tab == 'compare' else ''}")
    expect(page.locator(f"main.on-{tab} .stage .panel h2").first).to_be_visible()
    assert_accessible(page, tab)


def test_axe_finds_no_violation_in_a_lesson_page(page: Page, files: Path) -> None:
    page.goto((files / "lesson.html").as_uri())
    page.get_by_role("radio").first.check()
    button(page, "Predict and run").click()
    expect(region(page, "Result")).to_be_visible()
    assert_accessible(page, "lesson")


def test_axe_reports_a_button_without_a_name(page: Page, server: PageServer) -> None:
    page.goto(server.url)
    expect(page.locator(".when")).to_contain_text("LIVE")
    page.evaluate("() => document.querySelector('main').append(document.createElement('button'))")
    found: Any = axe.check(page).violations
    assert [each.partition(" ")[0] for each in found] == ["button-name"]
