"""A browser for the folder, and for each test a page of its own whose console must stay silent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import WAIT_MS, Watched, launched
from tests.browser.page_server import PageServer, tell_a_healthy_cluster

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def browser_process() -> Iterator[Browser]:
    yield from launched()


@pytest.fixture
def watched(browser_process: Browser) -> Iterator[Watched]:
    context = browser_process.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Watched(context)
    context.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    server = PageServer(tmp_path).start()
    tell_a_healthy_cluster(server)
    yield server
    server.stop()


@pytest.fixture
def page(watched: Watched, server: PageServer) -> Iterator[Page]:
    """The page of a healthy cluster, its tables; nothing may have been said in its console by the end."""
    watched.page.goto(f"{server.url}#tab=table")
    yield watched.page
    watched.page.goto("about:blank")
    assert watched.complaints == []
