"""Seeds with faults of single requests: every invariant holds, and the drawn fault rules make sense."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.test_seeds import seeds
from zabka.ensemble.request_fault import RequestFault
from zabka.journal.events import RequestFaultApplied
from zabka.kafka.request_faults.ready_sets import why_impossible
from zabka.simulation.faults import request_faults as drawn
from zabka.simulation.seeds.chaos import REQUESTS
from zabka.simulation.seeds.seed_run import SeedRun
from zabka.simulation.settings import world_settings

SEEDS, SEEDS_IN_THE_SUITE = 40, 2
KAFKA = [(api, effect) for api in (*drawn.OF_CLIENTS, *drawn.OF_BROKERS) for effect in drawn.SILENT]
ZOOKEEPER = [(opcode, effect) for opcode in drawn.OPERATIONS for effect in drawn.OF_PEERS]


@pytest.mark.parametrize("seed", seeds(SEEDS, SEEDS_IN_THE_SUITE))
def test_seed_with_request_faults_keeps_every_invariant(seed: int) -> None:
    assert SeedRun(seed, REQUESTS).execute().problems == []


def test_seed_with_only_request_faults_injects_them() -> None:
    settings = world_settings(
        [f"faults.kinds={','.join(drawn.REQUEST_FAULTS)}", "faults.gap.ms=600", "faults.ms=10000"]
    )
    run = SeedRun(1, REQUESTS, settings)
    assert run.execute().problems == []
    assert sum(isinstance(entry.event, RequestFaultApplied) for entry in run.world.record.entries) > 3


def rule(effect: str, **fields: Any) -> RequestFault:
    delay = {"delay_ms": 1} if effect.startswith("delay") else {}
    return RequestFault(**{"kind": "request", "effect": effect, **delay, **fields})


def test_randomly_drawn_fault_rules_are_valid() -> None:
    rules = [rule(api=api, effect=effect) for api, effect in KAFKA]
    rules += [rule(opcode=opcode, effect=effect) for opcode, effect in ZOOKEEPER]
    rules += [rule(api=api, effect="error", error=error) for api, errors in drawn.ERRORS.items() for error in errors]
    assert [reason for each in rules if (reason := why_impossible(each)) is not None] == []
