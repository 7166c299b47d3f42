"""Scripts recorded from a journal of real processes."""

from __future__ import annotations

import msgspec

from zabka.journal import events as e
from zabka.journal.cluster_state import ClusterState, PartitionView
from zabka.journal.events import Entry, Event
from zabka.simulation.scenarios.recording import recorded
from zabka.simulation.scenarios.scenario import WorldScenario, decode_scenario
from zabka.simulation.scenarios.world_player import play

BEGAN_US = 1_000_000_000


def entry(at_ms: int, event: Event) -> Entry:
    return Entry(node="host-1", node_seq=at_ms, wall_us=BEGAN_US + at_ms * 1000, mono_us=0, event=event, seq=at_ms)


def cut(fault_id: str, source: str, target: str) -> e.FaultInjected:
    return e.FaultInjected(fault_id, "cut", source, target, both_ways=True, requester="page")


def script_of(events: list[tuple[int, Event]], before: ClusterState | None = None) -> tuple[WorldScenario, list[str]]:
    found = recorded(
        [entry(at_ms, event) for at_ms, event in events], before or ClusterState(), name="mine", from_us=BEGAN_US,
        to_us=BEGAN_US + 30_000_000, peers=3, brokers=3,
    )  # fmt: skip
    scenario = decode_scenario(msgspec.json.encode(found.scenario))
    assert isinstance(scenario, WorldScenario)
    return scenario, found.left_out


def test_recorded_faults_have_their_times_and_run_simulated() -> None:
    before = ClusterState(topics={"orders": "id"}, partitions={"orders-0": PartitionView("orders", 0, [2, 1, 3])})
    script, left_out = script_of(
        [
            (5_004, e.ProcessChanged("broker-2", "down", None, "kill", "page")),
            (8_000, cut("f1", "broker-1", "broker-3")),
            (8_050, cut("f2", "peer-1", "broker-3")),
            (20_000, e.FaultRemoved("f1")),
            (20_010, e.FaultRemoved("f2")),
            (21_000, e.ProcessChanged("broker-2", "running", 7, "start", "page")),
        ],
        before,
    )
    kinds = [(type(step).__name__, getattr(step, "ms", None)) for step in script.steps]
    assert kinds == [
        ("Cast", None), ("Topic", None), ("At", 5_000), ("Kill", None), ("At", 8_000), ("Cut", None), ("Cut", None),
        ("At", 20_000), ("Heal", None), ("At", 21_000), ("Restart", None), ("At", 30_000),
    ]  # fmt: skip
    assert (script.subjects, left_out) == (("election", "network"), [])

    verdict = play(script)
    assert verdict.problems == []
    faults = [each.event for each in verdict.journal if isinstance(each.event, e.FaultInjected)]
    assert (faults[0].kind, faults[0].source) == ("crash", "broker-2")
    assert len(faults) == 3
    assert verdict.virtual_ms > 30_000


def test_recorded_heal_of_one_fault_injects_the_others_again() -> None:
    script, _ = script_of(
        [
            (1_000, cut("f1", "broker-1", "broker-3")),
            (2_000, cut("f2", "broker-2", "broker-3")),
            (3_000, e.FaultRemoved("f1")),
        ]
    )
    after = [step for step in script.steps if type(step).__name__ in ("Cut", "Heal")][2:]
    assert [type(step).__name__ for step in after] == ["Heal", "Cut"]
    assert getattr(after[1], "node", None) == "broker-2"


def test_recording_leaves_out_scripts_and_faults_without_a_step() -> None:
    script, left_out = script_of(
        [
            (500, e.ProcessChanged("broker-2", "down", None, "stop", "page")),
            (900, e.ProcessChanged("broker-2", "running", 7, "start", "page")),
            (1_000, e.ProcessChanged("broker-1", "down", None, "kill", "scenario leader-killed")),
            (2_000, e.ProcessChanged("broker-1", "down", None, "", "")),
            (3_000, e.FaultInjected("f1", "bandwidth 9 bytes/s", "peer-1", "peer-2", both_ways=True, requester="page")),
            (4_000, e.FaultInjected("f2", "cut", "client:shop-*", "broker-1", both_ways=True, requester="page")),
        ]
    )
    assert [type(step).__name__ for step in script.steps] == ["Cast", "At", "Stop", "At", "Down", "Restart", "At"]
    assert len(left_out) == 2
    assert "clients" in left_out[1]


def test_recording_leaves_out_a_fault_of_one_moment() -> None:
    script, left_out = script_of(
        [
            (1_000, cut("f1", "broker-1", "broker-3")),
            (2_000, cut("f2", "broker-2", "broker-3")),
            (2_050, e.FaultRemoved("f2")),
            (2_060, e.FaultRemoved("f1")),
        ]
    )
    kinds = [type(step).__name__ for step in script.steps]
    assert kinds == ["Cast", "At", "Cut", "At", "Heal", "At"]
    assert left_out == ["cut broker-2 → broker-3: it lasted less than 100 ms"]
