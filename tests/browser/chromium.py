"""A system Chromium driven by Playwright, and a page that tells what its console said."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WAIT_MS = 30_000
"""What a page will do it may do late beside other work; how soon it does is measured elsewhere (`page_times`)."""
POLL_MS = 20


def missing(tool: str) -> None:
    """Skip for want of a tool; fail where it was to be installed."""
    reason = f"needs {tool} on the PATH"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def launched() -> Iterator[Browser]:
    """A browser for as long as somebody wants it."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing("Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def wait_until(page: Page, told: str, arg: Any = None) -> None:
    """Wait until a function of the page answers true; it may be asynchronous.

    `Page.wait_for_function` takes the promise that such a function returns for an answer, and waits for nothing; and an
    expression that is no function it can look at only once: the page's content policy forbids to evaluate it again.
    """
    until = time.monotonic() + WAIT_MS / 1000
    while not page.evaluate(told, arg):
        assert time.monotonic() < until, f"not so within {WAIT_MS} ms: {told}"
        page.wait_for_timeout(POLL_MS)


def wait_here(page: Page, seen: Callable[[], object]) -> None:
    """Wait until the test itself has seen something, while the page and what it tells the test go on."""
    until = time.monotonic() + WAIT_MS / 1000
    while not seen():
        assert time.monotonic() < until, f"not seen within {WAIT_MS} ms"
        page.wait_for_timeout(POLL_MS)


VIEWPORT: ViewportSize = {"width": 1440, "height": 900}


class Watched:
    """A page, and everything in its console that should not be there.

    Opened once for all tests of a file: another tab, with a process of its own, takes a second of a processor more.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("console", self._on_console)

    def leave(self) -> list[str]:
        """Close what is open, with all that it has kept, so that the next page finds nothing of it.  What should not
        have been in its console."""
        self.page.unroute_all(behavior="ignoreErrors")
        if self.page.url != "about:blank":
            self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
            self.page.goto("about:blank")
        self.page.set_viewport_size(VIEWPORT)
        self.page.mouse.move(0, 0)
        said, self.complaints = self.complaints, []
        return said

    def _on_console(self, message: ConsoleMessage) -> None:
        # The browser itself logs every answer of the API that is no success, and every connection it did not get:
        # the page shows those.  Anything else, a file of the page that is missing too, is the page's own fault.
        own = message.text.startswith("Failed to load resource") and "/api/v1/" in message.location["url"]
        if message.type in ("error", "warning") and not own:
            self.complaints.append(f"{message.type}: {message.text} ({message.location['url']})")
