"""Simulated clusters of whole broker processes.

Seeds violate no invariant, give the same bytes when they run again, and find injected bugs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path

import pytest

from tests.simulation.injected_brokers import (
    a_broker_uses_a_descriptor_that_it_has_closed,
    a_commit_of_offsets_fails_by_a_mistake,
    a_topics_minimum_is_not_read,
    commits_of_offsets_do_not_wait,
    the_first_commit_counts,
)
from tests.simulation.injected_log_files import (
    a_byte_changes_on_its_way_to_the_file,
    a_flush_is_not_awaited,
    a_torn_tail_is_trusted,
)
from zabka.broker_sim.logs.checkpoints import CLEAN_SHUTDOWN
from zabka.journal.events import LogDamageFound, NodeStopped
from zabka.simulation.checkers.stored_commits import ANSWERED, ON_DISKS
from zabka.simulation.cluster.broker_machine import BrokerMachine
from zabka.simulation.cluster.cluster_world import ClusterShape, draw_cluster_shape
from zabka.simulation.cluster.reached import CLUSTER_PLACES
from zabka.simulation.draws import derive_random
from zabka.simulation.run import run_seed
from zabka.simulation.seeds.whole_cluster import WHOLE_CLUSTER, ClusterRun, serve_cluster

SEEDS, SEEDS_IN_THE_SUITE = 60, 2
A_TENTH = 10
SETTLED_MS_MAX = 30_000


def a_calm_cluster() -> ClusterRun:
    shape = draw_cluster_shape(derive_random(1, "cluster shape"))
    calm = ClusterShape(shape.ensemble._replace(pieces=0.4, skew_ms_max=0), 3, 1, shape.keys, 20)
    run = ClusterRun(7, calm)
    with run.in_virtual_time():
        run.boot()
        run.world.run(2_000)
    return run


def settle(run: ClusterRun) -> None:
    run.world.until(lambda: run.cluster.unsettled() is None, SETTLED_MS_MAX, "a full ISR for every partition")


def leaves_its_mark(machine: BrokerMachine) -> bool:
    return f"{machine.log_dirs[0]}/{CLEAN_SHUTDOWN}" in dict(machine.volume.files())


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[pytest.mark.long] if seed > SEEDS_IN_THE_SUITE else []) for seed in range(1, SEEDS)],
)
def test_whole_broker_seed_keeps_invariants_and_recovers(seed: int) -> None:
    outcome = run_seed(seed, WHOLE_CLUSTER)
    assert outcome.problems == []
    assert outcome.acknowledged_records > 0


def test_whole_broker_run_does_not_depend_on_python_hash_seed() -> None:
    code = (
        "from hashlib import sha256; from zabka.simulation.run import run_with_journal; "
        "print(sha256(b''.join(run_with_journal(1, 'whole-cluster')[1])).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    here = sha256(b"".join(serve_cluster(1).world.record.lines())).hexdigest()
    assert done.stdout == f"{here}\n"


def test_broker_whose_only_directory_fails_is_restarted() -> None:
    run = a_calm_cluster()
    machine = run.cluster.brokers[2]
    with run.in_virtual_time():
        machine.volume.fail_next("write", within="/kafka-1/orders")
        run.world.until(lambda: machine.gave_up == 1, SETTLED_MS_MAX, "a broker that has given up")
        assert machine.broker is None
        settle(run)
    damages = [entry.event for entry in run.world.record.entries if isinstance(entry.event, LogDamageFound)]
    assert [damage.action for damage in damages] == ["taken offline"]
    assert run.problems() == []
    run.world.end_world()


def test_clean_shutdown_file_is_left_on_stop_not_on_power_loss() -> None:
    run = a_calm_cluster()
    told, cut = run.cluster.brokers[1], run.cluster.brokers[2]
    with run.in_virtual_time():
        told.is_wanted = False
        told.terminate()
        run.world.until(lambda: told.process is None, SETTLED_MS_MAX, "a broker that has stopped")
        run.world.announce("power_loss", cut.name)
        cut.lose_power()
        assert [leaves_its_mark(machine) for machine in (told, cut)] == [True, False]
        told.switch_on()
        cut.switch_on()
        settle(run)
    reasons = [entry.event.reason for entry in run.world.record.entries if isinstance(entry.event, NodeStopped)]
    assert reasons == ["shutdown"]
    assert run.problems() == []
    run.world.end_world()


INJECTED: dict[Callable[[], AbstractContextManager[None]], tuple[int, str]] = {
    a_torn_tail_is_trusted: (28, "the checksum of the batch at 6 does not hold"),
    a_flush_is_not_awaited: (3, "on disk it ends at"),
    a_byte_changes_on_its_way_to_the_file: (1, "the checksum of the batch at 6 "),
    a_commit_of_offsets_fails_by_a_mistake: (9, "KeyError"),
    a_broker_uses_a_descriptor_that_it_has_closed: (3, "Bad file descriptor"),
    commits_of_offsets_do_not_wait: (9, ON_DISKS),
    the_first_commit_counts: (14, ANSWERED),
    a_topics_minimum_is_not_read: (8, "NothingCommittedUnderMinIsr"),
}
"""Injected bugs, each with the seed that finds it and the problem that it causes."""


@pytest.mark.parametrize("mistake", INJECTED, ids=lambda mistake: mistake.__name__)
def test_seed_detects_an_injected_bug_but_passes_without_it(
    mistake: Callable[[], AbstractContextManager[None]],
) -> None:
    seed, shown = INJECTED[mistake]
    assert any(shown in problem for problem in serve_cluster(seed, [mistake()]).problems())
    assert serve_cluster(seed).problems() == []


@pytest.mark.long
def test_each_cluster_probe_is_reached_by_10_percent_of_seeds() -> None:
    reached = Counter[str]()
    for seed in range(1, SEEDS):
        outcome = run_seed(seed, WHOLE_CLUSTER)
        reached.update(place for place, count in outcome.reached.items() if count)
    assert {place: reached[place] for place in CLUSTER_PLACES if reached[place] < SEEDS // A_TENTH} == {}
