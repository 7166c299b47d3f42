"""Outages of Kafka: a script must show a problem with its historical behaviour, and no problem without it.

`tests.simulation.scenarios.test_scenarios.test_scenario_has_no_problem_and_a_decisive_event` checks that each script
passes.
"""

from __future__ import annotations

import pytest

from tests.simulation import injected_table
from zabka.cli import outage_library as cli
from zabka.controller.historical import Historical
from zabka.simulation.scenarios.library import LIBRARY, play
from zabka.simulation.scenarios.scenario import WithBug, WorldScenario

REPLAYABLE = [
    "KAFKA-1382", "KAFKA-2729", "KAFKA-6082", "KAFKA-13407", "KAFKA-12315", "14845", "KAFKA-7235", "KAFKA-4447",
    "KAFKA-4443", "session-expiry flapping", "KAFKA-14190", "KAFKA-1211", "KAFKA-6361", "KAFKA-6880", "KAFKA-7128",
    "KAFKA-14617", "KAFKA-14140", "KAFKA-15583", "KAFKA-708", "acks=1", "Jepsen", "Honeycomb",
]  # fmt: skip
OUTAGES = [s for s in LIBRARY.values() if isinstance(s, WorldScenario) and s.brokers]


@pytest.mark.parametrize("switch", Historical)
def test_every_historical_behaviour_has_a_script(switch: Historical) -> None:
    script = injected_table.script_of(switch)
    assert script.shows


def test_every_replayable_outage_is_in_the_library() -> None:
    known = " ".join(f"{s.source} {s.fixed}" for s in OUTAGES)
    assert [outage for outage in REPLAYABLE if outage not in known] == []


def test_script_that_passes_despite_its_bug_is_reported() -> None:
    """A script whose bug has no effect is reported as a problem.

    In this test, the hypothesis of the script holds even with the bug.
    """
    found = LIBRARY["kafka-708"]
    assert isinstance(found, WorldScenario)
    harmless = WorldScenario(
        "harmless", "", found.hypothesis, brokers=3, bug={"num.partitions": "2"}, shows=found.shows, steps=found.steps
    )
    assert any("should have shown" in problem for problem in play(harmless).problems)


def test_outage_script_is_reported_with_and_without_its_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["kafka-708"], None) == 0
    said = capsys.readouterr().out
    assert "kafka-708: held" in said
    assert "with zabka.historical=empty-isr" in said and "the ISR is empty" in said


def test_only_two_outage_scripts_have_steps_just_for_their_bug() -> None:
    by_hand = [s.name for s in OUTAGES if any(isinstance(step, WithBug) for step in s.steps)]
    assert by_hand == ["kafka-2729", "kafka-14190"]
