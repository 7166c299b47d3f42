"""The event loop of a simulated process: turns, timers and clocks use the world's virtual time.

A kill stops everything immediately.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator

import pytest

from tests.simulation.engine.small_world import HERE, SmallWorld


@pytest.fixture
def world() -> Iterator[SmallWorld]:
    made = SmallWorld()
    yield made
    made.end()


def test_sleep_of_an_hour_takes_an_hour_of_virtual_time(world: SmallWorld) -> None:
    async def program() -> float:
        began = time.monotonic()
        await asyncio.sleep(3600)
        return time.monotonic() - began

    began = time.perf_counter()
    world.machine(HERE, program)
    world.run(3601)
    assert world.ended[HERE] == pytest.approx(3600, abs=0.001)
    assert time.perf_counter() - began < 60


def test_virtual_clock_does_not_change_the_host_clock(world: SmallWorld) -> None:
    before = time.monotonic()
    world.machine(HERE, lambda: asyncio.sleep(100_000))
    world.run(100_000)
    assert time.monotonic() - before < 50_000


def test_wall_clock_and_monotonic_clock_advance_together(world: SmallWorld) -> None:
    async def program() -> tuple[float, float]:
        wall, mono = time.time(), time.monotonic()
        await asyncio.sleep(10)
        return time.time() - wall, time.monotonic() - mono

    world.machine(HERE, program)
    world.run(11)
    wall, mono = world.ended[HERE]
    assert wall == pytest.approx(mono, abs=1e-6)


def test_call_soon_callbacks_run_in_order_in_a_later_iteration(world: SmallWorld) -> None:
    order: list[str] = []

    async def program() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(order.append, "first")
        loop.call_soon(order.append, "second")
        order.append("now")
        await asyncio.sleep(0.1)

    world.machine(HERE, program)
    world.run(1)
    assert order == ["now", "first", "second"]


def test_cancelled_timer_never_fires(world: SmallWorld) -> None:
    came: list[int] = []

    async def program() -> None:
        asyncio.get_running_loop().call_later(1, came.append, 1).cancel()
        await asyncio.sleep(2)

    world.machine(HERE, program)
    world.run(3)
    assert came == []
    assert world.ended[HERE] is None


def test_asyncio_timeout_cancels_a_slow_task(world: SmallWorld) -> None:
    async def program() -> float:
        began = time.monotonic()
        try:
            async with asyncio.timeout(5):
                await asyncio.sleep(60)
        except TimeoutError:
            return time.monotonic() - began
        raise AssertionError("nothing timed out")

    world.machine(HERE, program)
    world.run(61)
    assert world.ended[HERE] == pytest.approx(5, abs=0.001)


def test_to_thread_returns_the_result_or_raises_the_exception(world: SmallWorld) -> None:
    async def program() -> tuple[int, str]:
        found = await asyncio.to_thread(max, 1, 2)
        try:
            await asyncio.to_thread(int, "no number")
        except ValueError:
            return found, "raised"
        return found, "nothing"

    world.machine(HERE, program)
    world.run(1)
    assert world.ended[HERE] == (2, "raised")


def test_sigkill_drops_tasks_and_timers_without_running_finally(world: SmallWorld) -> None:
    """SIGKILL drops all tasks and timers of a process, and runs no `finally`.

    Callbacks that are ready to run are dropped as well.
    """
    happened: list[str] = []

    async def beside() -> None:
        try:
            await asyncio.sleep(2)
            happened.append("slept")
        finally:
            happened.append("finally")

    async def program() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(2, happened.append, "timer")
        task = loop.create_task(beside())
        await asyncio.sleep(1)
        loop.call_soon(happened.append, "ready")
        await task

    machine = world.machine(HERE, program)
    world.run(0.5)
    machine.kill()
    world.run(10)
    assert happened == []
    assert HERE not in world.ended


def test_paused_process_runs_nothing_until_it_is_resumed(world: SmallWorld) -> None:
    ticks: list[float] = []

    async def program() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(asyncio.get_running_loop().time())

    machine = world.machine(HERE, program)
    world.run(2.5)
    machine.pause()
    world.run(10)
    assert len(ticks) == 2
    machine.resume()
    world.run(1)
    assert len(ticks) == 3
    assert ticks[2] == pytest.approx(12.5, abs=0.001)


def test_slow_disk_call_delays_later_callbacks(world: SmallWorld) -> None:
    async def program() -> float:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[float] = loop.create_future()
        loop.call_soon(lambda: woken.set_result(loop.time()))
        began = loop.time()
        time.sleep(3)  # noqa: ASYNC251 - as a slow disk does
        return await woken - began

    world.machine(HERE, program)
    world.run(5)
    assert world.ended[HERE] == pytest.approx(3, abs=0.001)


def test_sigterm_calls_the_registered_signal_handler(world: SmallWorld) -> None:
    async def program() -> str:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        await told.wait()
        return "told"

    machine = world.machine(HERE, program)
    world.run(1)
    assert machine.process is not None
    machine.process.loop.terminate()
    world.run(1)
    assert world.ended[HERE] == "told"


def test_cleanup_of_a_killed_process_creates_no_real_event_loop(
    world: SmallWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `finally` that runs when the simulation ends creates no real event loop, although it can use asyncio.

    The `finally` belongs to a killed process, and runs outside of every turn of the simulated loop.
    """
    created: list[str] = []
    reached: list[str] = []

    class Policy(asyncio.DefaultEventLoopPolicy):
        """Event loop policy that records and rejects the creation of a real event loop."""

        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            created.append("a loop")
            raise AssertionError("a real loop is created")

    monkeypatch.setattr("asyncio.events._event_loop_policy", Policy())

    async def program() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            reached.append("finally")
            # Without awaitables, gather gets the current event loop.
            await asyncio.gather()

    machine = world.machine(HERE, program)
    world.run(0.5)
    machine.kill()
    world.end()
    assert (reached, created) == (["finally"], [])
