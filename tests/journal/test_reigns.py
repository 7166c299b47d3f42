"""Reigns in the fold: what ends them."""

from __future__ import annotations

from journal import events as e
from journal.events import Entry, Event
from journal.fold import fold


def told(*events: Event) -> list[Entry]:
    return [Entry("broker-1", at, at * 1_000_000, 0, event) for at, event in enumerate(events, start=1)]


def test_a_reign_ends_with_its_session_though_its_broker_has_started_again() -> None:
    history = told(
        e.BrokerRegistered(1, 10, 7),
        e.ControllerElected(1, 1, 1, 11),
        e.NodeStarted("broker", 1, {}),
        e.SessionClosed(7, 12, ["/brokers/ids/1", "/controller"]),
        e.ControllerElected(2, 2, 2, 13),
    )
    first, second = fold(history).reigns
    assert (first.ended_by, first.until_us) == ("session_closed", 4_000_000)
    assert second.until_us is None
