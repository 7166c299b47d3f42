"""The asyncio runtime: its tasks and futures behave as specified in `zabka.ensemble.ports`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime


def test_failure_of_a_task_is_reported_with_its_name() -> None:
    failures: list[tuple[str, str]] = []

    async def main() -> None:
        runtime = AsyncioRuntime(asyncio.get_running_loop(), on_failure=lambda n, e: failures.append((n, str(e))))

        async def broken() -> None:
            await runtime.sleep(0)
            raise AssertionError("a bug")

        runtime.spawn(broken(), "fetcher")
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert failures == [("fetcher", "a bug")]


def test_exception_handler_of_a_given_loop_gets_task_failures() -> None:
    reported: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
        runtime = AsyncioRuntime(loop, owns_loop=False)

        async def broken() -> None:
            raise AssertionError("a bug")

        runtime.spawn(broken(), "watcher")
        runtime.future().set_exception(ValueError("nobody waits for this"))
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert reported == ["watcher failed"]


def test_cancel_all_waits_for_tasks_and_reports_no_failure() -> None:
    failures: list[str] = []
    ended: list[str] = []

    async def main() -> None:
        runtime = AsyncioRuntime(asyncio.get_running_loop(), on_failure=lambda n, e: failures.append(n))

        async def wait_for_ever(name: str) -> None:
            try:
                await runtime.future()
            finally:
                ended.append(name)

        one: Any = runtime.spawn(wait_for_ever("one"), "one")
        runtime.spawn(wait_for_ever("two"), "two")
        await asyncio.sleep(0)
        one.cancel()
        await runtime.cancel_all()
        assert one.done()

    asyncio.run(main())
    assert sorted(ended) == ["one", "two"]
    assert failures == []


def test_timers_fire_once_and_can_be_cancelled() -> None:
    fired: list[str] = []

    async def main() -> None:
        runtime = AsyncioRuntime(asyncio.get_running_loop(), seed=1)
        runtime.call_later(1, lambda: fired.append("kept"))
        runtime.call_later(1, lambda: fired.append("cancelled")).cancel()
        before = runtime.now()
        await runtime.sleep(20)
        assert runtime.now().mono_ms - before.mono_ms >= 19

    asyncio.run(main())
    assert fired == ["kept"]


def test_same_seed_gives_the_same_random_numbers() -> None:
    loop = asyncio.new_event_loop()
    try:
        assert AsyncioRuntime(loop, 7).random.random() == AsyncioRuntime(loop, 7).random.random()
    finally:
        loop.close()


def test_future_raises_its_exception() -> None:
    async def main() -> None:
        future = AsyncioRuntime(asyncio.get_running_loop()).future()
        future.set_exception(KeyError("x"))
        with pytest.raises(KeyError):
            await future

    asyncio.run(main())
