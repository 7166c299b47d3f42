"""Stored runs of scripts (with and without their bug) and of seeds, executed in a real simulation process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import HERE, FakePlayer, Server
from zabka.api.collector.collector import Collector
from zabka.api.runs.catalogue import Runs
from zabka.api.runs.kept import MESSAGES, KeptRuns
from zabka.api.runs.messages import KeptMessages, Window
from zabka.api.runs.plays import NotKept, Play, keep
from zabka.api.scenarios.models import SEEDS, NewScenarioRun, NewSeedRun, ScenarioRun
from zabka.api.scenarios.process import ScenarioProcess
from zabka.api.scenarios.runs import ScenarioRuns
from zabka.compose.launch import player_argv
from zabka.journal.events import LogTruncated
from zabka.journal.fold import fold
from zabka.journal.reader import decode_line
from zabka.simulation.run import SEARCHED, run_with_journal


def play(tmp_path: Path, *asked: Any) -> tuple[list[ScenarioRun], Runs, Collector]:
    """Execute each of the requested runs, and wait until all have ended."""
    collector = Collector(tmp_path / "collected")
    runs = Runs(collector, KeptRuns(tmp_path / "runs"))
    plays = ScenarioRuns(ScenarioProcess(player_argv()), runs.kept, HERE)

    async def ended() -> list[ScenarioRun]:
        playing = asyncio.create_task(plays.run())
        requested = [await _started(plays, each) for each in asked]
        while any(plays.get(run.id).state != "ended" for run in requested):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        playing.cancel()
        return [plays.get(run.id) for run in requested]

    return asyncio.run(ended()), runs, collector


async def _started(plays: ScenarioRuns, asked: tuple[Any, Any]) -> ScenarioRun:
    name, requested = asked
    return await plays.request(name, requested) if isinstance(name, str) else plays.request_seed(name, requested)


def wait_for(what: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(what)


def test_requested_script_run_is_stored_with_and_without_its_bug(tmp_path: Path) -> None:
    """A script run requested with `keep` is stored with and without its bug, and opens in under 2 s of CPU time.

    A run requested without `keep` is not stored.
    """
    requested = ("kafka-1211", NewScenarioRun(keep=True)), ("zookeeper-1549", NewScenarioRun())
    (run, other), runs, collector = play(tmp_path, *requested)
    assert (run.error, other.error, other.kept) == (None, None, None)
    assert len(runs.kept.all()) == 2
    assert run.kept is not None
    assert (run.kept.run, run.kept.bug) == (run.id, f"{run.id}.bug")
    fixed, bug = runs.get(run.id), runs.get(f"{run.id}.bug")
    assert (fixed.kind, fixed.of, fixed.verdict, fixed.pair) == ("scenario", "kafka-1211", "held", bug.id)
    assert (bug.verdict, bug.pair, bug.title) == ("violated", fixed.id, f"{fixed.title}: with its bug")
    assert (fixed.variant, bug.variant) == (None, "with its bug")
    assert run.outage is not None
    assert (fixed.sha256, bug.sha256) == (run.journal_sha256, run.outage.journal_sha256)

    begin_s = time.process_time()
    state = wait_for(runs.rewind(bug.id).state(None))
    lasted = wait_for(runs.rewind(bug.id).spans())
    assert time.process_time() - begin_s < 2
    history = runs.rewind(bug.id).history
    entries = [decode_line(event.json) for event in history.read(1, 10**6)]
    assert state == fold(entries)
    assert lasted.spans
    assert fixed.messages
    assert bug.messages
    cuts = [(e.node, e.event.from_offset, e.event.to_offset) for e in entries if isinstance(e.event, LogTruncated)]
    decisive = next(e for e in entries if e.seq == bug.decisive_seq)
    assert isinstance(decisive.event, LogTruncated)
    assert ("broker-4", 6, 5) in cuts
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [fixed.id, bug.id], (
        "no temporary file is left"
    )
    messages = wait_for(KeptMessages().of(runs.kept.path(bug.id) / MESSAGES))
    found = messages.select(Window(bug.first_us, bug.last_us, frozenset(), 10**6)).messages
    written = (runs.kept.path(bug.id) / MESSAGES).read_bytes().count(b"\n")
    assert len(found) > written * 0.9, "messages are served on the clock of the events"
    assert bug.first_us <= min(each.sent_us for each in found)
    collector.close()


def test_two_runs_of_a_seed_have_the_same_journal_hash(tmp_path: Path) -> None:
    requested = (3, NewSeedRun(scenario="ensemble"))
    (first, second), runs, collector = play(tmp_path, requested, requested)

    assert first.replay == "zabka replay --scenario ensemble --seed 3"
    one, other = runs.get(first.id), runs.get(second.id)
    assert (one.kind, one.of, one.title) == ("seed", "3", "Seed 3 of ensemble")
    assert one.sha256 == other.sha256 == first.journal_sha256
    assert one.id != other.id
    journals = [(tmp_path / "runs" / run.id / "journal.jsonl").read_bytes() for run in (one, other)]
    assert journals[0] == journals[1]
    collector.close()


def test_run_of_a_full_process_seed_is_stored_with_its_messages(tmp_path: Path) -> None:
    (run,), runs, collector = play(tmp_path, (3, NewSeedRun(scenario="whole-cluster")))

    kept = runs.get(run.id)
    assert kept.messages
    messages = wait_for(KeptMessages().of(runs.kept.path(kept.id) / MESSAGES))
    within = messages.select(Window(kept.first_us, kept.last_us, frozenset(), 10**6)).messages
    assert {"LeaderAndIsr", "PROPOSAL", "Notification", "Fetch"} <= {each.kind for each in within}
    assert all(each.arrived_us is None or each.arrived_us >= each.sent_us for each in within)
    collector.close()


def test_api_accepts_the_seed_types_of_the_replay_command() -> None:
    assert SEEDS == SEARCHED


@pytest.mark.parametrize(
    ("seed", "body", "status", "message"),
    [
        ("1", {"scenario": "nope"}, 422, "there is no scenario 'nope'"),
        ("1", {"scenario": "whole", "settings": {"tickTime": "250"}}, 422, "accepts no settings"),
        ("1", {"settings": {"no.such.key": "1"}}, 422, "no.such.key"),
        ("-1", {}, 422, "seed"),
        ("x", {}, 422, "seed"),
        ("1", {"more": 1}, 422, "more"),
    ],
)
def test_invalid_seed_is_rejected(tmp_path: Path, seed: str, body: dict[str, Any], status: int, message: str) -> None:
    with Server(tmp_path) as server, httpx.Client(base_url=server.url, trust_env=False) as http:
        answer = http.post(f"/api/v1/seeds/{seed}/runs", json=body)

    assert answer.status_code == status
    assert message in answer.json()["detail"]


def test_run_with_unstorable_journal_still_has_a_verdict(tmp_path: Path) -> None:
    """A run whose journal cannot be stored still reports its verdict. The fake process in this test writes no
    journal.
    """

    async def scenario() -> ScenarioRun:
        plays = ScenarioRuns(FakePlayer(), KeptRuns(tmp_path), HERE)
        playing = asyncio.create_task(plays.run())
        run = await plays.request("kafka-708", NewScenarioRun(keep=True))
        while plays.get(run.id).state != "ended":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        playing.cancel()
        return plays.get(run.id)

    run = asyncio.run(asyncio.wait_for(scenario(), 20))
    assert (run.verdict, run.kept) == ("held", None)
    assert "its journal cannot be stored" in (run.error or "")
    assert list(tmp_path.iterdir()) == []


def test_run_is_not_stored_if_its_bug_counterpart_is_invalid(tmp_path: Path) -> None:
    played, runs = tmp_path / "played", tmp_path / "runs"
    played.mkdir()
    _, lines = run_with_journal(1, "kafka-1211")
    (played / "a.jsonl").write_bytes(b"".join(lines))
    (played / "b.jsonl").write_bytes(b"no journal\n")
    known = {"kind": "scenario", "title": "t", "of": "t", "verdict": "held", "sha256": "", "replay": ""}
    pair = [Play(name="a", id="r00000001", **known), Play(name="b", id="r00000001.bug", **known)]  # type: ignore[arg-type]
    with pytest.raises(NotKept):
        wait_for(keep(KeptRuns(runs), played, pair))
    assert list(runs.iterdir()) == []
