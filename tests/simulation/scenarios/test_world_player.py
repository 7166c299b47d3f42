"""A script can run in a thread with its own event loop, while other threads run."""

from __future__ import annotations

import asyncio
import threading
import time

from zabka.simulation.scenarios.library import LIBRARY, play, seeded
from zabka.simulation.scenarios.scenario import Verdict

SCRIPT = "zookeeper-3144"
WITHIN_S = 0.5
"""Maximum difference in seconds between two clocks of this machine that are read one after the other."""


def test_script_runs_on_a_thread_with_a_running_event_loop() -> None:
    async def play_here() -> Verdict:
        here = asyncio.get_running_loop()
        verdict = play(LIBRARY[SCRIPT])
        assert asyncio.get_running_loop() is here
        await asyncio.sleep(0.001)
        return verdict

    assert asyncio.run(play_here()).problems == []


def test_threads_outside_a_running_script_see_real_time() -> None:
    over = threading.Event()
    apart_s: list[float] = []

    def watch() -> None:
        begin_s, begin_real_s = time.monotonic(), time.perf_counter()
        while not over.is_set():
            apart_s.append(abs((time.monotonic() - begin_s) - (time.perf_counter() - begin_real_s)))
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        verdict = play(LIBRARY[SCRIPT])
    finally:
        over.set()
        watcher.join()
    assert verdict.virtual_ms > 10_000 and verdict.problems == []
    assert len(apart_s) > 1 and max(apart_s) < WITHIN_S


def test_script_with_another_seed_has_another_history() -> None:
    """The same seed leads to the same history.

    A different seed leads to a different history, because the seed determines the delays.
    """
    one, again, other = (list(play(seeded(LIBRARY[SCRIPT], seed)).lines()) for seed in (1, 1, 2))
    assert one == again != other
