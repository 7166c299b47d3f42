"""Workloads: producers and consumers that run inside the API's process, each over connections of its own.

They live as long as this process.  What they do is told in a journal of this process's own, node `api`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from typing import Literal, NamedTuple

import structlog

from api.kafka import make_client
from api.models import NewWorkload
from api.models import Workload as WorkloadView
from api.problems import Problem
from broker_sim.client import KafkaClient
from broker_sim.client_errors import KafkaRequestFailed, KafkaUnavailable
from broker_sim.kafka_channel import AsyncioChannel
from broker_sim.workload import Workload
from ensemble.asyncio_runtime import AsyncioRuntime
from journal.events import Event
from journal.writer import JournalWriter

WORKLOADS_MAX = 50
KEPT_MAX = 200
END_S = 5.0
KNOWN_S = 1.0
"""How long brokers may take to hear of a new topic."""
KNOWN_POLL_S = 0.05

_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}

log = structlog.get_logger()


class _Running(NamedTuple):
    workload: Workload
    channel: AsyncioChannel
    acks: str


class WorkloadManager:
    """Starts, reports and ends workloads.  Ended ones can still be looked at."""

    def __init__(self, bootstrap: str, journal: JournalWriter) -> None:
        self._bootstrap = bootstrap
        self._journal = journal
        self._running: dict[str, _Running] = {}
        self._ended: dict[str, WorkloadView] = {}

    async def create(self, wanted: NewWorkload) -> WorkloadView:
        """Start one.  Raises Problem: 404 without the topic, 409 when there are too many, 503 without brokers."""
        if len(self._running) >= WORKLOADS_MAX:
            raise Problem(409, f"{WORKLOADS_MAX} workloads run already; delete one")
        try:
            client, channel = make_client(self._bootstrap, "workload")
        except ValueError as reason:
            raise Problem(503, str(reason)) from None
        try:
            await self._must_exist(client, wanted.topic)
        except BaseException:
            channel.close()
            raise
        workload_id = f"w{secrets.token_hex(3)}"
        runtime = AsyncioRuntime(asyncio.get_running_loop(), on_failure=self._failed)
        workload = Workload(
            client,
            runtime,
            self._emit,
            workload_id,
            wanted.topic,
            acks=_ACKS[wanted.acks],
            records_per_s=wanted.records_per_s,
        )
        workload.start()
        self._running[workload_id] = _Running(workload, channel, "all" if wanted.acks == "-1" else wanted.acks)
        return self.get(workload_id)

    async def _must_exist(self, client: KafkaClient, topic: str) -> None:
        # The broker that answers may not have heard of a topic that was just created.
        deadline_s = time.monotonic() + KNOWN_S
        while True:
            try:
                info = (await client.metadata([topic], timeout_ms=5_000)).topics.get(topic)
            except (KafkaUnavailable, KafkaRequestFailed) as reason:
                raise Problem(503, str(reason)) from None
            if info is not None and info.partitions:
                return
            if time.monotonic() >= deadline_s:
                raise Problem(404, f"there is no topic {topic}; create it first")
            await asyncio.sleep(KNOWN_POLL_S)

    def all(self) -> list[WorkloadView]:
        """Those that run, then those that ended."""
        return [self._view(i, r, "running") for i, r in self._running.items()] + list(self._ended.values())

    def get(self, workload_id: str) -> WorkloadView:
        """One.  Raises Problem 404."""
        running = self._running.get(workload_id)
        if running is not None:
            return self._view(workload_id, running, "running")
        if workload_id in self._ended:
            return self._ended[workload_id]
        raise Problem(404, f"there is no workload {workload_id}")

    def _view(self, workload_id: str, running: _Running, state: Literal["running", "ended"]) -> WorkloadView:
        status = running.workload.status()
        return WorkloadView(
            id=workload_id,
            topic=running.workload.topic,
            acks=running.acks,
            records_per_s=running.workload.records_per_s,
            sent=status.sent,
            acknowledged=status.acknowledged,
            failed=status.failed,
            lost=status.lost,
            state=state,
            verified=status.verified,
            last_error=status.last_error,
        )

    async def delete(self, workload_id: str) -> WorkloadView:
        """End one: stop producing, wait a moment for what is under way, read back once more.  Raises Problem 404."""
        running = self._running.pop(workload_id, None)
        if running is None:
            return self.get(workload_id)
        with contextlib.suppress(TimeoutError, KafkaUnavailable, KafkaRequestFailed):
            async with asyncio.timeout(END_S):
                await running.workload.stop()
                await running.workload.verify()
        running.workload.close()
        running.channel.close()
        ended = self._ended[workload_id] = self._view(workload_id, running, "ended")
        for oldest in list(self._ended)[:-KEPT_MAX]:
            del self._ended[oldest]
        return ended

    def _emit(self, event: Event) -> None:
        self._journal.write(event)
        self._journal.flush()

    def _failed(self, task: str, failure: BaseException) -> None:
        log.error("workload task failed", task=task, failure=repr(failure))

    async def close(self) -> None:
        """End all where they stand."""
        for running in self._running.values():
            running.workload.close()
            running.channel.close()
        self._running.clear()
