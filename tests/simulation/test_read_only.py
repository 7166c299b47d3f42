"""Read-only servers in a whole simulated cluster with faults."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.simulation import injected_service
from zabka.simulation.run import run_seed
from zabka.simulation.seeds.read_only import READ_ONLY
from zabka.simulation.seeds.seed_run import SeedRun
from zabka.simulation.settings import BadSetting, world_settings

BUSY_SEED = 9
"""Seed in which the reader is connected to a minority for a long time, and then returns to a server with a quorum."""


def test_seed_with_a_read_only_reader_is_deterministic() -> None:
    run, again = SeedRun(BUSY_SEED, READ_ONLY), SeedRun(BUSY_SEED, READ_ONLY)
    assert run.execute().problems == again.execute().problems == []
    assert list(run.world.record.lines()) == list(again.world.record.lines())
    assert run.reading is not None
    assert min(run.reading.read_only_answers, run.reading.refusals, run.reading.writes) > 20
    assert run.reading.watches_fired > 20


@pytest.mark.parametrize("seed", [4, 7])
def test_read_only_seed_keeps_every_invariant(seed: int) -> None:
    assert run_seed(seed, READ_ONLY.name).problems == []


def test_read_only_mode_and_local_session_keys_can_be_set() -> None:
    found = world_settings(["readonlymode.enabled=true", "localSessionsEnabled=TRUE"])
    assert (found.read_only_mode, found.local_sessions, found.local_sessions_upgrading) == (True, True, False)
    with pytest.raises(BadSetting, match="true or false"):
        world_settings(["readonlymode.enabled=1"])


# -- injected bugs


@pytest.mark.parametrize(
    ("injected_bug", "seed", "shows"),
    [
        (injected_service.sessions_are_global, BUSY_SEED, "is a global one"),
        (injected_service.writes_are_answered, BUSY_SEED, "a server without a leader made"),
        (injected_service.service_never_ends, 3, "while clients read it"),
        (injected_service.clients_take_local_sessions_elsewhere, BUSY_SEED, "of a read-only server expired"),
    ],
)
def test_injected_read_only_bug_is_detected(
    injected_bug: Callable[[], AbstractContextManager[None]], seed: int, shows: str
) -> None:
    with injected_bug():
        found = run_seed(seed, READ_ONLY.name).problems
    assert any(shows in problem for problem in found)
