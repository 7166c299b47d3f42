"""Virtual time: the order of callbacks and tasks, and the effect of a node's pause or exit on them."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress

import pytest

from tests.virtual_time.futures import SimFuture
from tests.virtual_time.runtime import SimRuntime, run_task
from zabka.simulation.draws import derive_random, draw_below
from zabka.simulation.engine.scheduler import Deadlock, Scheduler


def runtime(scheduler: Scheduler | None = None) -> SimRuntime:
    return SimRuntime(scheduler or Scheduler(), derive_random(1, "test"))


def test_calls_run_in_order_of_due_time_and_then_of_scheduling() -> None:
    scheduler, seen = Scheduler(), list[str]()
    for time_us, name in ((20, "c"), (10, "a"), (10, "b")):
        scheduler.at(time_us, lambda name=name: seen.append(name))
    scheduler.run_until(100)
    assert seen == ["a", "b", "c"]
    assert scheduler.now_us == 100


def test_running_call_can_advance_the_clock_until_next_due_call() -> None:
    scheduler, seen = Scheduler(), list[tuple[str, bool, int]]()

    def first() -> None:
        seen.append(("first", scheduler.continue_at(15), scheduler.now_us))
        seen.append(("next is due at 20", scheduler.continue_at(20), scheduler.now_us))

    def last() -> None:
        seen.append(("beyond the end", scheduler.continue_at(101), scheduler.now_us))
        scheduler.soon(lambda: None)
        seen.append(("another call is ready", scheduler.continue_at(50), scheduler.now_us))

    scheduler.at(10, first)
    scheduler.at(20, last)
    scheduler.run_until(100)
    assert seen == [
        ("first", True, 15),
        ("next is due at 20", False, 15),
        ("beyond the end", False, 20),
        ("another call is ready", False, 20),
    ]


def test_call_in_a_single_step_cannot_advance_the_clock() -> None:
    scheduler, seen = Scheduler(), list[bool]()
    scheduler.at(10, lambda: seen.append(scheduler.continue_at(15)))
    scheduler.step()
    assert (seen, scheduler.now_us) == ([False], 10)


def test_cancelled_call_never_runs() -> None:
    scheduler, seen = Scheduler(), list[int]()
    scheduler.after(5, lambda: seen.append(1)).cancel()
    scheduler.run_until(10)
    assert seen == []


def test_task_sleeps_in_virtual_time() -> None:
    node = runtime()

    async def nap() -> int:
        await node.sleep(60_000)
        return node.now().mono_ms

    assert run_task(node.scheduler, node, nap()) == 60_000


def test_waiting_for_a_future_without_a_result_is_a_deadlock() -> None:
    node = runtime()

    async def wait() -> None:
        await node.future()

    with pytest.raises(Deadlock):
        run_task(node.scheduler, node, wait())


def test_exception_of_a_future_is_raised_in_the_awaiting_task() -> None:
    node = runtime()

    async def fail() -> str:
        future = node.future()
        node.call_later(1, lambda: future.set_exception(ValueError("no")))
        try:
            await future
        except ValueError as error:
            return str(error)
        return "nothing"

    assert run_task(node.scheduler, node, fail()) == "no"


def test_paused_node_runs_due_calls_in_order_when_resumed() -> None:
    node, seen = runtime(), list[tuple[str, int]]()
    for delay_ms, name in ((10, "a"), (20, "b")):
        node.call_later(delay_ms, lambda name=name: seen.append((name, node.now().mono_ms)))
    node.pause()
    node.scheduler.run_until(50_000)
    assert seen == []
    node.resume()
    node.scheduler.run_until(60_000)
    assert seen == [("a", 50), ("b", 50)]


def test_resumed_node_processes_packets_before_timers() -> None:
    # A woken event loop polls its sockets before its timers: see asyncio's _run_once and libuv's uv_run.
    node, seen = runtime(), list[str]()
    node.pause()
    node.call_later(10, lambda: seen.append("timer"))
    node.scheduler.run_until(20_000)
    node.run(lambda: seen.append("packet"))
    node.resume()
    node.scheduler.run_until(30_000)
    assert seen == ["packet", "timer"]


def test_stopped_node_runs_only_its_cleanup() -> None:
    node, seen = runtime(), list[str]()

    async def work() -> None:
        try:
            await node.sleep(10)
            seen.append("worked")
        finally:
            seen.append("ended")

    node.spawn(work(), "work")
    node.call_later(5, lambda: seen.append("called"))
    node.scheduler.run_until(1_000)
    node.stop()
    node.scheduler.run_until(100_000)
    assert seen == ["ended"]


def test_random_streams_are_independent() -> None:
    alone = derive_random(7, "network").random()
    derive_random(7, "disk").random()
    assert derive_random(7, "network").random() == alone
    assert derive_random(8, "network").random() != alone


def test_call_scheduled_for_now_runs_after_calls_that_are_due() -> None:
    scheduler, seen = Scheduler(), list[str]()

    def first() -> None:
        seen.append("first")
        scheduler.soon(lambda: seen.append("soon"))
        scheduler.post(5, lambda: seen.append("past"))
        scheduler.after(0, lambda: seen.append("after"))

    scheduler.post(10, first)
    scheduler.post(10, lambda: seen.append("second"))
    scheduler.run_until(9)
    assert seen == []
    scheduler.run_until(10)
    assert seen == ["first", "second", "soon", "past", "after"]


def test_single_steps_run_calls_in_the_same_order_as_a_run() -> None:
    def play(step_by_step: bool) -> list[str]:
        scheduler, seen = Scheduler(), list[str]()
        scheduler.post(10, lambda: scheduler.soon(lambda: seen.append("soon")))
        scheduler.post(10, lambda: seen.append("b"))
        scheduler.at(10, lambda: seen.append("never")).cancel()
        scheduler.post(11, lambda: seen.append("c"))
        while step_by_step and scheduler.step():
            pass
        scheduler.run_until(20)
        return seen

    assert play(step_by_step=True) == play(step_by_step=False) == ["b", "soon", "c"]


def test_draw_below_method_returns_the_same_as_randrange() -> None:
    ours, pythons = derive_random(1, "draws"), derive_random(1, "draws")
    stops = [1, 2, 3, 7, 8, 820, 1 << 40] * 20
    assert [draw_below(ours, stop) for stop in stops] == [pythons.randrange(0, stop) for stop in stops]


def test_ended_task_is_freed_without_the_garbage_collector() -> None:
    class Local:
        pass

    node, left = runtime(), list[weakref.ref[Local]]()

    def failing() -> SimFuture:
        future = node.future()
        node.call_later(1, lambda: future.set_exception(ValueError("no")))
        return future

    async def work() -> str:
        local = Local()
        left.append(weakref.ref(local))
        await node.sleep(1)
        with suppress(ValueError):
            await failing()
        return "done"

    gc.disable()
    try:
        assert run_task(node.scheduler, node, work()) == "done"
        assert left[0]() is None
    finally:
        gc.enable()
