"""Workloads that are being stopped are listed as running until they have stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from zabka.api.http.problems import Problem
from zabka.api.kafka.workloads import State, WorkloadManager
from zabka.api.views.models import Workload
from zabka.journal.writer import JournalWriter


class SlowToEnd:
    """Workload that stops only when the test allows it."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        self.ended = 0
        self.closed = 0

    def view(self, workload_id: str, state: State) -> Workload:
        return Workload(id=workload_id, topic="orders", state=state, last_error=None)

    async def stop_workload(self) -> None:
        self.ended += 1
        await self.ends.wait()

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[JournalWriter]:
    writer = JournalWriter(tmp_path, "api")
    yield writer
    writer.close()


def _manager(journal: JournalWriter, running: SlowToEnd) -> WorkloadManager:
    manager = WorkloadManager("127.0.0.1:1", "127.0.0.1:1", journal)
    manager._running["w1"] = running
    return manager


def test_workload_is_running_until_it_has_stopped_completely(journal: JournalWriter) -> None:
    async def scenario() -> None:
        running = SlowToEnd()
        manager = _manager(journal, running)
        first, second = (asyncio.create_task(manager.delete("w1")) for _ in range(2))
        await asyncio.sleep(0.01)
        assert manager.get("w1").state == "running"
        assert [each.id for each in manager.all()] == ["w1"]
        running.ends.set()
        assert [(await each).state for each in (first, second)] == ["ended", "ended"]
        assert (running.ended, running.closed) == (1, 1)
        assert [each.state for each in manager.all()] == ["ended"]
        assert (await manager.delete("w1")).state == "ended"
        with pytest.raises(Problem, match="no workload w2"):
            await manager.delete("w2")

    asyncio.run(scenario())


def test_api_shutdown_closes_a_stopping_workload(journal: JournalWriter) -> None:
    async def scenario() -> None:
        running = SlowToEnd()
        manager = _manager(journal, running)
        asked = asyncio.create_task(manager.delete("w1"))
        await asyncio.sleep(0.01)
        await manager.close()
        assert running.closed == 1
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(scenario())
