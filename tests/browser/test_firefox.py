"""The page in Firefox: tracks are drawn, keys change the displayed moment, tabs open, the console stays empty."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.firefox import POLL_S, WAIT_S, Firefox
from tests.browser.page_server import PageServer
from tests.browser.test_moments import write_failover
from zabka.api.exports.file import page_of
from zabka.api.exports.played import scenario_runs
from zabka.journal import events as e
from zabka.simulation.scenarios.library import LIBRARY

TABS = ["messages", "links", "table", "lab", "lessons", "compare"]
TEXT = "return document.querySelector(arguments[0])?.textContent.includes(arguments[1]) ?? false;"
NO_MODULE = """
  const module = document.createElement("script");
  [module.type, module.src] = ["module", "/web/sentences.json"];
  document.head.append(module);
"""
PAINTED = """
  const canvas = document.querySelector(".tracks-view canvas");
  if (!canvas?.width) return false;
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4 * 97) colours.add(`${data[at]} ${data[at + 1]} ${data[at + 2]}`);
  return colours.size > 12;
"""


@pytest.fixture
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    browser = Firefox(tmp_path_factory.mktemp("firefox"))
    yield browser
    browser.quit()


@pytest.fixture
def failed_over(server: PageServer) -> PageServer:
    """Return the server of a healthy cluster whose journal ends with a failover."""
    write_failover(server)
    return server


def test_page_works_in_firefox(firefox: Firefox, failed_over: PageServer) -> None:
    firefox.go(failed_over.url)
    firefox.until(TEXT, ".when", "LIVE")
    firefox.until(PAINTED)
    firefox.until("return [...document.querySelectorAll('#events .events li')].length > 10")

    firefox.press("Home")
    firefox.until(TEXT, ".when.past", "event 1")
    elected = next(entry.seq for entry in failed_over.numbered() if isinstance(entry.event, e.RecordsLost))
    firefox.press("x")
    firefox.until(TEXT, ".when.past", f"event {elected}")
    firefox.until(PAINTED)
    firefox.until(TEXT, "#why .chain .effect", "broker-3")
    firefox.press("ArrowLeft")
    firefox.until(TEXT, ".when.past", f"event {elected - 1}")

    firefox.press("2")
    firefox.until(TEXT, "#main.on-messages", "")
    for tab in TABS:
        firefox.ask("location.hash = `tab=${arguments[0]}`", tab)
        firefox.until("return document.querySelector(`main.on-${arguments[0]} .stage .panel h2`) !== null", tab)
        assert firefox.ask("return document.documentElement.scrollWidth <= innerWidth"), f"{tab} scrolls sideways"
    firefox.press("End")
    firefox.until(TEXT, ".when", "LIVE")
    assert firefox.complaints(failed_over.url) == []


def test_exported_run_opens_in_firefox_without_a_network(firefox: Firefox, tmp_path: Path) -> None:
    runs = scenario_runs(LIBRARY["kafka-1211"])
    path = tmp_path / "run.html"
    path.write_text(page_of(runs, "kafka-1211.bug"))
    firefox.disconnect()
    firefox.go(path.as_uri())
    firefox.until(TEXT, ".when.past", f"event {runs[1].about.decisive_seq}")
    firefox.until(PAINTED)
    firefox.until(TEXT, "#why .chain .end", "First cause: this fault.")
    for tab in ("messages", "table", "compare"):
        firefox.ask("location.hash = `run=kafka-1211.bug&with=kafka-1211&tab=${arguments[0]}`", tab)
        firefox.until("return document.querySelector(`main.on-${arguments[0]} .stage .panel h2`) !== null", tab)
    firefox.until(TEXT, ".side-by-side", "truncated")
    assert firefox.complaints(path.as_uri()) == []


def test_console_error_in_firefox_is_recorded(firefox: Firefox, server: PageServer) -> None:
    firefox.go(server.url)
    firefox.until(TEXT, ".when", "LIVE")
    assert firefox.complaints(server.url) == []
    firefox.ask(NO_MODULE)
    until = time.monotonic() + WAIT_S
    while not (found := firefox.complaints(server.url)):
        assert time.monotonic() < until
        time.sleep(POLL_S)
    assert "sentences.json" in found[0]


def test_missing_firefox_skips_the_test_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="needs Firefox on the PATH"):
        Firefox(tmp_path)
