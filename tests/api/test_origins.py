"""The seed and the changes of stored runs, also of runs that were stored before runs had an origin."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from zabka.api.runs.intake import SIMULATION_BEGINS_US
from zabka.api.runs.kept import KeptRuns
from zabka.api.runs.origins import ForkChange, origin_in
from zabka.api.runs.run_models import Run
from zabka.journal.events import Entry, NodeStopped
from zabka.simulation.fork import Change, options

KILL = ["--at", "8.000001s", "--kill", "peer-1", "--kill", "peer-2", "--for", "4s"]
SEED = ["zabka", "what-if", "--scenario", "ensemble", "--seed", "2"]


@pytest.mark.parametrize(
    ("command", "change"),
    [
        (KILL, Change(8_000_001, killed=("peer-1", "peer-2"), lasts_ms=4_000)),
        (["--without", "f3", "--without", "f5"], Change(0, left_out=("f3", "f5"))),
        (["--set", "tickTime=700"], Change(0, started_with={"tickTime": "700"})),
        (["--set", "log.dirs=a b", "--at", "3s"], Change(3_000_000, settings={"log.dirs": "a b"})),
    ],
)
def test_fork_stored_with_its_command_has_its_change(command: list[str], change: Change) -> None:
    found = origin_in(None, shlex.join([*SEED, *command]))
    assert found is not None
    assert (found.scenario, found.seed, [each.change() for each in found.changes]) == ("ensemble", 2, [change])


@pytest.mark.parametrize(
    ("link", "replay"),
    [
        (None, None),
        (None, "zabka replay --seed 2"),
        ("scenario=a", "zabka scenarios"),
        ("scenario=chaos&seed=two", None),
        (None, "zabka what-if --scenario chaos --seed"),
        (None, "zabka what-if --seed 2 --at 3s"),
        (None, "zabka what-if --scenario 'chaos"),
    ],
)
def test_run_that_cannot_be_forked_has_no_origin(link: str | None, replay: str | None) -> None:
    assert origin_in(link, replay) is None


def test_seed_stored_with_its_link_has_an_origin_without_changes() -> None:
    found = origin_in("scenario=chaos&seed=9223372036854775807", None)
    assert found is not None
    assert (found.scenario, found.seed, found.changes) == ("chaos", 2**63 - 1, [])


def test_change_is_the_same_after_it_was_stored() -> None:
    change = Change(7, left_out=("f1",), paused=("peer-1",), lasts_ms=300, started_with={"tickTime": "700"})
    stored = ForkChange.model_validate_json(ForkChange.of(change).model_dump_json())
    assert stored.at_us == SIMULATION_BEGINS_US + 7
    assert stored.change() == change


def test_options_have_each_change_after_its_moment() -> None:
    changes = [Change(0, started_with={"tickTime": "700"}), Change(8_000_001, killed=("peer-1",), left_out=("f2",))]
    assert shlex.join(options(changes)) == (
        "--at start --set tickTime=700 --at 8.000001s --without f2 --kill peer-1 --for 10s"
    )


def test_old_stored_fork_is_read_with_its_change(tmp_path: Path) -> None:
    about: dict[str, Any] = {"title": "Seed 2", "of": "2", "first_seq": 1, "last_seq": 1, "first_us": 0, "last_us": 0}
    run = Run(id="r00000001", kind="seed", events=1, created_ms=1, replay=shlex.join([*SEED, *KILL]), **about)
    KeptRuns(tmp_path).keep(run, [Entry("peer-1", 1, 0, 0, NodeStopped("test"))])
    assert '"origin":null' in (tmp_path / run.id / "run.json").read_text()
    found = KeptRuns(tmp_path).get(run.id).origin
    assert found is not None and found.changes[0].kill == ["peer-1", "peer-2"]
