"""Campaigns, audits and the lake's tables over HTTP: the API returns stored data and reports missing data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.api.api_server import Server
from zabka.api.analytics.audits import audits

V1 = "/api/v1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as started:
        yield started


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    made = tmp_path / "analytics"
    made.mkdir()
    return made


def campaign(lake: Path, name: str, **stands: object) -> Path:
    directory = lake / "campaigns" / name
    directory.mkdir(parents=True)
    standing = {"question": "Which <b>?", "settings": 2, "seeds": 3, **stands}
    (directory / "standing.json").write_text(json.dumps(standing))
    return directory


def test_analytics_table_with_a_damaged_file_returns_503(http: httpx.Client, lake: Path) -> None:
    table = lake / "failovers"
    table.mkdir()
    pq.write_table(pa.table({"x": [1, 2]}), table / "part-0.parquet")
    (table / "notes.txt").write_text("mine")
    (table / "_temporary").mkdir()
    (table / "_temporary" / "part-1.parquet").write_bytes(b"PAR1")
    assert http.get(f"{V1}/analytics/failovers").json()["total"] == 2
    (table / "part-1.parquet").write_bytes(b"PAR1")
    answer = http.get(f"{V1}/analytics/failovers")
    assert answer.status_code == 503
    assert "1 of 2 files cannot be read" in answer.json()["detail"]


def test_campaign_list_is_empty_before_the_first_campaign(http: httpx.Client) -> None:
    assert http.get(f"{V1}/campaigns").json() == []


def test_running_campaign_reports_its_progress(http: httpx.Client, lake: Path) -> None:
    directory = campaign(lake, "lag")
    (directory / "runs.jsonl").write_bytes(b'{"point":0}\n{"point":1}\n{"torn')
    (lake / "campaigns" / "not one").mkdir()
    (body,) = http.get(f"{V1}/campaigns").json()
    assert (body["name"], body["runs"], body["settings"], body["seeds"]) == ("lag", 2, 2, 3)
    assert (body["ended"], body["answer"], body["report"]) == (None, [], False)
    assert body["last_run_ms"] > 0
    assert http.get(f"{V1}/campaigns/lag").json() == body
    assert http.get(f"{V1}/campaigns/lag/report").status_code == 404


@pytest.mark.parametrize("name", ["none", "..", "%2e%2e%2fapi", "..%2f..%2fetc%2fpasswd", "not one"])
def test_missing_or_invalid_campaign_report_returns_404(http: httpx.Client, lake: Path, name: str) -> None:
    (lake / "campaigns" / "not one").mkdir(parents=True)
    assert http.get(f"{V1}/campaigns/{name}/report").status_code == 404


def test_report_page_is_sandboxed_and_framed_only_by_our_page(http: httpx.Client, lake: Path) -> None:
    directory = campaign(lake, "a campaign", ended="every seed was played", answer=["Yes."], violations=1)
    (directory / "report.html").write_text("<html><script>alert(1)</script></html>")
    answer = http.get(f"{V1}/campaigns/a%20campaign/report")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none';") and "frame-ancestors 'self'" in policy
    assert "script" not in policy
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert answer.headers.get_list("content-security-policy") == [policy]
    (body,) = http.get(f"{V1}/campaigns").json()
    assert (body["answer"], body["violations"], body["report"]) == (["Yes."], 1, True)


def test_response_without_an_audit_contains_the_audit_command(http: httpx.Client) -> None:
    body = http.get(f"{V1}/audits").json()
    assert (body["runs"], body["verdicts"], body["written_ms"]) == (0, [], None)
    assert "zabka pipeline audit" in body["command"]


def test_audit_is_summarised_by_invariant_and_violation(http: httpx.Client, lake: Path) -> None:
    rows = [
        {"run": run, "invariant": name, "verdict": verdict, "events": 10, "set_aside": aside, "detail": "d",
         "node": "peer-1", "node_seq": 3, "chain": ["because"], "command": None}
        for run, name, verdict, aside in [
            ("a", "one leader", "held", 0), ("b", "one leader", "violated", 2), ("b", "one leader", "violated", 2),
            ("a", "no loss", "not_checked", 0), ("b", "no loss", "held", 2),
        ]
    ]  # fmt: skip
    (lake / "audits").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), lake / "audits" / "part-0.parquet")
    body = http.get(f"{V1}/audits").json()
    assert (body["runs"], body["events"], body["set_aside"], body["violated"]) == (2, 20, 2, 2)
    assert body["verdicts"] == [
        {"invariant": "no loss", "held": 1, "violated": 0, "not_checked": 1},
        {"invariant": "one leader", "held": 1, "violated": 1, "not_checked": 0},
    ]
    assert [(each["run"], each["chain"]) for each in body["violations"]] == [("b", ["because"])] * 2


def test_audit_table_vacuumed_during_a_read_counts_as_missing(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def then_vacuumed(place: Path) -> tuple[int, int]:
        place.rmdir()
        return 5, 1_000

    (lake / "audits").mkdir()
    monkeypatch.setattr("zabka.api.analytics.audits.rows_of", then_vacuumed)
    body = audits(lake, lake.parent)
    assert (body.runs, body.verdicts, body.written_ms) == (0, [], None)
    assert "zabka pipeline audit" in body.command


def test_pipeline_reports_tables_lag_and_spark_progress(http: httpx.Client, lake: Path) -> None:
    empty = http.get(f"{V1}/pipeline").json()
    assert (empty["tables"], empty["stream"], empty["spark"]) == ([], None, None)
    assert "zabka pipeline stream --follow" in empty["command"]
    for name in ("faults", "gaps", "bronze", "_stage"):
        (lake / name).mkdir()
        pq.write_table(pa.table({"x": [1, 2]}), lake / name / "part-0.parquet")
    (lake / "_status.json").write_text(
        '{"batch":3,"lines":9,"set_aside":0,"latest_us":1000000,"written_us":3500000,"made_ms":700,'
        '"broken":{"faults":{"x":1}}}'
    )
    (lake / "_progress.json").write_text('{"seen_us":5000000,"message":"Waiting","batch":3,"rows":4}')
    body = http.get(f"{V1}/pipeline").json()
    assert [(table["name"], table["rows"]) for table in body["tables"]] == [("faults", 2), ("gaps", 2)]
    assert body["missing"] == 2
    assert (body["stream"]["lag_ms"], body["stream"]["broken"]) == (2_500, {"faults": {"x": 1}})
    assert (body["spark"]["message"], body["spark"]["rows"], body["spark"]["seen_ms"]) == ("Waiting", 4, 5_000)
