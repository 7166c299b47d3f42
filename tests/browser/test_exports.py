"""An exported run: an HTML file that a browser opens from disk with the network off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import VIEWPORT, Watched, wait_until
from tests.browser.test_fold import as_the_page_has_it
from tests.browser.test_page import button, region
from zabka.api.exports.explained import Explained
from zabka.api.exports.file import page_of
from zabka.api.exports.played import scenario_runs, seed_run
from zabka.api.exports.recorded import Recorded
from zabka.api.runs.divergences import first_difference
from zabka.api.runs.messages import Messages, Window
from zabka.journal.fold import fold
from zabka.simulation.scenarios.library import LIBRARY

EVENTS, BYTES_MAX = 20_000, 1_500_000
ASK = """async ([method, ...asked]) => {
  const {source} = await import("web/source/source.js");
  return JSON.stringify(await source()[method](...asked));
}"""


@pytest.fixture(scope="module")
def runs() -> list[Recorded]:
    return scenario_runs(LIBRARY["kafka-1211"])


@pytest.fixture(scope="module")
def exported(runs: list[Recorded], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "run.html"
    path.write_text(page_of(runs, "kafka-1211.bug"))
    return path


@pytest.fixture(scope="module")
def offline(browser_process: Browser) -> Iterator[Watched]:
    context = browser_process.new_context(viewport=VIEWPORT, reduced_motion="reduce", offline=True)
    yield Watched(context)
    context.close()


@pytest.fixture
def page(offline: Watched, exported: Path) -> Iterator[Page]:
    """Yield the page of the exported file. It must send no request, and its console must be empty at the end."""
    requests: list[str] = []
    offline.page.on("request", lambda request: requests.append(request.url))
    offline.page.goto(exported.as_uri())
    expect(region(offline.page, "Tracks")).to_be_visible()
    yield offline.page
    assert [url for url in requests if not url.startswith(("file:", "blob:", "data:"))] == []
    assert offline.leave() == []


def ask(page: Page, method: str, *asked: Any) -> Any:
    """Call a method of the object with which the exported page reads its runs."""
    return json.loads(page.evaluate(ASK, [method, *asked]))


def in_json(value: object) -> Any:
    return as_the_page_has_it(json.loads(msgspec.json.encode(value)))


def test_exported_run_opens_at_its_decisive_moment(page: Page, runs: list[Recorded]) -> None:
    decisive = runs[1].about.decisive_seq
    expect(page.locator(".when")).to_contain_text(f"event {decisive}")
    expect(page.locator(".which")).to_contain_text("with its bug")
    expect(region(page, "Why")).to_contain_text("First cause: this fault.")
    expect(page.get_by_role("button", name="Kill broker 1")).to_have_count(0)
    expect(page.get_by_role("link", name="Lab", exact=True)).to_have_count(0)


def test_keys_and_links_work_in_an_exported_run(page: Page, exported: Path, runs: list[Recorded]) -> None:
    decisive = runs[1].about.decisive_seq or 0
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".when")).to_contain_text(f"event {decisive - 1}")
    page.keyboard.press("Home")
    expect(page.locator(".when")).to_contain_text("event 1")
    page.keyboard.press("e")
    expect(region(page, "Why")).to_contain_text("leads the ensemble")
    page.keyboard.press("End")
    expect(page.locator(".when")).to_contain_text(f"event {runs[1].about.last_seq}")

    page.goto("about:blank")
    page.goto(f"{exported.as_uri()}#run=kafka-1211&at=1500&tab=table")
    expect(page.locator(".when")).to_contain_text("event 1500")
    expect(page.get_by_role("heading", name="orders")).to_be_visible()


def test_lecture_works_in_an_exported_run(page: Page, runs: list[Recorded], tmp_path: Path) -> None:
    plays = [{"scenario": "kafka-1211", "tab": "table"}, {"scenario": "kafka-1211", "bug": True}, {"lesson": "acks"}]
    file = tmp_path / "lecture.json"
    file.write_text(json.dumps({"zabka_lecture": 1, "plays": plays}))
    page.keyboard.press("l")
    bar = region(page, "Lecture")
    expect(bar).to_contain_text("1 of 1 The moment of this file")
    button(page, "List").click()
    with page.expect_file_chooser() as chooser:
        button(page, "Open a file…").click()
    chooser.value.set_files(file)
    expect(bar).to_contain_text("1 of 3 kafka-1211")
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    page.keyboard.press("PageDown")
    expect(page.locator(".when")).to_contain_text(f"event {runs[1].about.decisive_seq}")
    page.keyboard.press("PageDown")
    expect(bar).to_contain_text("cannot be shown: there is no lesson acks")
    expect(button(page, "Reset this cluster")).to_have_count(0)


def test_exported_run_plays_back_and_shows_messages(page: Page) -> None:
    page.keyboard.press("Home")
    button(page, "▶ play").click()
    expect(page.locator(".when")).not_to_contain_text("event 1 ")
    button(page, "❚❚ pause").click()
    page.get_by_role("link", name="Messages").click()
    expect(region(page, "Messages")).to_contain_text("messages in")
    wait_until(page, "async () => (await import('web/messages/tab.js')).theDiagram().scene?.arrows.length > 0")


def test_two_exported_runs_can_be_compared(page: Page, runs: list[Recorded]) -> None:
    page.get_by_role("link", name="Compare").click()
    found = first_difference(runs[1].entries, runs[0].entries)
    expect(region(page, "Side by side")).to_contain_text("truncated")
    assert ask(page, "divergence", "kafka-1211.bug", "kafka-1211")["at"] == in_json(found["at"])


def test_causes_in_an_exported_run_equal_the_causes_of_the_api(page: Page, runs: list[Recorded]) -> None:
    run = runs[1]
    explained = Explained(run)
    expected = {entry.seq: in_json(explained.why(entry.seq)) for entry in run.entries}
    found = page.evaluate(
        """async ([run, numbers]) => {
          const {source} = await import("web/source/source.js");
          return JSON.stringify(await Promise.all(numbers.map((seq) => source().why(run, seq))));
        }""",
        [run.about.id, list(expected)],
    )
    for steps, known in zip(json.loads(found), expected.values(), strict=True):
        assert steps == [{name: step[name] for name in step if name != "link"} for step in known]


def test_states_in_an_exported_run_equal_those_of_its_journal(page: Page, runs: list[Recorded]) -> None:
    run = runs[0]
    for seq in (0, 1, 700, 999, 1000, 1001, 1905, run.about.last_seq):
        assert ask(page, "state", run.about.id, seq) == in_json(fold(run.entries[:seq])), seq


def test_messages_in_an_exported_run_equal_those_of_the_api(page: Page, runs: list[Recorded]) -> None:
    run = runs[1]
    begin_us, end_us = run.about.first_us + 2_000_000, run.about.first_us + 5_000_000
    for classes, limit in ((["data", "fetch"], 50), ([], 0), (["controller"], 5_000)):
        expected = Messages(run.messages).select(Window(begin_us, end_us, frozenset(classes), limit))
        assert ask(page, "messages", run.about.id, begin_us, end_us, classes, limit) == in_json(expected._asdict())


def test_incidents_of_an_exported_run_are_copied_as_markdown(page: Page) -> None:
    panel = region(page, "Incidents")
    expect(panel).to_contain_text("2 incidents in view")
    panel.locator("summary").first.click()
    expect(panel.locator("details[open]")).to_contain_text("ISRs without broker 2 for 6,018 ms: orders-0")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button(page, "Copy as Markdown").click()
    expect(panel.locator("[data-done=yes]")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith("### 22:13:22.")


def test_opened_file_does_not_replace_runs_with_the_same_ids(page: Page, exported: Path, runs: list[Recorded]) -> None:
    page.goto("about:blank")
    page.goto(exported.as_uri())
    expect(region(page, "Tracks")).to_be_visible()
    part = runs[0].part(None, runs[0].about.first_us + 2_000_000)
    opened = page.evaluate(
        """async (text) => {
          const {source} = await import("web/source/source.js");
          return source().open(new File([text], "other.html"));
        }""",
        page_of([part], part.about.id),
    )
    assert opened == f"{part.about.id}-2"
    assert ask(page, "info", opened)["last_seq"] == part.about.last_seq
    assert ask(page, "info", part.about.id)["last_seq"] == runs[0].about.last_seq


def test_exported_part_of_a_run_starts_with_the_state_before_it(
    offline: Watched, runs: list[Recorded], tmp_path: Path
) -> None:
    run = runs[1]
    begin_us = run.about.first_us + 5_000_000
    part = run.part(begin_us, run.about.first_us + 9_500_000)
    path = tmp_path / "part.html"
    path.write_text(page_of([part], part.about.id))
    page = offline.page
    page.goto(f"{path.as_uri()}#run={part.about.id}")
    first, last = part.about.first_seq, part.about.last_seq
    assert 1 < first < last < run.about.last_seq
    expect(page.locator(".when")).to_contain_text(f"event {last}")
    page.keyboard.press("Home")
    expect(page.locator(".when")).to_contain_text(f"event {first}")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".when")).to_contain_text(f"event {first + 1}")
    assert ask(page, "state", part.about.id, last) == in_json(fold(run.entries[:last]))
    assert ask(page, "state", part.about.id, first - 1) == in_json(fold(run.entries[: first - 1]))
    ends = {step["end"] for entry in part.entries for step in ask(page, "why", part.about.id, entry.seq)[-1:]}
    assert ends >= {"fault", "unknown"}
    assert offline.leave() == []


def test_url_of_another_run_shows_the_exported_run_and_an_error(offline: Watched, exported: Path) -> None:
    offline.page.goto(f"{exported.as_uri()}#run=r1a2b3c4d&at=5")
    expect(offline.page.get_by_role("alert")).to_contain_text("does not contain the run r1a2b3c4d")
    expect(region(offline.page, "Tracks")).to_be_visible()
    assert offline.leave() == []


def test_exported_seed_run_is_at_most_1_5_mb() -> None:
    """The exported file of a run with 20,000 events and its messages has at most 1.5 MB."""
    run = seed_run(7, "chaos", None, "")
    size = len(page_of([run], run.about.id))
    empty = len(page_of([run.part(None, run.about.first_us)], run.about.id))
    assert len(run.entries) > EVENTS / 4
    assert empty + (size - empty) * EVENTS / len(run.entries) < BYTES_MAX
