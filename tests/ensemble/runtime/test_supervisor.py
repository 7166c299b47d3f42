"""Tasks that run until their process ends. An earlier end of such a task is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from zabka.ensemble.runtime import supervisor
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.runtime.supervisor import kept_up, report_task_failure


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 20))


class Work:
    """Task whose runs end in the given ways, one after another: with an exception, or with a return for None.

    After all given ways, it runs forever.
    """

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends = list(ends)
        self.goes_on = asyncio.Event()

    async def __call__(self) -> None:
        if not self.ends:
            self.goes_on.set()
            await asyncio.Event().wait()
        end = self.ends.pop(0)
        if end is not None:
            raise end


def test_failed_or_finished_task_is_reported_and_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "RESTART_PAUSE_S", 0.0)

    async def scenario() -> None:
        reports: list[tuple[str, str]] = []
        group = ExceptionGroup("several", [ValueError("a"), ExceptionGroup("more", [KeyError("b")])])
        work = Work(RecursionError("too deep"), None, OSError(28, "full"), group)
        task = asyncio.create_task(kept_up("w", work, lambda name, reason, _: reports.append((name, reason))))
        await work.goes_on.wait()
        assert reports == [
            ("w", "RecursionError: too deep"),
            ("w", "it came to an end"),
            ("w", "OSError: [Errno 28] full"),
            ("w", "ValueError: a; KeyError: 'b'"),
        ]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario())


def test_supervisor_restarts_a_task_even_if_the_report_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "RESTART_PAUSE_S", 0.0)

    def full(name: str, reason: str, trace: str) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        work = Work(ValueError("x"))
        task = asyncio.create_task(kept_up("w", work, full))
        await work.goes_on.wait()
        task.cancel()

    run(scenario())


@pytest.mark.parametrize("failure", [ValueError("x"), OSError(24, "Too many open files")])
def test_failure_of_a_referenced_task_ends_its_node(failure: Exception) -> None:
    async def scenario() -> None:
        failed: asyncio.Future[tuple[str, BaseException | None]] = asyncio.get_running_loop().create_future()
        AsyncioRuntime(
            asyncio.get_running_loop(), on_failure=lambda name, report: failed.set_result((name, report.__cause__))
        )
        kept = asyncio.create_task(Work(failure)(), name="accept")
        report_task_failure(kept)
        assert await asyncio.wait_for(failed, 5) == ("accept failed", failure)
        assert kept.done()

    run(scenario())


def test_cancelled_or_returning_task_is_not_a_failure() -> None:
    async def scenario() -> None:
        reports: list[str] = []
        tasks = [asyncio.create_task(Work(None)()), asyncio.create_task(Work()())]
        for task in tasks:
            report_task_failure(task, lambda name, _: reports.append(name))
        await tasks[0]
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
        assert reports == []

    run(scenario())
