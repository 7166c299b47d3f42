"""The Lab starts and stops the stream, an audit and a campaign by buttons."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.page_server import PageServer
from tests.browser.test_page import button, region


def lab(page: Page) -> None:
    page.evaluate("location.hash = '#tab=lab'")
    expect(button(page, "Start the stream")).to_be_enabled()


def test_stream_shows_its_output_and_is_stopped(page: Page) -> None:
    lab(page)
    button(page, "Start the stream").click()
    job = page.get_by_role("group", name="Job stream")
    expect(job.get_by_role("status")).to_contain_text("running")
    expect(region(page, "Output of the stream")).to_contain_text("arguments: pipeline stream --follow --data")
    expect(button(page, "Start the stream")).to_have_count(0)
    button(page, "Stop the stream").click()
    expect(job.get_by_role("status")).to_contain_text("stopped after")
    expect(button(page, "Start the stream")).to_be_enabled()


def test_audit_with_a_violation_shows_its_exit_code(page: Page) -> None:
    lab(page)
    button(page, "Run an audit").click()
    job = page.get_by_role("group", name="Job audit")
    expect(job.get_by_role("status")).to_contain_text("exit code 1: see the output")
    expect(region(page, "Output of the audit")).to_contain_text("2 runs, 1 with violations")


def test_campaign_starts_with_the_written_definition(page: Page, server: PageServer) -> None:
    lab(page)
    page.get_by_text("Start a campaign").click()
    form = page.get_by_role("form", name="Start a campaign")
    form.get_by_label("name").fill("unclean")
    form.get_by_label("definition").fill('question = "Why?"')
    with page.expect_request(lambda request: request.url.endswith("/api/v1/jobs/campaign")) as started:
        form.get_by_role("button", name="Start campaign").click()
    assert started.value.post_data_json == {"name": "unclean", "definition": 'question = "Why?"'}
    expect(region(page, "Output of the campaign")).to_contain_text("unclean.toml")
    expect(form).to_have_count(0)
    button(page, "Stop the campaign").click()
    expect(page.get_by_role("group", name="Job campaign").get_by_role("status")).to_contain_text("stopped")


def test_past_moment_cannot_start_jobs(page: Page, server: PageServer) -> None:
    lab(page)
    page.evaluate(f"location.hash = '#run=live&at={server.last_seq - 1}&tab=lab'")
    expect(button(page, "Run an audit")).to_be_disabled()
