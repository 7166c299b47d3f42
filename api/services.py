"""The services that the API's routes use, created once per process."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import structlog
from fastapi import Depends, Request

from zabka.api.analytics.jobs import Jobs
from zabka.api.collector.agents import Agents
from zabka.api.collector.collector import Collector
from zabka.api.collector.joined_brokers import JoinedBrokers
from zabka.api.runs.catalogue import Runs
from zabka.api.runs.messages import RunMessages
from zabka.api.scenarios.forecasts import Forecasts
from zabka.api.scenarios.outcome_courses import OutcomeCourses
from zabka.api.scenarios.resets import Resets
from zabka.api.scenarios.runs import ScenarioRuns
from zabka.api.settings import Settings
from zabka.api.views.admin_words import watchers
from zabka.api.views.cluster import Views
from zabka.api.views.ensemble_view import EnsembleView, Reading
from zabka.api.views.groups import GroupsView
from zabka.api.views.models import ElectionResult, NewTopic, NewWorkload, Workload
from zabka.api.views.topic_sizes import TopicSizesView
from zabka.ensemble.runtime.supervisor import kept_up
from zabka.journal.events import Event, TaskFailed, TopicPartition
from zabka.kafka.acls import AclBinding
from zabka.kafka.client.group_reading import GroupReading
from zabka.kafka.client.record_reading import RecordsSeen
from zabka.kafka.client.topic_reading import TopicReading

log = structlog.get_logger()


class Admin(Protocol):
    """Changes topics, configurations and leaders, and reads groups and records.

    Methods raise Problem if the brokers reject a request or do not respond.
    """

    async def create_topic(self, topic: NewTopic) -> None: ...
    async def delete_topic(self, name: str) -> None: ...
    async def alter_topic_config(self, name: str, changes: dict[str, str | None]) -> None: ...
    async def elect(self, kind: str, partitions: Sequence[TopicPartition] | None) -> list[ElectionResult]: ...
    async def groups(self, known: Collection[str]) -> GroupReading: ...
    async def delete_group(self, name: str) -> None: ...
    async def topics(self) -> TopicReading: ...
    async def records(self, partition: TopicPartition, offset: int | None, limit: int) -> RecordsSeen: ...
    async def broker_settings(self, broker_id: int) -> dict[str, str]: ...
    async def acls(self) -> list[AclBinding]: ...
    async def close(self) -> None: ...


class Workloads(Protocol):
    """Producers and consumers that the API process runs."""

    async def create(self, requested: NewWorkload) -> Workload: ...
    def all(self) -> list[Workload]: ...
    def get(self, workload_id: str) -> Workload: ...
    async def delete(self, workload_id: str) -> Workload: ...
    async def close(self) -> None: ...


@dataclass
class Services:
    """All services that the API's routes use."""

    settings: Settings
    agents: Agents
    ensemble: EnsembleView
    collector: Collector
    views: Views
    admin: Admin
    workloads: Workloads
    joined: JoinedBrokers
    scenarios: ScenarioRuns
    runs: Runs
    forecasts: Forecasts
    emit: Callable[[Event], object]
    """Writes an event to the API's own journal."""
    jobs: Jobs
    ensemble_tls: ssl.SSLContext | None = None
    """The TLS context of connections to peers, or None for plain text."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    messages: RunMessages = field(init=False)
    groups: GroupsView = field(init=False)
    topic_sizes: TopicSizesView = field(init=False)
    resets: Resets = field(init=False)
    courses: OutcomeCourses = field(init=False)

    def __post_init__(self) -> None:
        """Create the services that depend on the others."""
        self.messages = RunMessages(self.agents, self.runs)
        self.groups = GroupsView(self.admin.groups, lambda: self.collector.state)
        self.topic_sizes = TopicSizesView(self.admin.topics)
        self.courses = OutcomeCourses(self.forecasts.player)
        nodes = [f"peer-{each}" for each in (*self.settings.peers, *self.settings.observers)]
        nodes += [f"broker-{each}" for each in self.settings.brokers]
        self.resets = Resets(self.agents, self.admin, self.workloads, self.scenarios, self._reading, nodes)
        self.scenarios.is_resetting = lambda: self.resets.is_running

    async def _reading(self) -> Reading | None:
        """Read the cluster's state in ZooKeeper.  Return None if the ensemble does not serve."""
        fresh = await self.ensemble.read()
        return None if fresh.stale else fresh.reading

    async def watchers(self, path: str) -> list[str] | None:
        """Return the sessions that watch a znode, or None if no peer replies to the command `wchp`."""
        return await watchers(self.settings.zookeeper_connect, path, self.ensemble_tls)

    def _task_failed(self, task: str, reason: str, trace: str) -> None:
        log.error("a task ended and is begun again", task=task, reason=reason, traceback=trace)
        self.emit(TaskFailed(task, reason))

    async def _end_children(self) -> None:
        """End jobs, forecasts, workloads and a reset at the same time: the host agent soon kills the API."""
        ended = await asyncio.gather(
            self.jobs.close(), self.forecasts.close(), self.courses.close(), self.workloads.close(),
            self.resets.close(), return_exceptions=True,
        )  # fmt: skip
        for failure in ended:
            if isinstance(failure, BaseException):
                log.error("a part of the API did not close", exc_info=failure)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the background tasks of the services until the block ends."""
        work: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "looking at the agents": self.agents.run,
            "collecting journals": lambda: self.collector.run(self.agents.all),
            "reading the ensemble": self.ensemble.run,
            "journalling for joined brokers": lambda: self.joined.run(self.ensemble),
            "playing scenarios": self.scenarios.run,
        }
        tasks = [asyncio.create_task(kept_up(name, each, self._task_failed)) for name, each in work.items()]
        try:
            yield
        finally:
            self.stopping.set()
            await self._end_children()
            await self.admin.close()
            await self.ensemble.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.agents.close()
            self.collector.close()


def services(request: Request) -> Services:
    """Return the services of the application that received the request."""
    found = request.app.state.services
    assert isinstance(found, Services)
    return found


Service = Annotated[Services, Depends(services)]
