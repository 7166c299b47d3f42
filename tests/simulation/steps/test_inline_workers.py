"""Jobs of `Hands` run only when a caller calls `work`."""

from __future__ import annotations

import pytest

from zabka.ensemble.runtime.workers import GO_ON, WAIT, Job, Pause
from zabka.simulation.steps.inline_workers import InlineWorkers


def job(said: list[str], name: str, *pauses: Pause) -> Job:
    for number, pause in enumerate(pauses):
        said.append(f"{name}{number}")
        yield pause
    said.append(f"{name} ends")


def test_work_call_runs_each_job_until_it_waits() -> None:
    inline_workers, said = InlineWorkers(), list[str]()
    one, two = (
        inline_workers.start(job(said, "a", GO_ON, WAIT), "a"),
        inline_workers.start(job(said, "b", Pause(3.0), WAIT), "b"),
    )
    assert said == []
    inline_workers.work()
    assert said == ["a0", "a1", "b0", "b1"]
    assert one.is_under_way() and two.is_under_way()


def test_waiting_job_continues_when_woken() -> None:
    inline_workers, said = InlineWorkers(), list[str]()
    one, two = inline_workers.start(job(said, "a", WAIT), "a"), inline_workers.start(job(said, "b", WAIT), "b")
    inline_workers.work()
    two.wake()
    inline_workers.work()
    assert said == ["a0", "b0", "b ends"]
    assert one.is_under_way() and not two.is_under_way()


def test_job_woken_by_another_job_runs_in_the_same_work_call() -> None:
    inline_workers, said = InlineWorkers(), list[str]()
    first = inline_workers.start(job(said, "a", WAIT), "a")
    inline_workers.work()

    def wakes() -> Job:
        first.wake()
        yield WAIT

    inline_workers.start(wakes(), "b")
    inline_workers.work()
    assert said == ["a0", "a ends"]


def test_joined_job_runs_immediately_and_fails_if_it_waits() -> None:
    inline_workers, said = InlineWorkers(), list[str]()
    inline_workers.start(job(said, "a", GO_ON), "a").join()
    assert said == ["a0", "a ends"]
    with pytest.raises(AssertionError, match="b is waited for, and waits itself"):
        inline_workers.start(job(said, "b", WAIT), "b").join()
