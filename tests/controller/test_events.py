"""The controller's event queue: a caller is notified after its event is processed."""

from __future__ import annotations

from random import Random

import pytest

from tests.virtual_time.runtime import SimRuntime, run_task
from zabka.controller.events import ControllerEvent, EventQueue
from zabka.journal.cause import UNKNOWN
from zabka.simulation.engine.scheduler import Scheduler


@pytest.mark.parametrize("late", [False, True])
def test_waiting_for_an_already_processed_event_returns_at_once(late: bool) -> None:
    scheduler = Scheduler()
    runtime = SimRuntime(scheduler, Random(1))

    async def handler(event: ControllerEvent) -> None:
        await event.process()

    async def nothing() -> None:
        return

    queue = EventQueue(runtime, handler)
    event = ControllerEvent("Startup", nothing, UNKNOWN)

    async def waiting() -> tuple[bool, int]:
        queue.start("events")
        queue.put(event)
        if late:
            scheduler_now = runtime.future()
            runtime.call_later(50, lambda: scheduler_now.set_result(None))
            await scheduler_now
        before_ms = runtime.now().mono_ms
        return await queue.wait(event, 10_000), runtime.now().mono_ms - before_ms

    assert run_task(scheduler, runtime, waiting()) == (True, 0)
    queue.stop()


def test_waiting_for_an_event_can_time_out() -> None:
    scheduler = Scheduler()
    runtime = SimRuntime(scheduler, Random(1))

    async def nothing() -> None:
        return

    async def handler(event: ControllerEvent) -> None:
        await event.process()

    queue = EventQueue(runtime, handler)

    async def waiting() -> tuple[bool, int]:
        return await queue.wait(ControllerEvent("Startup", nothing, UNKNOWN), 700), runtime.now().mono_ms

    assert run_task(scheduler, runtime, waiting()) == (False, 700)
