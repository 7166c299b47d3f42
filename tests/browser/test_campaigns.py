"""The Lab's Spark panels: the lake's tables with their lag, the last audit, campaigns and their reports."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import Page, expect

from tests.browser.test_page import button, region, turn_to


def test_empty_panel_shows_the_command_that_fills_it(page: Page) -> None:
    turn_to(page, "Lab")
    expect(region(page, "Pipeline")).to_contain_text("zabka pipeline stream --follow --data ")
    expect(region(page, "Audits")).to_contain_text("zabka pipeline audit ")
    expect(region(page, "Campaigns")).to_contain_text("zabka campaign run docs/campaigns/session-timeout.toml")


def test_pipeline_panel_shows_rows_lag_and_spark_message(page: Page, tmp_path: Path) -> None:
    lake = tmp_path / "analytics"
    (lake / "faults").mkdir(parents=True)
    pq.write_table(pa.table({"run": ["."], "kind": ["cut"]}), lake / "faults" / "part-0.parquet")
    now_us = time.time_ns() // 1000
    status = {"batch": 3, "lines": 1234, "set_aside": 0, "latest_us": now_us - 2_500_000, "written_us": now_us,
              "made_ms": 700, "broken": {"faults": {"no fault is one": 2}}}  # fmt: skip
    (lake / "_status.json").write_text(json.dumps(status))
    # Use a time in the future, so that the report is still recent when the page has opened.
    progress = {"seen_us": now_us + 3600 * 10**6, "message": "Waiting for data to arrive", "batch": 3, "rows": 40,
            "rows_per_second": 55.5, "durations_ms": {"triggerExecution": 720, "addBatch": 700}}  # fmt: skip
    (lake / "_progress.json").write_text(json.dumps(progress))
    turn_to(page, "Lab")
    shown = region(page, "Pipeline")
    expect(shown).to_contain_text("1,234 lines, the tables lag 2.5 s behind the journals")
    expect(shown).to_contain_text("Spark: Waiting for data to arrive")
    expect(shown).to_contain_text("batch 3: 40 rows in 720 ms, 56 a second")
    expect(shown.get_by_role("alert")).to_contain_text("faults: 2 rows violate the rule: no fault is one")
    button(page, "Show faults").click()
    expect(region(page, "Analytics")).to_contain_text("cut")
    progress["seen_us"] = time.time_ns() // 1000 - 60_000_000
    (lake / "_progress.json").write_text(json.dumps(progress))
    expect(shown).to_contain_text("last report of Spark 1 min")


def test_audit_violation_shows_its_causes_and_replay_command(page: Page, tmp_path: Path) -> None:
    row = {"run": "seed-7.jsonl", "invariant": "one leader", "verdict": "violated", "events": 10, "set_aside": 0,
           "detail": "two of them", "node": "peer-1", "node_seq": 3, "chain": ["peer-1#3 leads", "begins with: start"],
           "command": "zabka replay --seed 7"}  # fmt: skip
    (tmp_path / "analytics" / "audits").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "analytics" / "audits" / "part-0.parquet")
    turn_to(page, "Lab")
    shown = region(page, "Audits")
    expect(shown).to_contain_text("1 violation")
    shown.get_by_text("two of them").click()
    expect(shown).to_contain_text("peer-1#3 leads")
    expect(shown).to_contain_text("zabka replay --seed 7")


def test_campaign_report_is_shown_in_a_sandboxed_frame(page: Page, tmp_path: Path) -> None:
    directory = tmp_path / "analytics" / "campaigns" / "lag"
    directory.mkdir(parents=True)
    (directory / "report.html").write_text("<html><style>h1 { color: red }</style><h1>The report</h1></html>")
    standing = {"question": "Which lag?", "settings": 5, "seeds": 10, "ended": "every seed was played",
            "answer": ["Best is 400."], "violations": 1}  # fmt: skip
    (directory / "standing.json").write_text(json.dumps(standing))
    (directory / "runs.jsonl").write_bytes(b"{}\n" * 50)
    turn_to(page, "Lab")
    shown = region(page, "Campaigns")
    expect(shown).to_contain_text("5 settings on 10 seeds each: 50 of 50 runs")
    expect(shown).to_contain_text("Best is 400.")
    expect(shown).to_contain_text("1 run violated an invariant")
    button(page, "Show the report").click()
    expect(page.frame_locator("iframe.report").get_by_role("heading")).to_have_text("The report")
    expect(page.frame_locator("iframe.report").get_by_role("heading")).to_have_css("color", "rgb(255, 0, 0)")
    button(page, "Close the report").click()
    expect(page.locator("iframe.report")).to_have_count(0)
