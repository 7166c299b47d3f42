"""Lecture mode, scripts of faults, and the filters of the library in the browser."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.api.api_server import FakePlayer, report_registrations
from tests.browser.chromium import wait_here
from tests.browser.page_server import PageServer
from tests.browser.test_page import button, region

LECTURE = {
    "zabka_lecture": 1,
    "title": "Two plays",
    "keep_topics": ["kept"],
    "plays": [
        {"title": "First play", "notes": "Point at the controller.", "tab": "table"},
        {"lesson": "acks", "notes": "Ask first."},
        {"title": "A live script", "script": {
            "driver": "world", "name": "one-kill", "title": "One kill", "peers": 3, "brokers": 3,
            "steps": [{"type": "At", "ms": 5}, {"type": "Endless"}],
        }},
    ],
}  # fmt: skip


def _opened(page: Page, tmp_path: Path) -> Locator:
    """Open the lecture's file, and return its bar."""
    file = tmp_path / "lecture.json"
    file.write_text(json.dumps(LECTURE))
    page.get_by_role("button", name="More on this run").first.click()
    with page.expect_file_chooser() as chooser:
        button(page, "Open a journal or a run…").click()
    chooser.value.set_files(file)
    return region(page, "Lecture")


def _press(page: Page, key: str, *repeated: bool) -> None:
    """Press a key several times within one task of the page, so that no response arrives in between."""
    page.evaluate(
        """([key, repeated]) => repeated.forEach((repeat) =>
          document.body.dispatchEvent(new KeyboardEvent("keydown", {key, repeat, bubbles: true, cancelable: true})))""",
        [key, [*repeated]],
    )


def test_lecture_is_opened_shown_by_keys_and_resets_the_cluster(page: Page, server: PageServer, tmp_path: Path) -> None:
    bar = _opened(page, tmp_path)
    expect(bar).to_contain_text("1 of 3 First play")
    expect(bar).to_contain_text("Point at the controller.")
    page.keyboard.press("n")
    expect(bar).not_to_contain_text("Point at the controller.")

    page.keyboard.press("PageDown")
    expect(page.get_by_role("article")).to_contain_text("acks")
    page.keyboard.press("PageDown")
    expect(bar).to_contain_text("3 of 3 A live script")
    page.keyboard.press("g")
    expect(bar).to_contain_text("one-kill.json: step 2 of 2, endless")
    report_registrations(server.agent, server.ensemble)
    page.keyboard.press("R")
    expect(button(page, "Really reset this cluster")).to_be_visible()
    page.keyboard.press("R")
    reset = page.get_by_role("status", name="Reset of the cluster")
    expect(reset).to_contain_text("The cluster was reset in")
    expect(reset).to_contain_text("stop scripts on this cluster: one-kill.json")
    assert "orders" not in server.ensemble.reading.topics

    page.keyboard.press("PageUp")
    expect(reset).to_have_count(0)
    page.reload()
    expect(region(page, "Lecture")).to_contain_text("2 of 3")
    page.keyboard.press("l")
    expect(region(page, "Lecture")).to_have_count(0)


def test_live_script_of_a_lecture_stays_on_the_page(page: Page, server: PageServer, tmp_path: Path) -> None:
    """It runs once if its key is pressed twice, and stays after a reload and after the start of a simulated run."""
    bar = _opened(page, tmp_path)
    expect(bar).to_contain_text("1 of 3")
    page.evaluate("location.hash = '#tab=lab&lecture=3'")
    expect(bar).to_contain_text("3 of 3 A live script")
    _press(page, "g", False, True, False)
    progress = "one-kill.json: step 2 of 2, endless"
    expect(bar).to_contain_text(progress)
    button(page, "Play kafka-708").click()
    expect(page.get_by_role("region", name="Run of kafka-708")).to_contain_text("queued")
    expect(bar).to_contain_text(progress)
    page.reload()
    expect(bar).to_contain_text(progress)
    assert len(httpx.get(f"{server.url}/api/v1/scenario-runs?live=true", trust_env=False).json()) == 1
    page.evaluate("location.hash = '#tab=lab&lecture=3'")
    region(page, "Script of faults").get_by_role("button", name="Stop", exact=True).click()
    expect(bar).not_to_contain_text(progress)
    assert isinstance(server.player, FakePlayer)
    assert len(server.player.files) == 1


def test_held_reset_key_does_not_confirm_the_reset(page: Page, server: PageServer, tmp_path: Path) -> None:
    bar = _opened(page, tmp_path)
    expect(bar).to_contain_text("1 of 3")
    _press(page, "R", False, True, True)
    expect(button(page, "Really reset this cluster")).to_be_visible()
    page.route("**/api/v1/resets/*", lambda route: route.fulfill(status=404, json={"detail": "there is no such reset"}))
    page.keyboard.press("R")
    expect(bar).to_contain_text("The API has restarted during the reset; reset again.")
    expect(button(page, "Reset this cluster")).to_be_enabled()


def test_moved_and_removed_plays_keep_the_bar_on_the_shown_play(page: Page, tmp_path: Path) -> None:
    bar = _opened(page, tmp_path)
    expect(bar).to_contain_text("1 of 3")
    page.keyboard.press("PageDown")
    expect(page.get_by_role("article")).to_contain_text("acks")
    button(page, "List").click()
    button(page, "Move play 2 up").click()
    expect(bar).to_contain_text("1 of 3 acks")
    button(page, "Move play 2 down").click()
    # A button acts on the list in which it was drawn, so wait for the new list.
    expect(page.get_by_role("listitem", name="Play 2")).to_contain_text("script one-kill")
    button(page, "Remove play 2").click()
    expect(bar).to_contain_text("1 of 2 acks")
    button(page, "Remove play 1").click()
    expect(bar).to_contain_text("1 of 1 First play")
    expect(page.get_by_role("article")).to_have_count(0)
    button(page, "Default list").click()
    expect(bar).to_contain_text("1 of 15 A healthy cluster")


def test_script_is_composed_run_stopped_and_saved(page: Page, server: PageServer, tmp_path: Path) -> None:
    page.evaluate("location.hash = '#tab=lab'")
    panel = region(page, "Script of faults")
    for at, action in (("8", "split"), ("2.5", "kill")):
        panel.get_by_label("at, s", exact=True).fill(at)
        panel.get_by_label("do", exact=True).select_option(action)
        if action == "split":
            panel.get_by_role("checkbox", name="broker-1").check()
        button(page, "Add step").click()
    steps = panel.get_by_role("list", name="Steps").get_by_role("listitem")
    expect(steps).to_have_count(3)
    expect(steps.first).to_contain_text("+2.5 skill broker-1")
    with page.expect_download() as saved:
        panel.get_by_role("button", name="Save as a file").click()
    file = json.loads(saved.value.path().read_text())
    assert (saved.value.suggested_filename, file["driver"], file["steps"][1:3]) == (
        "my-script.json", "world", [{"type": "At", "ms": 2500}, {"type": "Kill", "nodes": ["broker-1"]}]
    )  # fmt: skip

    button(page, "Run on this cluster").click()
    button(page, "Really break this cluster").click()
    expect(panel).to_contain_text("last run: passed")
    assert isinstance(server.player, FakePlayer)
    assert server.player.files[-1]["steps"] == file["steps"]

    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({**file, "steps": [{"type": "Split"}]}))
    with page.expect_file_chooser() as chooser:
        panel.get_by_role("button", name="Open…").click()
    chooser.value.set_files(wrong)
    expect(panel).to_contain_text("wrong.json cannot be opened: sides of step 1 (Split) is missing or not valid.")
    expect(steps).to_have_count(3)

    endless = tmp_path / "endless.json"
    endless.write_text(json.dumps({**file, "name": "endless", "steps": [{"type": "Endless"}]}))
    with page.expect_file_chooser() as chooser:
        panel.get_by_role("button", name="Open…").click()
    chooser.value.set_files(endless)
    expect(panel).to_contain_text("Endless")
    button(page, "Run on this cluster").click()
    button(page, "Really break this cluster").click()
    panel.get_by_role("button", name="Stop", exact=True).click()
    expect(panel).to_contain_text("it was stopped")


def test_faults_by_hand_become_a_script(page: Page, server: PageServer) -> None:
    page.evaluate("location.hash = '#tab=lab'")
    panel = region(page, "Script of faults")
    panel.get_by_role("button", name="Record").click()
    page.get_by_role("button", name="Kill broker 2").click()
    wait_here(page, lambda: server.agent.asked == ["kill broker-2"])
    server.settle()
    panel.get_by_role("button", name="Stop recording").click()
    expect(panel.get_by_role("list", name="Steps")).to_contain_text("kill broker-2")


def test_library_filters_by_subject_and_kind(page: Page) -> None:
    page.evaluate("location.hash = '#tab=lab'")
    library = region(page, "Outage library")
    rows = library.locator("tbody tr")
    expect(rows).to_have_count(3)
    library.get_by_label("subject").select_option("isr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("kafka-708")
    library.get_by_role("checkbox", name="runs on this cluster").check()
    library.get_by_label("system").select_option("ZooKeeper")
    expect(rows).to_have_count(0)
    library.get_by_label("subject").select_option("")
    library.get_by_label("system").select_option("")
    library.get_by_label("show").select_option("lesson")
    library.get_by_role("checkbox", name="runs on this cluster").uncheck()
    expect(rows).to_have_count(13)
    library.get_by_role("link", name="Open lesson acks").click()
    expect(page.get_by_role("article")).to_contain_text("acks")
