"""The first difference between two histories, and differences that are ignored."""

from __future__ import annotations

import msgspec

from zabka.journal import events as e
from zabka.journal.divergence import parting
from zabka.journal.events import Entry, Event
from zabka.simulation.scenarios.library import LIBRARY, play


def history(*events: tuple[str, Event], clock_us: int = 0) -> list[Entry]:
    seqs: dict[str, int] = {}
    found = []
    for place, (node, event) in enumerate(events):
        seqs[node] = seqs.get(node, 0) + 1
        found.append(Entry(node, seqs[node], clock_us + place, clock_us + place, event, place + 1))
    return found


ONE, TWO, THREE = ("peer-1", e.EpochAccepted(1)), ("peer-2", e.EpochAccepted(2)), ("peer-1", e.EpochAdopted(3))


def test_equal_events_with_different_clocks_do_not_diverge() -> None:
    assert parting(history(ONE, TWO, THREE), history(ONE, TWO, THREE, clock_us=10**9)) is None


def test_different_interleaving_of_nodes_is_not_a_divergence() -> None:
    assert parting(history(ONE, TWO, THREE), history(TWO, ONE, THREE)) is None
    found = parting(history(ONE, THREE), history(THREE, ONE))
    assert found is not None, "the order of a node's own events is a difference"


def test_durations_configs_and_source_lines_are_not_compared() -> None:
    def variant(ms: int, config: str) -> list[Entry]:
        proposed = e.IsrProposed(
            1, "t", 0, [1], 0, 0, "lag", [e.ReplicaStanding(2, 5, 9, 5, ms, 100)], f"broker-1#{ms}"
        )
        return history(
            ("broker-1", e.NodeStarted("broker", 1, {"zabka.historical": config})),
            ("broker-1", e.ControllerReady(1, 1, ms, ms)),
            ("broker-1", proposed),
        )

    assert parting(variant(3, ""), variant(4, "x")) is None
    changed = variant(3, "")
    changed[2] = msgspec.structs.replace(changed[2], event=msgspec.structs.replace(changed[2].event, isr=[1, 2]))  # type: ignore[type-var]
    found = parting(variant(3, ""), changed)
    assert found is not None
    assert (found.one, found.other) == (variant(3, "")[2], changed[2])


def test_longer_history_diverges_at_the_end_of_the_shorter() -> None:
    found = parting(history(ONE), history(ONE, TWO))

    assert found is not None
    assert found.one is None
    assert found.other is not None
    assert found.other.node == "peer-2"


def test_runs_of_kafka_1211_diverge_where_broker_4_truncates() -> None:
    verdict = play(LIBRARY["kafka-1211"])
    assert verdict.shown is not None
    found = parting(verdict.journal, verdict.shown.journal)

    assert found is not None
    assert found.other is not None
    cut = found.other.event
    assert isinstance(cut, e.LogTruncated)
    assert (found.other.node, cut.from_offset, cut.to_offset) == ("broker-4", 6, 5)
    assert found.one is not None
    assert (found.one.node, found.one.node_seq) == ("broker-4", found.other.node_seq)
