"""Open transactions on the page: in the table, the health status and the tracks, at the present and at past moments."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watched, wait_until
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_moments import go_to
from tests.browser.test_page import act, region
from tests.browser.test_tracks import LANES, STAGE, slider
from zabka.api.views.ensemble_view import PartitionZnodes
from zabka.journal import events as e

AGE_MS = 42_000


def open_transaction(broker: int, transactional_id: str, partition: int, *, started_ms: int = -1) -> Any:
    return e.TransactionChanged(
        broker, transactional_id, "Ongoing", 7, 3, [f"orders-{partition}"], "partitions added",
        client_id="shop-1", started_ms=started_ms, timeout_ms=30_000,
    )  # fmt: skip


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[PageServer]:
    """Yield the server of a cluster with two blocked partitions.

    Consumers of one wait for an open transaction, consumers of the other for a hanging transaction.
    """
    server = PageServer(tmp_path).start()
    write_healthy_cluster(server)
    assignment = {number: PartitionZnodes([1, 2, 3], 1, 4, [1, 2], 6) for number in (0, 1)}
    server.has_topic("orders", assignment)
    write = server.agent.write
    write("broker-1", e.LeaderElected("orders", 1, 1, 4, [1, 2], [1, 2, 3], 6, 3, False, "controller"))
    started_ms = time.time_ns() // 1_000_000 - AGE_MS
    write("broker-2", open_transaction(2, "payments", 0, started_ms=started_ms), open_transaction(2, "reports", 2))
    for partition, producer in ((0, 7), (1, 8)):
        write("broker-1", e.LastStableOffsetHeld(1, "orders", partition, 4, 112, 120, producer, 3, 10_500))
    server.settle()
    yield server
    server.stop()


@pytest.fixture
def page_of_stuck(watched: Watched, stuck: PageServer) -> Iterator[Page]:
    watched.page.goto(f"{stuck.url}#tab=table")
    expect(region(watched.page, "Open transactions")).to_be_visible()
    yield watched.page
    assert watched.leave() == []


def row(page: Page, name: str) -> Any:
    return page.get_by_role("row", name=name, exact=True)


def test_cluster_without_transactions_shows_no_panel(page: Page) -> None:
    expect(region(page, "Partitions")).to_be_visible()
    expect(region(page, "Open transactions")).to_have_count(0)


def test_open_transaction_shows_age_producer_and_coordinator(page_of_stuck: Page) -> None:
    found = row(page_of_stuck, "Transaction of payments")
    for text in ("Ongoing", "7, epoch 3", "client shop-1", "broker 2", "orders-0"):
        expect(found).to_contain_text(text)
    expect(found).to_contain_text(re.compile(r"\b4[2-9] s|\b5\d s|min"))
    # A symbol marks this transaction, because it is older than its producer's transaction timeout.
    expect(found.locator("td.n svg")).to_have_count(1)
    expect(row(page_of_stuck, "Transaction of reports").locator("td.n")).to_have_text("unknown")


def test_blocked_consumers_show_the_open_or_hanging_transaction(page_of_stuck: Page) -> None:
    expect(row(page_of_stuck, "Consumers of orders-0")).to_contain_text("payments, producer 7, epoch 3")
    expect(row(page_of_stuck, "Consumers of orders-0")).to_contain_text("112")
    expect(row(page_of_stuck, "Consumers of orders-1")).to_contain_text("hanging: no coordinator has reported one")
    expect(page_of_stuck.get_by_role("banner")).to_contain_text("read_committed consumers wait for a transaction")


def test_last_report_of_a_stopped_coordinator_is_shown(page_of_stuck: Page) -> None:
    act(page_of_stuck, "Kill", "broker 2")
    expect(row(page_of_stuck, "Transaction of payments")).to_contain_text(re.compile("down, last report .* ago"))


def test_transactions_of_a_silent_coordinator_are_unknown(page_of_stuck: Page, stuck: PageServer) -> None:
    stuck.agent.freeze(for_s=10)
    expect(row(page_of_stuck, "Transaction of payments")).to_contain_text(re.compile("unknown since .*, last report"))
    expect(row(page_of_stuck, "Consumers of orders-0")).to_contain_text("broker 1 is unknown: last known")


def test_written_marker_removes_its_transaction_from_the_page(page_of_stuck: Page, stuck: PageServer) -> None:
    released = e.LastStableOffsetReleased(1, "orders", 0, 4, 130, 130, 20_000)
    complete = e.TransactionChanged(2, "payments", "CompleteAbort", 7, 4, [], "markers written")
    held_at = stuck.last_seq
    stuck.append_events("broker-1", released)
    stuck.append_events("broker-2", complete)
    expect(row(page_of_stuck, "Transaction of payments")).to_have_count(0)
    expect(row(page_of_stuck, "Consumers of orders-0")).to_have_count(0)
    go_to(page_of_stuck, held_at)
    page_of_stuck.evaluate("location.hash += '&tab=table'")
    expect(row(page_of_stuck, "Consumers of orders-0")).to_contain_text("payments")


def test_tracks_show_a_blocked_lso_until_it_advances(page_of_stuck: Page, stuck: PageServer) -> None:
    page_of_stuck.goto(f"{stuck.url}#tab=tracks")
    expect(slider(page_of_stuck)).to_be_visible()
    assert page_of_stuck.evaluate(LANES)["trouble:orders-0"] == ["held"]
    stuck.append_events("broker-1", e.LastStableOffsetReleased(1, "orders", 0, 4, 130, 130, 20_000))
    wait_until(
        page_of_stuck,
        f"""async () => {{ {STAGE}
          return stage.window.spans.lanes.get("trouble:orders-0").every(({{to_us}}) => to_us !== null); }}""",
    )
