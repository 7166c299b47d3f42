"""Jobs that are done when somebody says so."""

from __future__ import annotations

import pytest

from zabka.ensemble.runtime.workers import GO_ON, WAIT, Job, Pause
from zabka.simulation.cores.hands import Hands


def job(said: list[str], name: str, *pauses: Pause) -> Job:
    for number, pause in enumerate(pauses):
        said.append(f"{name}{number}")
        yield pause
    said.append(f"{name} ends")


def test_nothing_is_done_before_somebody_says_so_and_then_all_that_does_not_wait() -> None:
    hands, said = Hands(), list[str]()
    one, two = hands.start(job(said, "a", GO_ON, WAIT), "a"), hands.start(job(said, "b", Pause(3.0), WAIT), "b")
    assert said == []
    hands.work()
    assert said == ["a0", "a1", "b0", "b1"]
    assert one.is_under_way() and two.is_under_way()


def test_who_waits_goes_on_when_it_is_woken() -> None:
    hands, said = Hands(), list[str]()
    one, two = hands.start(job(said, "a", WAIT), "a"), hands.start(job(said, "b", WAIT), "b")
    hands.work()
    two.wake()
    hands.work()
    assert said == ["a0", "b0", "b ends"]
    assert one.is_under_way() and not two.is_under_way()


def test_one_job_may_wake_another_in_the_same_stretch_of_work() -> None:
    hands, said = Hands(), list[str]()
    first = hands.start(job(said, "a", WAIT), "a")
    hands.work()

    def wakes() -> Job:
        first.wake()
        yield WAIT

    hands.start(wakes(), "b")
    hands.work()
    assert said == ["a0", "a ends"]


def test_a_job_that_is_waited_for_is_done_at_once_or_it_is_said_that_it_waits_itself() -> None:
    hands, said = Hands(), list[str]()
    hands.start(job(said, "a", GO_ON), "a").join()
    assert said == ["a0", "a ends"]
    with pytest.raises(AssertionError, match="b is waited for, and waits itself"):
        hands.start(job(said, "b", WAIT), "b").join()
