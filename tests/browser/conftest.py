"""A browser for the tests in this folder. Each test gets a clean page, whose console must stay empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import VIEWPORT, WAIT_MS, Watched, launched
from tests.browser.page_server import PageServer, write_healthy_cluster

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="package")
def browser_process() -> Iterator[Browser]:
    yield from launched()


@pytest.fixture(scope="module")
def opened(browser_process: Browser) -> Iterator[Watched]:
    context = browser_process.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    yield Watched(context)
    context.close()


@pytest.fixture
def watched(opened: Watched) -> Iterator[Watched]:
    yield opened
    opened.leave()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    server = PageServer(tmp_path).start()
    write_healthy_cluster(server)
    yield server
    server.stop()


@pytest.fixture
def page(watched: Watched, server: PageServer) -> Iterator[Page]:
    """Yield the page of a healthy cluster with its tables. At the end, its console must be empty."""
    watched.page.goto(f"{server.url}#tab=table")
    yield watched.page
    assert watched.leave() == []
