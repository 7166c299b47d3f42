"""The min.insync.replicas that a leader must use is the value committed in the quorum.

It applies from the time at which the broker must have received the change.
"""

from __future__ import annotations

import pytest

from zabka.simulation.checkers.minimums import Minimums

SESSION_MS = 6_000
HEARD_US = 2 * SESSION_MS * 1000
"""Time in µs after a change by which a broker must have received it, unless its session expired."""
CHANGED_US = 50_000_000


def minimums(*, registered_us: int = 0, known_us: int = 0) -> Minimums:
    """Return the checker. Topic t requires two in-sync replicas at first, and three since CHANGED_US.

    Broker 1 has been registered since `registered_us` and has known the topic since `known_us`.
    """
    found = Minimums(1, SESSION_MS)
    found.configured("topics/t", {"min.insync.replicas": "2"}, 1)
    found.registered(1, registered_us)
    found.heard(1, "t", known_us)
    found.configured("topics/t", {"min.insync.replicas": "3"}, CHANGED_US)
    return found


@pytest.mark.parametrize(
    ("now_us", "least"),
    [(CHANGED_US, 2), (CHANGED_US + HEARD_US - 1, 2), (CHANGED_US + HEARD_US, 3)],
)
def test_changed_min_isr_is_checked_after_two_session_timeouts(now_us: int, least: int) -> None:
    assert minimums().least(1, "t", now_us) == least


def test_any_min_isr_is_accepted_for_a_new_broker_or_topic() -> None:
    now_us = CHANGED_US + HEARD_US
    assert minimums(registered_us=now_us - 1).least(1, "t", now_us) == 1
    assert minimums(known_us=now_us - 1).least(1, "t", now_us) == 1
    without_session = minimums()
    without_session.gone(1)
    assert without_session.least(1, "t", now_us) == 1
    begun_again = minimums()
    begun_again.started(1)
    assert begun_again.least(1, "t", now_us) == 1


@pytest.mark.parametrize(
    ("entity", "least"),
    [("brokers/<default>", 1), ("users/u", 2)],
)
def test_topic_without_min_isr_uses_the_broker_default(entity: str, least: int) -> None:
    found = Minimums(2, SESSION_MS)
    found.registered(1, 0)
    found.heard(1, "t", 0)
    found.configured(entity, {"min.insync.replicas": "1"}, 1)
    assert found.least(1, "t", CHANGED_US) == least


def test_removed_override_restores_the_default_min_isr() -> None:
    found = minimums()
    found.configured("topics/t", {}, CHANGED_US + 1)
    assert found.least(1, "t", CHANGED_US + 2 * HEARD_US) == 1
