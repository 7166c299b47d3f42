"""Jobs that run in threads outside the event loop: how the loop is woken, and how jobs end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from zabka.ensemble.runtime.workers import GO_ON, THREADS, WAIT, Job, Pause


def test_job_waits_until_woken_and_sees_earlier_changes() -> None:
    todo: list[int] = []
    done: list[int] = []
    all_done = threading.Event()

    def job() -> Job:
        while len(done) < 5:
            while todo:
                done.append(todo.pop(0))
            if len(done) < 5:
                yield WAIT
        all_done.set()

    work = THREADS.start(job(), "a job")
    for number in range(5):
        todo.append(number)
        work.wake()
    assert all_done.wait(10)
    work.join()
    assert done == [0, 1, 2, 3, 4] and not work.is_under_way()


def test_job_woken_while_it_runs_does_not_wait_afterwards() -> None:
    began, goes_on = threading.Event(), threading.Event()

    def job() -> Job:
        began.set()
        assert goes_on.wait(10)
        yield WAIT

    work = THREADS.start(job(), "a job")
    assert began.wait(10)
    work.wake()
    goes_on.set()
    work.join(10)
    assert not work.is_under_way()


def test_interruptible_pause_ends_when_the_job_is_woken() -> None:
    def job() -> Job:
        yield Pause(3600, heeds=True)

    work = THREADS.start(job(), "a job")
    work.wake()
    work.join(10)
    assert not work.is_under_way()


def test_job_continues_when_its_pause_time_has_passed() -> None:
    def job() -> Job:
        yield Pause(0.001)
        yield Pause(0.001, heeds=True)
        yield GO_ON

    work = THREADS.start(job(), "a job")
    work.join(10)
    assert not work.is_under_way()


def test_job_runs_in_a_thread_with_its_name() -> None:
    names: list[str] = []

    def job() -> Job:
        names.append(threading.current_thread().name)
        return
        yield GO_ON

    THREADS.start(job(), "txnlog").join()
    assert names == ["txnlog"]


async def _called() -> tuple[int, bool]:
    loop_thread = threading.get_ident()
    return await THREADS.call(max, 1, 2), await THREADS.call(lambda: threading.get_ident() != loop_thread)


def test_call_runs_in_a_thread_and_raises_its_exception() -> None:
    assert asyncio.run(_called()) == (2, True)

    async def failing() -> None:
        await THREADS.call(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        asyncio.run(failing())
