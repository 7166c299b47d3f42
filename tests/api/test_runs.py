"""Past states of runs: the state at any time is computed from the events up to that time.

This applies to the live cluster and to stored runs.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.api.api_server import Server
from tests.api.histories import collect_history, copies, keep, kept_run, played
from zabka.api.collector.collector import Collector
from zabka.api.http.problems import Problem
from zabka.api.runs.catalogue import Runs
from zabka.api.runs.history import CHECKPOINT_EVERY, Checkpoints
from zabka.api.runs.kept import JOURNAL, KeptRuns
from zabka.api.runs.rewind import Rewind
from zabka.api.runs.run_file import RunFile
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import Entry, type_name
from zabka.journal.fold import fold
from zabka.journal.reader import decode_line

V1 = "/api/v1"


def as_json(state: ClusterState) -> Any:
    return msgspec.json.decode(msgspec.json.encode(state))


def numbers(last: int, count: int = 40) -> list[int]:
    """Return a random sample of event numbers, and all numbers next to a checkpoint."""
    edges = [seq for every in range(0, last, CHECKPOINT_EVERY) for seq in (every - 1, every, every + 1)]
    drawn = random.Random(1).sample(range(1, last + 1), count)
    return [seq for seq in (*drawn, *edges, last) if 0 <= seq <= last]


@pytest.fixture
def kept(tmp_path: Path) -> KeptRuns:
    return KeptRuns(tmp_path / "runs")


def test_state_of_a_stored_run_is_computed_from_its_events(kept: KeptRuns, tmp_path: Path) -> None:
    history = tuple(copies(played(), 2))
    keep(kept, kept_run("r00000001", 1, history), history)
    rewind = Runs(Collector(tmp_path / "c"), kept).rewind("r00000001")

    for seq in numbers(len(history)):
        assert as_json(asyncio.run(rewind.state(seq))) == as_json(fold(history[:seq])), seq
    assert asyncio.run(rewind.state(None)).seq == len(history)


def test_run_deleted_during_a_read_is_not_found(kept: KeptRuns, tmp_path: Path) -> None:
    history = played()
    keep(kept, kept_run("r00000001", 1, history), history)
    runs = Runs(Collector(tmp_path / "c"), kept)

    async def scenario() -> None:
        asked = asyncio.ensure_future(runs.rewind("r00000001").state(None))
        await asyncio.sleep(0)
        runs.delete("r00000001")
        with pytest.raises(Problem) as problem:
            await asked
        assert problem.value.status == 404

    asyncio.run(scenario())


def test_states_do_not_depend_on_cached_checkpoints(kept: KeptRuns) -> None:
    history = tuple(copies(played(), 3))
    keep(kept, kept_run("r00000001", 1, history), history)
    file = RunFile(kept.path("r00000001") / JOURNAL)
    forgetful = Rewind(file, Checkpoints(bytes_max=1))

    for seq in (5_500, 10, 3_000, 5_500, 4_999):
        assert asyncio.run(forgetful.state(seq)) == fold(history[:seq])


def test_live_state_is_exact_after_oldest_events_are_deleted(tmp_path: Path) -> None:
    collector = Collector(tmp_path, kept_bytes_max=1 << 20, file_bytes_max=1 << 17)
    history = collect_history(collector, copies(played(), 5))
    oldest = collector.oldest_seq
    assert 1 < oldest < len(history) // 2

    def check(rewind: Rewind) -> None:
        for seq in random.Random(2).sample(range(oldest - 1, len(history) + 1), 40):
            assert as_json(asyncio.run(rewind.state(seq))) == as_json(fold(history[:seq])), seq

    check(collector.rewind)
    collector.close()
    again = Collector(tmp_path, kept_bytes_max=1 << 20, file_bytes_max=1 << 17)
    assert again.state == fold(history)
    assert again.counts.as_counts() == collector.counts.as_counts()
    assert again.reported_us == collector.reported_us
    check(again.rewind)
    again.close()


def test_state_stored_by_another_zabka_version_is_recomputed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(tmp_path, file_bytes_max=1 << 17)
    history = collect_history(collector, list(played()))
    collector.close()
    monkeypatch.setattr("zabka.api.collector.collector.FOLDED", "of another version")
    again = Collector(tmp_path)

    assert (again.state, again.last_seq, again.oldest_seq) == (fold(history), len(history), 1)
    again.close()


def test_upgrade_keeps_the_state_from_before_the_oldest_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upgrade, the collector still includes deleted events in the state.

    The stored events cover only about two days, so the state before them cannot be computed again.
    """
    collector = Collector(tmp_path, kept_bytes_max=1 << 20, file_bytes_max=1 << 17)
    history = collect_history(collector, copies(played(), 5))
    oldest = collector.oldest_seq
    assert oldest > 1
    collector.close()
    monkeypatch.setattr("zabka.api.collector.collector.FOLDED", "of another version")
    again = Collector(tmp_path, kept_bytes_max=1 << 20, file_bytes_max=1 << 17)

    assert again.state == fold(history)
    assert again.counts.as_counts() == collector.counts.as_counts()
    for seq in (oldest - 1, oldest, oldest + 700, len(history)):
        assert as_json(asyncio.run(again.rewind.state(seq))) == as_json(fold(history[:seq])), seq
    again.close()


def test_state_at_a_deleted_or_future_event_is_rejected(tmp_path: Path) -> None:
    collector = Collector(tmp_path, kept_bytes_max=1 << 18, file_bytes_max=1 << 16)
    collect_history(collector, list(played()))
    oldest = collector.oldest_seq

    assert asyncio.run(collector.rewind.state(oldest - 1)).seq == oldest - 1
    for seq, status, known in ((oldest - 2, 410, {"oldest": oldest}), (99_999, 422, {"last": collector.last_seq})):
        with pytest.raises(Problem) as problem:
            asyncio.run(collector.rewind.state(seq))
        assert (problem.value.status, problem.value.extra) == (status, known)
    collector.close()


def test_deletion_of_events_during_a_state_request_is_an_error(tmp_path: Path) -> None:
    collector = Collector(tmp_path, kept_bytes_max=1 << 20, file_bytes_max=1 << 20)
    collect_history(collector, list(played()))
    collector.close()
    again = Collector(tmp_path, kept_bytes_max=1 << 19, file_bytes_max=1 << 17)

    async def scenario() -> None:
        asked = asyncio.ensure_future(Rewind(again.rewind.history, Checkpoints()).state(1_500))
        await asyncio.sleep(0)
        collect_history(again, [msgspec.structs.replace(e, node_seq=e.node_seq + 10_000) for e in copies(played(), 2)])
        with pytest.raises(Problem, match="the oldest stored event is"):
            await asked

    asyncio.run(scenario())
    again.close()


# ---- stored runs --------------------------------------------------------------------------------------------------


def test_stored_runs_survive_a_restart_and_the_oldest_is_evicted(tmp_path: Path) -> None:
    history = played()[:50]
    kept = KeptRuns(tmp_path, runs_max=2)
    for number in range(1, 4):
        keep(kept, kept_run(f"r0000000{number}", number, history), history)

    assert [run.id for run in kept.all()] == ["r00000002", "r00000003"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r00000002", "r00000003"]
    again = KeptRuns(tmp_path, runs_max=2)
    assert again.all() == kept.all()
    assert [run.id for run in KeptRuns(tmp_path, runs_max=5, bytes_max=1).all()] == ["r00000003"]


def test_incompletely_written_run_is_not_listed(tmp_path: Path) -> None:
    def half() -> Iterator[Entry]:
        yield from played()[:10]
        raise OSError(28, "No space left on device")

    kept = KeptRuns(tmp_path)
    with pytest.raises(OSError, match="No space"):
        kept.keep(kept_run("r00000001", 1, ()), half())
    (tmp_path / "r00000002.unfinished").mkdir()
    (tmp_path / "r00000003").mkdir()
    assert KeptRuns(tmp_path).all() == []
    assert [path.name for path in tmp_path.iterdir()] == ["r00000003"], "an unknown directory is left unchanged"


def test_run_lists_its_paired_run_until_that_run_is_deleted(kept: KeptRuns) -> None:
    history = played()[:10]
    keep(kept, kept_run("r00000001", 1, history, pair="r00000001.bug"), history)
    keep(kept, kept_run("r00000001.bug", 1, history, pair="r00000001"), history)

    assert kept.get("r00000001").pair == "r00000001.bug"
    kept.delete("r00000001.bug")
    assert kept.get("r00000001").pair is None


def test_run_without_its_files_is_not_found(kept: KeptRuns, tmp_path: Path) -> None:
    history = played()[:10]
    for number in (1, 2, 3):
        keep(kept, kept_run(f"r0000000{number}", number, history), history)
    runs = Runs(Collector(tmp_path / "c"), kept)
    asyncio.run(runs.rewind("r00000001").state(None))
    shutil.rmtree(kept.path("r00000001"))
    shutil.rmtree(kept.path("r00000002"))

    for asked in (runs.get, runs.rewind, runs.whys, runs.delete):
        with pytest.raises(Problem) as problem:
            asked("r00000001")
        assert problem.value.status == 404
    assert [run.id for run in kept.all()] == ["r00000003"]


def test_eviction_works_when_the_oldest_run_was_removed(tmp_path: Path) -> None:
    history = played()[:10]
    kept = KeptRuns(tmp_path, runs_max=2)
    for number in (1, 2):
        keep(kept, kept_run(f"r0000000{number}", number, history), history)
    run = kept_run("r00000003", 3, history)
    kept.keep(run, history)
    shutil.rmtree(tmp_path / "r00000001")
    kept.admit(run)
    assert [run.id for run in kept.all()] == ["r00000002", "r00000003"]


def test_unremovable_run_does_not_prevent_startup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = played()[:10]
    kept = KeptRuns(tmp_path)
    for number in (1, 2):
        keep(kept, kept_run(f"r0000000{number}", number, history), history)

    def refuse(path: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    assert [run.id for run in KeptRuns(tmp_path, runs_max=1).all()] == ["r00000002"]


def test_deleted_directory_of_runs_is_created_again(tmp_path: Path) -> None:
    history = played()[:10]
    kept = KeptRuns(tmp_path / "runs")
    shutil.rmtree(tmp_path / "runs")
    keep(kept, kept_run("r00000001", 1, history), history)
    assert [run.id for run in KeptRuns(tmp_path / "runs").all()] == ["r00000001"]


# ---- over HTTP ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("api")) as running:
        in_loop(running, lambda: _fill(running))
        yield running


async def _fill(server: Server) -> None:
    collect_history(server.collector, list(played()))
    keep(server.services.runs.kept, kept_run("r0000000a", 1, played()), played())


def in_loop(server: Server, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run_coroutine_threadsafe(what(), server.loop).result(30)


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=10) as client:
        yield client


def test_live_run_is_listed_first(server: Server, http: httpx.Client) -> None:
    live, kept = http.get(f"{V1}/runs").json()

    last = server.collector.last_seq
    assert (live["id"], live["kind"], live["last_seq"]) == ("live", "live", last)
    assert live["events"] == last + 1 - live["first_seq"]
    assert kept == http.get(f"{V1}/runs/r0000000a").json()
    assert (kept["pair"], kept["messages"]) == (None, False)


def test_state_over_http_equals_the_stream_snapshot(server: Server, http: httpx.Client) -> None:
    found = http.get(f"{V1}/runs/live/state").json()

    assert found["state"] == as_json(server.collector.state)
    assert (found["seq"], found["at_us"]) == (found["state"]["seq"], found["state"]["at_us"])
    at = http.get(f"{V1}/runs/r0000000a/state", params={"at": 1_000}).json()
    assert (at["seq"], at["state"]) == (1_000, as_json(fold(played()[:1_000])))


def test_request_for_unchanged_content_returns_304(http: httpx.Client) -> None:
    first = http.get(f"{V1}/runs/r0000000a/state?at=9")
    again = http.get(f"{V1}/runs/r0000000a/state?at=9", headers={"If-None-Match": first.headers["etag"]})
    other = http.get(f"{V1}/runs/r0000000a/state?at=10", headers={"If-None-Match": first.headers["etag"]})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert other.status_code == 200


def test_responses_are_compressed(http: httpx.Client) -> None:
    assert http.get(f"{V1}/runs/r0000000a/journal").headers["content-encoding"] == "gzip"
    assert http.get(f"{V1}/runs/r0000000a/state").headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    ("asked", "selected"),
    [
        ({"after": 5, "limit": 3}, lambda e: 5 < e.seq <= 8),
        ({"after": 5, "until": 7}, lambda e: 5 < e.seq <= 7),
        ({"until": 7, "limit": 3}, lambda e: 4 < e.seq <= 7),
        ({"types": "controller_elected,leader_elected"}, lambda e: "elected" in type_name(e.event)),
        ({"after": 100, "not_types": "txn_logged,txn_committed", "limit": 100_000},
         lambda e: e.seq > 100 and type_name(e.event) not in ("txn_logged", "txn_committed")),
        ({"until": 1_900, "types": "session_closed", "limit": 1},
         lambda e: e is [x for x in played()[:1_900] if type_name(x.event) == "session_closed"][-1]),
    ],
)  # fmt: skip
def test_run_events_can_be_paged_from_the_start_or_the_end(
    http: httpx.Client, asked: dict[str, Any], selected: Callable[[Entry], bool]
) -> None:
    answer = http.get(f"{V1}/runs/r0000000a/journal", params=asked)

    served = [decode_line(msgspec.json.encode(event)) for event in answer.json()]
    assert served == [entry for entry in played() if selected(entry)]


def test_event_page_returns_the_last_seq_it_read(http: httpx.Client) -> None:
    def looked_through(**asked: int | str) -> int:
        return int(http.get(f"{V1}/runs/r0000000a/journal", params=asked).headers["x-looked-through"])

    assert looked_through(after=5, limit=3) == 8
    assert looked_through(types="no_such") == len(played())
    assert looked_through(until=50, limit=3) == 48


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("r99999999", 404),
        ("r99999999/state", 404),
        ("..%2F..%2Fetc/state", 404),
        ("live/state?at=1", 410),
        ("live/state?at=99999999", 422),
        ("live/state?at=-1", 422),
        ("live/journal?after=1", 410),
        ("r0000000a/journal?limit=0", 422),
    ],
)
def test_missing_run_or_event_returns_a_problem_document(http: httpx.Client, path: str, status: int) -> None:
    answer = http.get(f"{V1}/runs/{path}")

    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    if status == 410:
        assert answer.json()["oldest"] == http.get(f"{V1}/runs/live").json()["first_seq"]


def test_run_is_deleted_once_and_live_run_cannot_be_deleted(server: Server, http: httpx.Client) -> None:
    in_loop(server, lambda: _kept_too(server))
    assert http.delete(f"{V1}/runs/r0000000b").status_code == 204
    assert http.delete(f"{V1}/runs/r0000000b").status_code == 404
    assert http.delete(f"{V1}/runs/live").status_code == 409


async def _kept_too(server: Server) -> None:
    keep(server.services.runs.kept, kept_run("r0000000b", 2, played()[:5]), played()[:5])


def test_spans_are_returned_for_each_lane(http: httpx.Client) -> None:
    found = http.get(f"{V1}/runs/r0000000a/spans", params={"lanes": "controller,isr:orders-0", "bins": 800}).json()

    assert [lane["lane"] for lane in found["lanes"]] == ["controller", "isr:orders-0"]
    assert [span["state"] for span in found["lanes"][0]["spans"]] == ["none", "active"]
    assert "leaderless" in [span["state"] for span in found["lanes"][1]["spans"]]
    part = http.get(f"{V1}/runs/r0000000a/spans", params={"from": found["last_us"], "lanes": "controller"}).json()
    assert [span["state"] for span in part["lanes"][0]["spans"]] == ["active"]
    assert http.get(f"{V1}/runs/r0000000a/spans", params={"from": 9, "to": 8}).status_code == 422
