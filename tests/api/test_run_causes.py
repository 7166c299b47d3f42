"""The causes of an event in a run, and the first event in which two runs differ, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.api.api_server import Server
from tests.api.histories import keep, kept_run
from zabka.api.collector.numbered import Numbered
from zabka.api.runs import why
from zabka.api.runs.kept import JOURNAL
from zabka.api.runs.run_file import RunFile
from zabka.api.runs.why import Whys
from zabka.journal import events as e
from zabka.journal.cause import Cause
from zabka.journal.causes import Causes
from zabka.journal.events import Entry
from zabka.journal.writer import encode_line
from zabka.simulation.scenarios.library import LIBRARY, play

V1 = "/api/v1"
VERDICT = play(LIBRARY["kafka-1211"])
assert VERDICT.shown is not None
BUG = tuple(VERDICT.shown.journal)


def seq_of(kind: type[e.Event], node: str) -> int:
    return next(entry.seq for entry in BUG if isinstance(entry.event, kind) and entry.node == node)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("api")) as running:

        async def kept() -> None:
            held = tuple(VERDICT.journal)
            keep(running.services.runs.kept, kept_run("r0000000a", 1, held), held)
            keep(running.services.runs.kept, kept_run("r0000000b", 2, BUG), BUG)

        asyncio.run_coroutine_threadsafe(kept(), running.loop).result(30)
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=20) as client:
        yield client


def test_truncation_is_traced_to_the_fault_that_killed_a_leader(http: httpx.Client) -> None:
    seq = seq_of(e.LogTruncated, "broker-4")
    steps: list[Any] = http.get(f"{V1}/runs/r0000000b/why", params={"seq": seq}).json()

    assert (steps[0]["seq"], steps[0]["link"], steps[0]["event"]["type"]) == (seq, None, "log_truncated")
    assert all(step["link"] for step in steps[1:])
    assert [step["end"] for step in steps[:-1]] == [None] * (len(steps) - 1)
    types = [step["event"]["type"] for step in steps]
    assert types.index("followership_taken") < types.index("leader_elected")
    assert steps[-1]["end"] in ("fault", "timer")
    assert "6" in steps[0]["told"]
    rule = steps[0]["rule"]
    assert rule["source"]["line"] > 0
    assert rule["theirs"]["url"].startswith("https://")


def test_causes_from_the_api_equal_those_of_the_whole_journal(server: Server) -> None:
    causes = Causes()
    for entry in BUG:
        causes.see(entry)
    whys = _whys_of_bug(server)

    async def compare() -> int:
        compared = 0
        for entry in BUG:
            if hasattr(entry.event, "caused_by"):
                chain = causes.chain(entry)
                steps = await whys.why(entry.seq)
                assert [step["seq"] for step in steps] == [step.seq for step in chain.steps]
                assert (steps[-1]["end"], steps[-1]["says"]) == (chain.end.value, chain.says or None)
                compared += 1
        return compared

    assert asyncio.run(compare()) > 20


def test_partial_read_of_a_long_history_finds_the_same_causes(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "LOOKED_BACK_MAX", 1_400)
    idle = [Entry("peer-9", number, number, number, e.EpochAccepted(number)) for number in range(1, 6_001)]
    kept = server.services.runs.kept
    long = kept_run("r0000000c", 3, ())
    kept.keep(long, [*idle[:3_000], *BUG, *idle[3_000:]])
    kept.admit(long)
    whys = Whys(RunFile(kept.path("r0000000c") / JOURNAL))
    cut = seq_of(e.LogTruncated, "broker-4")
    expected = [step["seq"] + 3_000 for step in asyncio.run(_whys_of_bug(server).why(cut))]

    async def ask() -> None:
        for seq in (cut + 3_000, 1, cut + 3_000, 6_000 + len(BUG), cut + 3_000):
            steps = await whys.why(seq)
            assert [step["seq"] for step in steps] == (expected if seq == cut + 3_000 else [seq])

    assert len(expected) > 3
    asyncio.run(ask())


def test_search_for_causes_does_not_read_unneeded_events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(why, "LOOKED_BACK_MAX", 100)
    monkeypatch.setattr(why, "LOOKED_AHEAD", 10)
    path = tmp_path / JOURNAL
    idle = (encode_line("peer-9", number, number, number, e.EpochAccepted(number)) for number in range(1, 5_001))
    path.write_bytes(b"".join(b'{"seq":%d,' % seq + line[1:] for seq, line in enumerate(idle, 1)))
    history = RunFile(path)
    whys = Whys(history)
    asyncio.run(whys.why(50))
    read = history.read
    looked_through: list[int] = []

    def noted(seq: int, limit: int) -> list[Numbered]:
        found = read(seq, limit)
        looked_through.extend(event.seq for event in found)
        return found

    monkeypatch.setattr(history, "read", noted)
    monkeypatch.setattr(why, "_BATCH", 50)
    asyncio.run(whys.why(4_900))
    assert len(looked_through) < 300


def _whys_of_bug(server: Server) -> Whys:
    return Whys(RunFile(server.services.runs.kept.path("r0000000b") / JOURNAL))


def test_divergence_of_two_runs_is_their_first_different_event(http: httpx.Client) -> None:
    found = http.get(f"{V1}/runs/r0000000a/divergence", params={"from": "r0000000b"}).json()

    assert found["same"] is False
    cut = found["at"]["b"]["event"]
    assert (cut["node"], cut["type"], cut["from_offset"], cut["to_offset"]) == ("broker-4", "log_truncated", 6, 5)
    assert found["at"]["a"] is None, "without the bug, broker 4 truncates nothing"
    assert found["before"]["b"] == found["at"]["b"]["seq"] - 1
    then = http.get(f"{V1}/runs/r0000000a/journal", params={"after": found["before"]["a"] - 1, "limit": 2}).json()
    assert then[0]["wall_us"] <= cut["wall_us"] < then[1]["wall_us"]
    assert found["why"]["b"][0]["seq"] == found["at"]["b"]["seq"]
    assert found["why"]["b"][0]["rule"]["name"]
    same = http.get(f"{V1}/runs/r0000000a/divergence", params={"from": "r0000000a"}).json()
    assert (same["same"], same["at"]) == (True, {"a": None, "b": None})


@pytest.mark.parametrize("reference", ["owner nobody", "absence of mind", "absence " + "9" * 5_000, "registration x"])
def test_invalid_cause_reference_is_ignored(reference: str) -> None:
    truncation: Any = next(entry for entry in BUG if isinstance(entry.event, e.LogTruncated))
    entry = msgspec.structs.replace(
        truncation, event=msgspec.structs.replace(truncation.event, caused_by=Cause(reference))
    )
    causes = Causes()
    causes.see(entry)
    assert causes.chain(entry).steps == (entry,)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("r0000000b/why", 422),
        ("r0000000b/why?seq=999999", 404),
        ("r9999999b/why?seq=1", 404),
        ("live/why?seq=1", 404),
        ("r0000000b/divergence", 422),
        ("r0000000b/divergence?from=nope", 404),
        ("r0000000b/divergence?from=live", 422),
    ],
)
def test_request_for_missing_causes_returns_a_problem_document(http: httpx.Client, path: str, status: int) -> None:
    answer = http.get(f"{V1}/runs/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
