"""Run files on the page of a cluster: download, opening by button or by dropping, and links that run a script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.api.histories import played
from tests.api.test_uploads import lines
from tests.browser.chromium import Watched
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_lessons import PLAYED_MS
from tests.browser.test_page import button
from zabka.api.scenarios.process import ScenarioProcess
from zabka.compose.launch import player_argv

DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const drop = (type) => document.body.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true}));
  ["dragover", "drop"].forEach(drop);
}"""


@pytest.fixture(scope="module")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Yield a server that runs scripts in a real player process."""
    server = PageServer(tmp_path_factory.mktemp("playing"), player=ScenarioProcess(player_argv())).start()
    write_healthy_cluster(server)
    yield server
    server.stop()


@pytest.fixture
def page(watched: Watched, playing: PageServer) -> Iterator[Page]:
    watched.page.goto(playing.url)
    expect(watched.page.get_by_role("region", name="Tracks", exact=True)).to_be_visible()
    yield watched.page
    assert watched.leave() == []


def test_downloaded_run_opens_from_disk(page: Page, tmp_path: Path) -> None:
    button(page, "More on this run").click()
    with page.expect_download() as downloading:
        button(page, "Download this run").click()
    path = tmp_path / downloading.value.suggested_filename
    downloading.value.save_as(path)
    assert path.name == "zabka-cluster.html"
    page.goto(path.as_uri())
    expect(page.locator(".when")).to_contain_text("REPLAY")
    expect(page.get_by_role("region", name="The cluster at this moment")).to_contain_text("broker 1")


def test_journal_files_can_be_chosen_or_dropped_on_the_page(page: Page, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_bytes(lines(played()))
    page.locator("input[type=file]").set_input_files(tmp_path / "mine.jsonl")
    expect(page.locator("#run option:checked")).to_contain_text("mine.jsonl")
    expect(page.locator(".when")).to_contain_text(f"event {len(played())}")
    page.evaluate(DROP, ["dropped.jsonl", lines(played()).decode()])
    expect(page.locator("#run option:checked")).to_contain_text("dropped.jsonl")
    page.evaluate(DROP, ["wrong.jsonl", "no event"])
    expect(page.locator(".banner")).to_contain_text("not events of one history")


def test_link_to_a_scenario_and_a_copied_link_run_the_scenario(page: Page, playing: PageServer) -> None:
    page.goto("about:blank")
    page.goto(f"{playing.url}#scenario=kafka-1211&bug=yes&at=700&with=pair")
    expect(page.locator(".when")).to_contain_text("event 700", timeout=PLAYED_MS)
    expect(page.locator(".which")).to_contain_text("with its bug")
    stored = page.locator("#run option").count()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button(page, "Copy link #at=700").click()
    expect(page.locator("[data-done]")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == f"{playing.url}/#scenario=kafka-1211&bug=yes&at=700&with=pair"

    page.goto("about:blank")
    page.goto(link)
    expect(page.locator(".when")).to_contain_text("event 700")
    assert page.locator("#run option").count() == stored


def test_link_of_an_unknown_scenario_shows_an_error(page: Page) -> None:
    page.evaluate("location.hash = '#scenario=kafka-1&at=5'")
    expect(page.locator(".banner")).to_contain_text("there is no scenario kafka-1", timeout=PLAYED_MS)
