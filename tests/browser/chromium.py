"""The system's Chromium, driven by Playwright, and a page that records its console messages."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Programs that can show the page. The first one has no window system, and needs half of the CPU time of the second."""
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WAIT_MS = 30_000
"""Timeout of page operations. It is long, because other work can slow the page. `page_times` measures the page's
speed.
"""
POLL_MS = 20


def missing(tool: str) -> None:
    """Skip the test if a tool is missing; fail in CI, where it should be installed."""
    reason = f"needs {tool} on the PATH"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def launched() -> Iterator[Browser]:
    """Start a Chromium browser, and close it at the end of the `with` block."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing("Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def wait_until(page: Page, function: str, arg: Any = None) -> None:
    """Wait until a JavaScript function, which can be asynchronous, returns true in the page.

    `Page.wait_for_function` does not wait for the promise that an asynchronous function returns, because it takes the
    promise itself as the result. It can evaluate an expression that is not a function only once, because the page's
    content policy forbids a second evaluation.
    """
    until = time.monotonic() + WAIT_MS / 1000
    while not page.evaluate(function, arg):
        assert time.monotonic() < until, f"not true within {WAIT_MS} ms: {function}"
        page.wait_for_timeout(POLL_MS)


def wait_here(page: Page, seen: Callable[[], object]) -> None:
    """Wait until `seen` returns true. Meanwhile the page runs, and its events are passed to the test."""
    until = time.monotonic() + WAIT_MS / 1000
    while not seen():
        assert time.monotonic() < until, f"not seen within {WAIT_MS} ms"
        page.wait_for_timeout(POLL_MS)


VIEWPORT: ViewportSize = {"width": 1440, "height": 900}


class Watched:
    """Page that records its unexpected console messages.

    All tests of a file share one page, because each further tab needs a new process, which costs another second of CPU
    time.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("console", self._on_console)

    def leave(self) -> list[str]:
        """Clear the page and its storage for the next test, and return the unexpected console messages."""
        self.page.unroute_all(behavior="ignoreErrors")
        if self.page.url != "about:blank":
            self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
            self.page.goto("about:blank")
        self.page.set_viewport_size(VIEWPORT)
        self.page.mouse.move(0, 0)
        found, self.complaints = self.complaints, []
        return found

    def _on_console(self, message: ConsoleMessage) -> None:
        # The browser logs each failed API response and each refused connection, which the page shows to the user as
        # well. Any other message, including one about a missing file, is an error of the page.
        own = message.text.startswith("Failed to load resource") and "/api/v1/" in message.location["url"]
        if message.type in ("error", "warning") and not own:
            self.complaints.append(f"{message.type}: {message.text} ({message.location['url']})")
