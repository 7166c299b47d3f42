"""Exports of runs over HTTP: the whole file, a byte range, and the upload of an exported file."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from tests.api.histories import played
from tests.api.test_uploads import lines
from zabka.api.exports.file import page_of
from zabka.api.exports.opened import opened
from zabka.api.exports.played import scenario_runs
from zabka.api.exports.recorded import NothingToExport, Recorded
from zabka.api.runs.intake import NoHistory
from zabka.journal.fold import fold
from zabka.journal.incidents import headline, incidents, summary
from zabka.journal.sentence_file import read_sentences
from zabka.simulation.scenarios.library import LIBRARY

V1 = "/api/v1"


@pytest.fixture(scope="module")
def runs() -> list[Recorded]:
    return scenario_runs(LIBRARY["kafka-1211"])


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with (
        Server(tmp_path_factory.mktemp("api")) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client,
    ):
        yield client


def contents_of(html: str) -> Any:
    found = re.search('id="runs">([^<]*)<', html)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_export_of_a_stored_run_has_its_events(http: httpx.Client) -> None:
    run = http.post(f"{V1}/runs", content=lines(played()), params={"name": "a<b>.jsonl"}).json()
    answer = http.get(f"{V1}/runs/{run['id']}/export")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-disposition"] == 'attachment; filename="zabka-a-b-.jsonl.html"'
    assert "<title>a&lt;b&gt;.jsonl · zabka</title>" in answer.text
    contents = contents_of(answer.text)
    assert contents["opening"] == {"run": run["id"], "at": None, "with": None}
    assert contents["runs"][0]["events"] == http.get(f"{V1}/runs/{run['id']}/journal?limit=10000").json()


def test_export_of_a_part_of_a_run_contains_only_its_events(http: httpx.Client) -> None:
    run = http.post(f"{V1}/runs", content=lines(played())).json()
    begin_us, end_us = run["first_us"] + 2_000_000, run["first_us"] + 9_000_000
    part = contents_of(http.get(f"{V1}/runs/{run['id']}/export?from={begin_us}&to={end_us}").text)["runs"][0]
    assert all(begin_us <= event["wall_us"] <= end_us for event in part["events"])
    assert part["about"]["first_seq"] == part["events"][0]["seq"] > 1
    before = http.get(f"{V1}/runs/{run['id']}/state?at={part['about']['first_seq'] - 1}").json()["state"]
    assert part["before"] == before
    refused = http.get(f"{V1}/runs/{run['id']}/export?from={run['last_us'] + 1}")
    assert (refused.status_code, refused.json()["detail"]) == (422, "no event of the run is in that time")


def test_trace_export_has_the_media_type_and_name_of_its_format(http: httpx.Client) -> None:
    run = http.post(f"{V1}/runs", content=lines(played()), params={"name": "mine"}).json()
    for form, media, name in (
        ("perfetto", "application/json", "zabka-mine.perfetto.json"),
        ("shiviz", "text/plain; charset=utf-8", "zabka-mine.shiviz.log"),
    ):
        answer = http.get(f"{V1}/runs/{run['id']}/export?format={form}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, media)
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert http.get(f"{V1}/runs/{run['id']}/export?format=pdf").status_code == 422


def test_export_of_an_unknown_run_returns_404(http: httpx.Client) -> None:
    assert http.get(f"{V1}/runs/r00000000/export").status_code == 404


def test_uploaded_export_is_stored_as_runs_with_and_without_bug(http: httpx.Client, runs: list[Recorded]) -> None:
    page = page_of(runs, runs[1].about.id).encode()
    answer = http.post(f"{V1}/runs", content=page, params={"name": "kafka-1211.html"})
    assert answer.status_code == 201
    shown = answer.json()
    known = runs[1].about
    assert (shown["kind"], shown["of"], shown["variant"], shown["messages"]) == (
        "upload", "kafka-1211", "with its bug", True
    )  # fmt: skip
    assert (shown["decisive_seq"], shown["events"], shown["link"]) == (known.decisive_seq, known.events, known.link)
    other = http.get(f"{V1}/runs/{shown['pair']}").json()
    assert (other["pair"], other["variant"], other["link"]) == (shown["id"], None, "scenario=kafka-1211")
    window = {"from_us": known.first_us, "to_us": known.last_us, "limit": 20_000}
    found = http.get(f"{V1}/runs/{shown['id']}/messages", params=window).json()["messages"]
    sent = [each.sent_us for each in runs[1].messages if each.sent_us <= known.last_us]
    assert [each["sent_us"] for each in found] == sent


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<!doctype html><p>Hello</p>", "without runs"),
        (b'<!doctype html><script type="text/plain" id="runs">AAAA</script>', "cannot be read"),
        (b'<!doctype html><script type="text/plain" id="runs">A</script>', "cannot be read"),
    ],
)
def test_html_without_a_readable_run_is_rejected(data: bytes, reason: str) -> None:
    with pytest.raises(NoHistory, match=reason):
        opened(data)


def test_exported_part_of_a_run_cannot_be_uploaded(runs: list[Recorded]) -> None:
    part = runs[0].part(runs[0].about.first_us + 3_000_000, None)
    with pytest.raises(NoHistory, match="a part of a run"):
        opened(page_of([part], part.about.id).encode())


def test_part_of_a_run_part_equals_the_same_part_of_the_run(runs: list[Recorded]) -> None:
    run = runs[0]
    first_us = run.about.first_us
    part = run.part(first_us + 3_000_000, None).part(first_us + 6_000_000, first_us + 9_000_000)
    assert part == run.part(first_us + 6_000_000, first_us + 9_000_000)
    assert part.before == fold(run.entries[: part.about.first_seq - 1])
    with pytest.raises(NothingToExport):
        run.part(first_us + 1_000_000_000, None)


def test_repeated_export_of_a_run_is_identical(runs: list[Recorded]) -> None:
    again = scenario_runs(LIBRARY["kafka-1211"])
    assert page_of(again, again[1].about.id) == page_of(runs, runs[1].about.id)


def test_incidents_of_a_run_equal_those_of_the_pipeline(http: httpx.Client, runs: list[Recorded]) -> None:
    run = runs[1]
    page = page_of(runs, run.about.id)
    stored = http.post(f"{V1}/runs", content=page.encode()).json()
    sentences = read_sentences()
    expected = [(headline(each, sentences), summary(each, sentences)) for each in incidents(run.entries)]
    assert expected
    answer = http.get(f"{V1}/runs/{stored['id']}/incidents").json()
    assert [(each["headline"], each["summary"]) for each in answer] == expected
    cause = http.get(f"{V1}/runs/{stored['id']}/journal?after={answer[0]['cause_seq'] - 1}&limit=1").json()[0]
    assert cause["type"] == "fault_injected"
    [exported] = [each for each in contents_of(page)["runs"] if each["about"]["id"] == run.about.id]
    assert exported["incidents"] == answer
