"""The controller gap: the time from a controller's death or freeze to the first decision of the next one."""

from __future__ import annotations

from tests.journal.golden_files import GOLDEN, entries_of
from zabka.journal import events as e
from zabka.journal.controller_gaps import ControllerGap, gap_before, gap_ended_by, gap_text
from zabka.journal.events import Entry
from zabka.journal.fold import fold

CONTROLLER_TERMS = fold(entries_of(GOLDEN / "histories" / "controller-gaps.jsonl")).controller_terms


def test_controller_gap_lasts_from_freeze_to_first_decision() -> None:
    """A controller gap ends with the first decision of a later controller, not with its election.

    Controller 1 froze at 10 s, and its session ended at 15.0019 s. Controller 2 was elected at 15.007 s and killed
    before its first decision. Controller 3 was elected at 21.005 s and decided at 21.065 s.
    """
    assert gap_before(CONTROLLER_TERMS, 0) is None
    assert gap_before(CONTROLLER_TERMS, 1) is None
    gap = gap_before(CONTROLLER_TERMS, 2)
    assert gap == ControllerGap(10_000_000, 21_065_000, 5_001_900, 6_003_100, 60_000)
    assert gap.total_us == 11_065_000


def test_controller_gap_after_resignation_has_no_detection_time() -> None:
    """A controller gap after a resignation has no time for the detection of a failure.

    Controller 3 resigned at 30 s. The next one was elected 8 ms later; its journal is missing in this test.
    """
    assert gap_before(CONTROLLER_TERMS, 3) == ControllerGap(30_000_000, 30_008_000, 0, 8_000, 0)


def test_controller_gap_is_formatted_with_its_parts() -> None:
    gap = gap_ended_by(CONTROLLER_TERMS, e.ControllerElected(3, 3, 3, 41))
    assert gap is not None
    text = "no controller for 11,065.0 ms: detection 5,001.9 ms, election 6,003.1 ms, loading 60.0 ms"
    assert gap_text(gap) == text
    assert gap_ended_by(CONTROLLER_TERMS, e.ControllerReady(3, 3, 40, 15)) == gap
    assert gap_ended_by(CONTROLLER_TERMS, e.ControllerResigned(3, 3, "shutdown")) is None


def _entries(*events: tuple[int, str, e.Event]) -> list[Entry]:
    return [Entry(node, place, at_us, at_us, event) for place, (at_us, node, event) in enumerate(events, 1)]


def test_gap_without_a_known_session_end_has_no_detection_time() -> None:
    """If no journal shows the end of the session, the controller gap has no detection time.

    The peers' journals are missing, so the next election is the first sign that the session has ended.
    """
    controller_terms = fold(
        _entries(
            (1_000, "broker-1", e.ControllerElected(1, 1, 1, 1)),
            (5_000, "host-1", e.ProcessChanged("broker-1", "down", None, "kill")),
            (9_000, "broker-2", e.ControllerElected(2, 2, 2, 2)),
            (9_500, "broker-2", e.ControllerReady(2, 2, 0, 0)),
            (20_000, "broker-3", e.ControllerElected(3, 3, 3, 3)),
            (20_100, "broker-3", e.ControllerReady(3, 3, 0, 0)),
        )
    ).controller_terms
    assert gap_before(controller_terms, 1) == ControllerGap(5_000, 9_500, None, 4_000, 500)
    assert gap_before(controller_terms, 2) is None, "no event shows when controller 2 stopped"


def test_gap_of_an_isolated_controller_starts_at_its_session_end() -> None:
    controller_terms = fold(
        _entries(
            (500, "broker-1", e.BrokerRegistered(1, 1, 7)),
            (1_000, "broker-1", e.ControllerElected(1, 1, 1, 2)),
            (7_000, "peer-1", e.SessionClosed(7, 5, ["/controller"], "expiry 0x7")),
            (7_300, "broker-2", e.ControllerElected(2, 2, 2, 6)),
            (7_900, "broker-2", e.ControllerReady(2, 2, 0, 0)),
        )
    ).controller_terms
    assert gap_before(controller_terms, 1) == ControllerGap(7_000, 7_900, 0, 300, 600)


def test_clock_skew_does_not_change_the_controller_loading_time() -> None:
    """A wrong clock does not change how long the new controller needed to load its state.

    Broker 2's clock is two seconds slow, so that its election has an earlier time than the end of the session.
    """
    controller_terms = fold(
        _entries(
            (500, "broker-1", e.BrokerRegistered(1, 1, 7)),
            (1_000, "broker-1", e.ControllerElected(1, 1, 1, 2)),
            (1_500, "host-1", e.ProcessChanged("broker-1", "down", None, "kill")),
            (7_000, "peer-1", e.SessionClosed(7, 5, ["/controller"], "expiry 0x7")),
            (5_300, "broker-2", e.ControllerElected(2, 2, 2, 6)),
            (5_900, "broker-2", e.ControllerReady(2, 2, 0, 0)),
        )
    ).controller_terms
    assert gap_before(controller_terms, 1) == ControllerGap(1_500, 7_600, 5_500, 0, 600)
