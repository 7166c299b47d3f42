"""Lessons over HTTP: their questions, the answers computed from a stored run, and the source files linked from
rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.api_server import Server
from zabka.api.runs.run_models import Run
from zabka.journal.events import Entry, LeaderElected
from zabka.journal.rules import RULES
from zabka.journal.writer import encode_line
from zabka.simulation.scenarios.lessons import LESSONS
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import WorldScenario
from zabka.simulation.scenarios.world_player import play

PLAY, ITS_PAIR = "r00000001", "r00000001.bug"


def a_run(run_id: str, pair: str | None, entries: list[Entry], of: str = "kafka-1211") -> Run:
    return Run(
        id=run_id, kind="scenario", title="A play", of=of, pair=pair, first_seq=1, last_seq=len(entries),
        first_us=entries[0].wall_us, last_us=entries[-1].wall_us, events=len(entries), verdict="held", created_ms=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Return an HTTP client of a server that has stored runs of kafka-1211 with and without its bug."""
    script = LIBRARY["kafka-1211"]
    assert isinstance(script, WorldScenario)
    verdict = play(script)
    assert verdict.shown is not None
    server = Server(tmp_path_factory.mktemp("lessons"))
    kept = server.services.runs.kept
    for run_id, pair, entries in ((PLAY, ITS_PAIR, verdict.journal), (ITS_PAIR, PLAY, verdict.shown.journal)):
        run = a_run(run_id, pair, entries)
        kept.keep(run, entries)
        kept.admit(run)
    with server, httpx.Client(base_url=server.url) as client:
        yield client


def test_lesson_list_does_not_reveal_the_right_answers(http: httpx.Client) -> None:
    answer = http.get("/api/v1/lessons").json()

    assert [lesson["name"] for lesson in answer] == list(LESSONS)
    assert set(answer[0]) == {"name", "title", "scenario", "question", "answers", "with_bug"}


@pytest.mark.parametrize("run", [PLAY, ITS_PAIR])
def test_lesson_answer_is_equal_for_both_runs_of_a_pair(http: httpx.Client, run: str) -> None:
    answer = http.get("/api/v1/lessons/high-watermark/answer", params={"run": run}).json()

    assert (answer["run"], answer["pair"]) == (ITS_PAIR, PLAY)
    assert "truncates to its own high watermark" in LESSONS["high-watermark"].answers[answer["right"]].text
    moment = http.get(f"/api/v1/runs/{ITS_PAIR}/journal", params={"after": answer["seq"] - 1, "limit": 1}).json()[0]
    assert (moment["type"], moment["node"], moment["from_offset"], moment["to_offset"]) == (
        "log_truncated", "broker-4", 6, 5,
    )  # fmt: skip
    assert [step["event"]["type"] for step in answer["chain"]][:3] == [
        "log_truncated", "followership_taken", "leader_elected",
    ]  # fmt: skip
    assert answer["chain"][0]["rule"]["references"][0]["name"] == "KAFKA-1211"
    assert answer["beginning"]["told"].startswith("crash broker-")
    assert answer["beginning"]["seq"] < answer["seq"]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/api/v1/lessons/nothing/answer?run=live", 404, "there is no lesson nothing"),
        (f"/api/v1/lessons/leader-killed/answer?run={PLAY}", 409, "is not a run of leader-killed"),
        ("/api/v1/lessons/leader-killed/answer?run=live", 409, "is not a run of leader-killed"),
        ("/api/v1/lessons/leader-killed/answer?run=r99999999", 404, "r99999999"),
        ("/api/v1/lessons/leader-killed/answer", 422, "run"),
    ],
)
def test_error_for_an_invalid_lesson_request_contains_the_reason(
    http: httpx.Client, path: str, status: int, message: str
) -> None:
    answer = http.get(path)

    assert answer.status_code == status
    assert message in answer.text


def test_uploaded_journal_named_like_a_script_is_rejected(http: httpx.Client) -> None:
    line = encode_line(
        "broker-1", 1, 1, 1, LeaderElected("orders", 0, 2, 1, [2], [1, 2], 1, 1, unclean=False, cause="")
    )
    brought = http.post("/api/v1/runs", params={"name": "quorum-lost"}, content=line).json()
    answer = http.get("/api/v1/lessons/quorum-lost/answer", params={"run": brought["id"]})

    assert answer.status_code == 409
    assert "is not a run of quorum-lost" in answer.json()["detail"]


@pytest.mark.parametrize("path", sorted({rule.source.path for pairs in RULES.values() for _, rule in pairs}))
def test_source_page_has_an_anchor_for_each_rule_function(http: httpx.Client, path: str) -> None:
    page = http.get(f"/source/{path}")

    assert page.status_code == 200
    symbols = {rule.source.symbol for pairs in RULES.values() for _, rule in pairs if rule.source.path == path}
    assert [symbol for symbol in symbols if f'<span id="{symbol}"' not in page.text] == []


@pytest.mark.parametrize("path", ["api/http/security.py", "../README.md", "controller/../api/main.py", "nothing.py"])
def test_source_file_without_rules_is_not_returned(http: httpx.Client, path: str) -> None:
    assert http.get(f"/source/{path}").status_code == 404


def test_lesson_of_a_removed_run_pair_returns_409(tmp_path: Path) -> None:
    script = LIBRARY["kafka-1211"]
    assert isinstance(script, WorldScenario)
    entries = play(script).journal
    server = Server(tmp_path)
    run = a_run(PLAY, ITS_PAIR, entries)
    server.services.runs.kept.keep(run, entries)
    server.services.runs.kept.admit(run)
    with server, httpx.Client(base_url=server.url) as client:
        answer = client.get("/api/v1/lessons/high-watermark/answer", params={"run": PLAY})
        assert answer.status_code == 409
        assert "is no longer stored" in answer.json()["detail"]
