"""Topics with size and rate, and a look into the records of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watched
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_page import button, region, row, turn_to
from zabka.journal.events import TopicPartition
from zabka.kafka.client.reassignment_client import Ongoing
from zabka.kafka.client.record_reading import RecordSeen
from zabka.kafka.client.topic_reading import PartitionSize, TopicReading
from zabka.kafka.record_batch import Record

FIRST = TopicPartition("orders", 0)
SIZE = PartitionSize(1, 0, 43, {1: 4_096, 2: 4_096, 3: 1_024})
TIME_MS = 1_700_000_000_000


def records() -> list[RecordSeen]:
    """Return 43 records: 40 plain ones, two of transactions that ended differently, and a marker."""
    headers = (("trace", b"\xff"),)
    plain = [
        RecordSeen(Record(b"customer-7", b"value-%d" % at, TIME_MS, at, headers), 4, False, None, None, None)
        for at in range(40)
    ]
    return [
        *plain,
        RecordSeen(Record(None, b"kept", TIME_MS, 40), 4, False, 7, "committed", None),
        RecordSeen(Record(None, b"undone", TIME_MS, 41), 4, False, 8, "aborted", None),
        RecordSeen(Record(b"\0\0\0\0", b"\0\0", TIME_MS, 42), 4, False, 8, "aborted", "abort"),
    ]


@pytest.fixture
def topics(server: PageServer, page: Page) -> Iterator[Page]:
    """Yield the page of a cluster with the sizes of one topic and its records."""
    server.admin.topics_read = TopicReading({FIRST: SIZE}, {})
    server.admin.log = records()
    expect(row(page, "Topic orders")).to_contain_text("4.0 KiB")
    yield page


def look_into(page: Page) -> None:
    button(page, "Show sizes of orders").click()
    button(page, "Look into orders-0").click()
    expect(region(page, "Records of orders-0")).to_contain_text("offsets 0 to 43")


def test_topic_shows_records_size_and_stored_bytes(topics: Page) -> None:
    expect(row(topics, "Topic orders").get_by_role("cell")).to_have_text(
        ["43", "unknown", "4.0 KiB", "unknown", "9.0 KiB"]
    )
    expect(region(topics, "Topics")).to_contain_text("9.0 KiB on the disks of all brokers")


def test_rate_appears_with_the_second_reading(topics: Page, server: PageServer) -> None:
    grown = SIZE._replace(end_offset=1_043, sizes_bytes={1: 1 << 20, 2: 1 << 20, 3: 1 << 20})
    server.admin.topics_read = TopicReading({FIRST: grown}, {})
    cells = row(topics, "Topic orders").get_by_role("cell")
    expect(cells.nth(0)).to_have_text("1,043")
    assert 50 < int(cells.nth(1).inner_text().replace(",", "")) < 1_000
    expect(cells.nth(3)).to_contain_text("KiB")


def test_reassignment_shows_its_progress(topics: Page, server: PageServer) -> None:
    server.admin.topics_read = TopicReading({FIRST: SIZE}, {FIRST: Ongoing((1, 3, 2), (3,), (2,))})
    found = topics.get_by_role("group", name="Reassignment of orders-0")
    expect(found).to_contain_text("adds broker 3 and removes broker 2 25 % copied")
    assert found.get_by_role("progressbar").evaluate("bar => bar.value") == 0.25


def test_silent_broker_makes_sizes_unknown(topics: Page, server: PageServer) -> None:
    unknown = PartitionSize(3, None, None, {1: 4_096})
    server.admin.topics_read = TopicReading({FIRST: unknown}, None, {3: "broker 3: no answer"})
    expect(region(topics, "Topics")).to_contain_text("Broker 3 did not respond")
    expect(row(topics, "Topic orders").get_by_role("cell").nth(0)).to_have_text("unknown")


def test_last_records_are_shown_with_their_transactions(topics: Page) -> None:
    look_into(topics)
    expect(row(topics, "Record 23").get_by_role("cell")).to_contain_text(["", "customer-7", "value-23", "trace ff"])
    expect(row(topics, "Record 40")).to_contain_text("committed")
    expect(row(topics, "Record 41")).to_contain_text("aborted")
    expect(row(topics, "Record 42")).to_contain_text("marker: abort")
    expect(button(topics, "Next records")).to_be_disabled()
    button(topics, "Previous records").click()
    expect(row(topics, "Record 3")).to_be_visible()
    expect(row(topics, "Record 23")).to_have_count(0)


def test_values_are_shown_in_hexadecimal(topics: Page) -> None:
    look_into(topics)
    button(topics, "hex").click()
    expect(button(topics, "hex")).to_have_attribute("aria-pressed", "true")
    expect(row(topics, "Record 40")).to_contain_text("6b 65 70 74")
    expect(row(topics, "Record 40").get_by_text("kept")).to_have_count(0)


def test_offset_out_of_range_shows_the_possible_offsets(topics: Page) -> None:
    look_into(topics)
    form = topics.get_by_role("form", name="Go to an offset")
    form.get_by_label("from offset").fill("44")
    form.get_by_role("button", name="Go").click()
    expect(region(topics, "Records of orders-0").get_by_role("alert")).to_have_text(
        "offset 44 is out of range: orders-0 has the offsets 0 to 43"
    )
    form.get_by_label("from offset").fill("2")
    form.get_by_role("button", name="Go").click()
    expect(row(topics, "Record 2")).to_be_visible()
    button(topics, "Close the records").click()
    expect(region(topics, "Records of orders-0")).to_have_count(0)


@pytest.mark.parametrize("time_ms", [8_640_000_000_000_001, TIME_MS * 1_000_000])
def test_timestamp_that_is_no_date_is_shown_as_a_number(topics: Page, server: PageServer, time_ms: int) -> None:
    """The latest date of JavaScript is 8.64e15 ms, and numbers from 2^53 on are strings on the page."""
    server.admin.log = [RecordSeen(Record(None, b"nanoseconds", time_ms, 0), 4, False, None, None, None)]
    button(topics, "Show sizes of orders").click()
    button(topics, "Look into orders-0").click()
    expect(row(topics, "Record 0")).to_contain_text("nanoseconds")
    cell = row(topics, "Record 0").get_by_role("cell").first
    expect(cell).to_have_text(f"{time_ms} ms")
    expect(cell).to_have_attribute("title", f"{time_ms} ms")


def test_failing_panel_shows_its_error_and_others_are_drawn(watched: Watched, server: PageServer) -> None:
    page = watched.page
    page.route(
        "**/api/v1/topics/orders/0/records*",
        lambda route: route.fulfill(json={"first_offset": 0, "high_watermark": 1, "next_offset": 1, "records": [{}]}),
    )
    server.admin.topics_read = TopicReading({FIRST: SIZE}, {})
    page.goto(f"{server.url}#tab=table")
    button(page, "Show sizes of orders").click()
    button(page, "Look into orders-0").click()
    expect(region(page, "Topics").get_by_role("alert")).to_contain_text("Cannot draw the records: ")
    server.admin.topics_read = TopicReading({FIRST: SIZE._replace(end_offset=1_043)}, {})
    expect(row(page, "Topic orders").get_by_role("cell").first).to_have_text("1,043")
    turn_to(page, "Lab")
    expect(region(page, "Topics")).to_have_count(0)
    # The error is in the console.
    assert any("TypeError" in complaint for complaint in watched.leave())


def test_records_appear_after_the_token_is_given(watched: Watched, tmp_path: Path) -> None:
    server = PageServer(tmp_path, token="sesame").start()
    try:
        write_healthy_cluster(server)
        server.admin.topics_read = TopicReading({FIRST: SIZE}, {})
        server.admin.log = records()
        page = watched.page
        page.goto(f"{server.url}#tab=table")
        button(page, "Show sizes of orders").click()
        button(page, "Look into orders-0").click()
        dialog = page.get_by_role("dialog", name="The API requires a token")
        expect(dialog.get_by_label("token")).to_be_focused()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(region(page, "Records of orders-0").get_by_role("alert")).to_contain_text("need `Authorization")

        page.get_by_role("form", name="Go to an offset").get_by_role("button", name="Go").click()
        dialog.get_by_label("token").fill("wrong")
        page.keyboard.press("Enter")
        expect(region(page, "API calls").get_by_text("401")).to_have_count(3)
        dialog.get_by_label("token").fill("sesame")
        page.keyboard.press("Enter")
        expect(row(page, "Record 40")).to_contain_text("kept")
        expect(dialog).to_have_count(0)
    finally:
        server.stop()


def test_records_fit_the_width_of_a_phone(topics: Page) -> None:
    topics.set_viewport_size({"width": 390, "height": 844})
    look_into(topics)
    assert topics.evaluate("document.documentElement.scrollWidth") <= 390


def test_past_moment_has_no_sizes(topics: Page, server: PageServer) -> None:
    topics.evaluate(f"location.hash = '#run=live&at={server.last_seq - 1}&tab=table'")
    expect(region(topics, "Topics")).to_have_count(0)
    turn_to(topics, "Table")
