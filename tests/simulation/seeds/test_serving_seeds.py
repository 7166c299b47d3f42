"""Simulated ensembles of whole processes.

The runs of the seeds violate no invariant, have the same bytes when they are repeated, and reach every coverage probe.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.injected_histories import the_log_is_read_by_its_numbers
from zabka.ensemble.txnlog.files import SNAPSHOT_PREFIX, zxid_of
from zabka.ensemble.txnlog.log import LogWriter
from zabka.ensemble.zab.effects import Effect
from zabka.ensemble.zab.peer import Peer
from zabka.simulation.checkers.platters import NAME as PLATTERS
from zabka.simulation.choices import STRIKE, Choices
from zabka.simulation.cluster.reached import DAMAGE, DIFF_FROM_MEMORY, PLACES, PURGE_BEFORE_JOIN, SNAP
from zabka.simulation.cluster.shape import Shape, draw_shape
from zabka.simulation.draws import derive_random
from zabka.simulation.run import run_seed
from zabka.simulation.scenarios.story import performed_actions
from zabka.simulation.search.choice_search import Found, Requested, kind_of, shrunk
from zabka.simulation.search.runs import play_choices, run_choices
from zabka.simulation.seeds.whole_ensemble import WHOLE, ServingRun, serve_seed

SEEDS, SEEDS_IN_THE_SUITE = 60, 3
A_TENTH = 10
CALM = Shape(
    peers=3,
    observers=0,
    keys={"tickTime": "500", "initLimit": "10", "syncLimit": "5", "snapCount": "20", "zabka.journal.level": "full"},
    pieces=0.4,
    skew_ms_max=0,
    changes_members=False,
)


def fingerprint(run: ServingRun) -> str:
    digest = sha256()
    for line in run.world.record.lines():
        digest.update(line)
    return digest.hexdigest()


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[pytest.mark.long] if seed > SEEDS_IN_THE_SUITE else []) for seed in range(1, SEEDS)],
)
def test_whole_process_seed_keeps_invariants_and_recovers(seed: int) -> None:
    outcome = run_seed(seed, WHOLE)
    assert outcome.problems == []
    assert outcome.acknowledged_writes > 0
    assert outcome.reached[DIFF_FROM_MEMORY] > 0


@pytest.mark.long
def test_whole_process_seed_is_independent_of_the_hash_seed() -> None:
    code = (
        "from hashlib import sha256; from zabka.simulation.run import run_with_journal; "
        "print(sha256(b''.join(run_with_journal(1, 'whole')[1])).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout == f"{fingerprint(serve_seed(1))}\n"


def test_ensemble_without_faults_elects_once_and_expires_nothing() -> None:
    run = ServingRun(7, CALM)
    with run.in_virtual_time():
        run.boot()
        run.world.run(10_000)
    names = Counter(type(entry.event).__name__ for entry in run.world.record.entries)
    assert run.problems() == []
    assert names["LeaderEstablished"] == 1
    assert names["SessionExpired"] == 0
    assert names["SnapshotTaken"] > 3
    run.world.end_world()


@pytest.mark.long
def test_sleeping_host_thread_does_not_change_the_history() -> None:
    ended = threading.Event()

    def rest() -> None:
        while not ended.is_set():
            time.sleep(0.001)

    alone, beside = fingerprint(serve_seed(3)), threading.Thread(target=rest)
    beside.start()
    try:
        assert fingerprint(serve_seed(3)) == alone
    finally:
        ended.set()
        beside.join()


def test_size_and_roles_of_the_ensemble_depend_only_on_the_seed() -> None:
    shapes = [draw_shape(derive_random(seed, "serving shape")) for seed in range(30)]
    assert shapes == [draw_shape(derive_random(seed, "serving shape")) for seed in range(30)]
    assert {shape.peers for shape in shapes} == {3, 4, 5}
    assert {shape.changes_members for shape in shapes} == {True, False}


def test_server_restarted_with_an_empty_disk_gets_a_snapshot() -> None:
    run = ServingRun(7, CALM)
    with run.in_virtual_time():
        run.boot()
        run.world.run(3_000)
        sent_before = run.world.reached.counts[SNAP]
        machine = run.world.peers[1]
        machine.kill()
        machine.format()
        machine.switch_on()
        run.world.until(run.world.every_peer_serves, 20_000, "everybody in service")
    assert run.problems() == []
    assert run.world.reached.counts[SNAP] == sent_before + 1
    run.world.end_world()


def test_damage_on_a_disk_is_detected_at_the_next_server_start() -> None:
    run = ServingRun(7, CALM)
    with run.in_virtual_time():
        run.boot()
        run.world.run(3_000)
        machine = run.world.peers[1]
        machine.kill()
        paths = [Path(path) for path, _ in machine.volume.files()]
        snapshots = [path for path in paths if zxid_of(path, SNAPSHOT_PREFIX) is not None]
        newest = max(snapshots, key=lambda path: zxid_of(path, SNAPSHOT_PREFIX) or 0)
        machine.volume.rot(newest, 8 * 100)
        machine.switch_on()
        run.world.until(run.world.every_peer_serves, 20_000, "everybody in service")
    assert run.problems() == []
    assert run.world.reached.counts[DAMAGE] >= 1
    run.world.end_world()


def test_exception_that_ends_a_peer_process_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    run, turn, failed = ServingRun(7, CALM), Peer.on_clients, []

    def on_clients(peer: Peer, *given: Any) -> list[Effect]:
        if not failed:
            failed.append(peer)
            raise KeyError("injected")
        return turn(peer, *given)

    with run.in_virtual_time():
        run.boot()
        monkeypatch.setattr(Peer, "on_clients", on_clients)
        run.world.run(3_000)
        run.world.until(run.world.every_peer_serves, 20_000, "everybody in service")
    assert [problem for problem in run.problems() if "KeyError: 'injected'" in problem]
    run.world.end_world()


PURGING = CALM._replace(
    keys={
        **CALM.keys,
        "snapCount": "50",
        "zabka.commitLogCount": "10",
        "zabka.snapshotSizeFactor": "1000",
        "autopurge.purgeInterval": "1",
        "autopurge.snapRetainCount": "3",
        "preAllocSize": "64",
        "skipACL": "yes",
    }
)


@pytest.mark.long
def test_diff_with_a_hole_after_a_purge_is_detected() -> None:
    with the_log_is_read_by_its_numbers():
        run = ServingRun(3, PURGING, "replace_after_purge")
        problems = run.execute().problems
    assert any(problem.startswith("committed prefixes agree: ") for problem in problems)


def test_empty_server_that_joins_after_a_purge_gets_all_data() -> None:
    run = ServingRun(3, PURGING, "replace_after_purge")
    assert run.execute().problems == []
    assert run.world.reached.counts[PURGE_BEFORE_JOIN] > 0


@pytest.mark.long
def test_every_coverage_probe_is_reached_in_10_percent_of_seeds() -> None:
    reached = Counter[str]()
    for seed in range(1, SEEDS):
        outcome = run_seed(seed, WHOLE)
        reached.update(place for place, count in outcome.reached.items() if count)
    assert {place: reached[place] for place in PLACES if reached[place] < SEEDS // A_TENTH} == {}


@contextmanager
def acknowledged_before_the_sync() -> Iterator[None]:
    """Injected bug: the log is written but never fsynced."""
    with patch.object(LogWriter, "sync", lambda self: None):
        yield


@pytest.mark.long
def test_write_acknowledged_before_its_sync_is_detected() -> None:
    problems = serve_seed(1, [acknowledged_before_the_sync()]).problems()

    assert any(
        PLATTERS in problem and "was acknowledged and is on the platters of []" in problem for problem in problems
    )
    assert not any(PLATTERS in problem for problem in serve_seed(1).problems())


@pytest.mark.long
def test_shrunk_ensemble_failure_contains_only_the_needed_fault() -> None:
    wanted = Requested(WHOLE)
    with acknowledged_before_the_sync():
        ran = run_choices(Choices(1), WHOLE, wanted.world())
        found = Found(1, kind_of(ran.problems[0]), ran.problems, ran.written)
        choices, problems, _ = shrunk(found, wanted, runs_max=20)
        told = performed_actions(play_choices(choices, WHOLE, wanted.world()))
    assert kind_of(problems[0]) == found.invariant
    assert [act for act in told if "power" in act]
    comes = [name for name, stream in ran.written.streams.items() if name.startswith(STRIKE) and len(stream.words) > 1]
    assert len(comes) > 3
    assert {name for name, stream in choices.streams.items() if stream.words[1:] == (0,)} == set(comes)
