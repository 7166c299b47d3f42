"""Request faults as steps of a script in the simulated world."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from zabka.ensemble.request_fault import RequestFault
from zabka.journal.causes import Causes, End
from zabka.journal.events import Entry, IsrProposed, RequestFaultApplied
from zabka.simulation.scenarios.kafka_controller_outages import OPENED
from zabka.simulation.scenarios.kafka_steps import Produce
from zabka.simulation.scenarios.scenario import Moment, Verdict, WorldScenario
from zabka.simulation.scenarios.world_player import play
from zabka.simulation.scenarios.world_steps import Ask, Disturb, Heal, Join


def rule(**fields: Any) -> RequestFault:
    return RequestFault(**{"kind": "request", **fields})


def played(*steps: Any, brokers: int = 3) -> Verdict:
    decisive = Moment("request_fault_applied", {})
    script = WorldScenario(
        "request-fault", "A request fault", "It applies.", "", "", decisive=decisive, steps=steps, brokers=brokers
    )
    return play(script)


def uses(verdict: Verdict) -> list[Entry]:
    return [entry for entry in verdict.journal if isinstance(entry.event, RequestFaultApplied)]


REFUSED = rule(api="Produce", topic="orders", effect="error", error="INVALID_REQUIRED_ACKS", times=2)


def test_fault_step_makes_a_producer_receive_the_injected_error() -> None:
    verdict = played(
        *OPENED,
        Disturb(REFUSED),
        Produce("orders-0", 2, expect=("invalid_required_acks",)),
        Produce("orders-0", expect=("ok",)),
    )
    assert verdict.problems == []
    assert [entry.event.subject for entry in uses(verdict)] == ["orders-0", "orders-0"]  # type: ignore[attr-defined]


def test_simulated_request_fault_is_caused_by_its_injection() -> None:
    verdict = played(*OPENED, Disturb(REFUSED), Produce("orders-0"))
    causes = Causes()
    for entry in verdict.journal:
        causes.see(entry)
    assert {causes.chain(entry).end for entry in uses(verdict)} == {End.FAULT}


def test_isr_shrink_is_caused_by_a_fault_on_fetch_requests() -> None:
    verdict = played(
        *OPENED,
        Disturb(rule(api="Fetch", client_id="broker-*", effect="close", for_ms=20_000)),
        Produce("orders-0", expect=("ok", "not_enough_replicas_after_append")),
    )
    causes = Causes()
    for entry in verdict.journal:
        causes.see(entry)
    shrunk = [entry for entry in verdict.journal if isinstance(entry.event, IsrProposed) and entry.event.cause == "lag"]
    assert shrunk and verdict.problems == []
    assert {causes.chain(entry).end for entry in shrunk} == {End.FAULT}


def test_heal_step_ends_a_request_fault() -> None:
    verdict = played(
        *OPENED,
        Disturb(msgspec.structs.replace(REFUSED, times=0), "controller"),
        Heal(),
        Produce("orders-0", expect=("ok",)),
    )
    assert (verdict.problems, uses(verdict)) == ([], [])


def test_script_step_can_drop_the_reply_to_a_create() -> None:
    verdict = played(
        Join("a", (1, 2, 3), 20_000),
        Disturb(rule(opcode="create", path="/x", effect="drop_response", times=1)),
        Ask("a", "create", "/x", "one", ("ConnectionLoss",)),
        Ask("a", "get", "/x", expect=("one",)),
        brokers=0,
    )
    assert verdict.problems == []
    assert len(uses(verdict)) == 1


@pytest.mark.parametrize("step", [Disturb(REFUSED, "broker-1")])
def test_fault_step_of_a_script_survives_a_round_trip(step: Disturb) -> None:
    assert msgspec.json.decode(msgspec.json.encode(step), type=Disturb) == step


def test_fault_that_is_impossible_fails_its_step() -> None:
    verdict = played(*OPENED, Disturb(rule(api="Produce", effect="error", error="NOT_COORDINATOR")))
    assert any("Produce cannot return NOT_COORDINATOR" in problem for problem in verdict.problems)
