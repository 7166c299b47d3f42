"""Workloads: producers and consumers that run in the API's process, each with its own connections.

All workloads end when this process ends. Their events are in the journal of this process, node `api`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import ssl
import time
from typing import Generic, Literal, Protocol, TypeVar

import structlog

from zabka.api.http.problems import Problem
from zabka.api.kafka.kafka_client import make_client
from zabka.api.views.models import NewWorkload
from zabka.api.views.models import Workload as WorkloadView
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.cause import Cause
from zabka.journal.events import Event
from zabka.journal.writer import JournalWriter
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.channel_security import PLAIN_TEXT, ChannelSecurity
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.consumer_status import TakeRecords
from zabka.kafka.client.consumer_workload import ConsumerWorkload, GroupProgress
from zabka.kafka.client.group_client import GroupSettings
from zabka.kafka.client.group_consumer import GroupConsumer
from zabka.kafka.client.transactional_workload import ReadProcessWriteWorkload, TransactionalWorkload
from zabka.kafka.client.workload import Workload
from zabka.kafka.client.zookeeper_consumer import ZookeeperConsumer

WORKLOADS_MAX = 50
KEPT_MAX = 200
END_S = 5.0
KNOWN_S = 1.0
"""Maximum time to wait until the brokers know a new topic."""
KNOWN_POLL_S = 0.05
OLD_SESSION_TIMEOUT_MS = 6_000
"""zookeeper.session.timeout.ms of consumers that store offsets in ZooKeeper."""

_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}

log = structlog.get_logger()

State = Literal["running", "ended"]
W = TypeVar("W", Workload, ConsumerWorkload, TransactionalWorkload, ReadProcessWriteWorkload)


class _Running(Protocol):
    """Interface that running workloads of all kinds have."""

    def view(self, workload_id: str, state: State) -> WorkloadView: ...
    async def stop_workload(self) -> None:
        """Stop the workload in an orderly way: its pending work is completed if the brokers respond."""
        ...

    def close(self) -> None:
        """Abandon the workload and close its connections without an orderly stop."""
        ...


class _Plain(Generic[W]):
    """A workload that consists of one client. It ends when that client is stopped."""

    def __init__(self, workload: W, channel: AsyncioChannel) -> None:
        self._workload: W = workload
        self._channel = channel
        workload.start()

    async def stop_workload(self) -> None:
        await self._workload.stop()

    def close(self) -> None:
        self._workload.close()
        self._channel.close()


class _Producer(_Plain[Workload]):
    """A producer that also reads its acknowledged records back, to detect lost ones."""

    def __init__(self, workload: Workload, channel: AsyncioChannel, acks: str) -> None:
        super().__init__(workload, channel)
        self._acks = "all" if acks == "-1" else acks

    def view(self, workload_id: str, state: State) -> WorkloadView:
        status = self._workload.status()
        return WorkloadView(
            id=workload_id,
            topic=self._workload.topic,
            acks=self._acks,
            records_per_s=self._workload.records_per_s,
            sent=status.sent,
            acknowledged=status.acknowledged,
            failed=status.failed,
            lost=status.lost,
            state=state,
            verified=status.verified,
            last_error=status.last_error,
        )

    async def stop_workload(self) -> None:
        await super().stop_workload()
        await self._workload.verify()


class _Consumer(_Plain[ConsumerWorkload]):
    """A member of a consumer group that stores its offsets in Kafka or in ZooKeeper."""

    def __init__(
        self, workload: ConsumerWorkload, channel: AsyncioChannel, offsets: Literal["kafka", "zookeeper"]
    ) -> None:
        super().__init__(workload, channel)
        self._offsets = offsets

    def view(self, workload_id: str, state: State) -> WorkloadView:
        counts = self._workload.counts()
        return WorkloadView(
            id=workload_id,
            kind="consumer",
            topic=self._workload.topic,
            group=self._workload.group_id,
            offsets=self._offsets,
            consumed=counts.consumed,
            duplicates=counts.duplicates,
            out_of_order=counts.out_of_order,
            lag=counts.lag,
            partitions=list(counts.partitions) if state == "running" else [],
            state=state,
            last_error=counts.last_error,
        )


class _TransactionalProducer(_Plain[TransactionalWorkload]):
    """A producer that writes transactions."""

    def view(self, workload_id: str, state: State) -> WorkloadView:
        workload, status = self._workload, self._workload.status()
        return WorkloadView(
            id=workload_id,
            kind="transactional-producer",
            topic=workload.topic,
            acks="all",
            records_per_s=workload.records_per_s,
            sent=workload.sent,
            acknowledged=status.records,
            failed=workload.failed,
            state=state,
            last_error=status.last_error,
            transactional_id=workload.transactional_id,
            committed=status.committed,
            aborted=status.aborted,
            unknown=status.unknown,
        )


class _Loop(_Plain[ReadProcessWriteWorkload]):
    """A read-process-write loop."""

    def view(self, workload_id: str, state: State) -> WorkloadView:
        workload, status = self._workload, self._workload.status()
        return WorkloadView(
            id=workload_id,
            kind="read-process-write",
            topic=workload.topic,
            group=workload.group_id,
            offsets="kafka",
            consumed=status.records,
            lag=workload.lag,
            partitions=workload.partitions if state == "running" else [],
            state=state,
            last_error=status.last_error,
            transactional_id=workload.transactional_id,
            output=workload.output,
            committed=status.committed,
            aborted=status.aborted,
            unknown=status.unknown,
        )


class WorkloadManager:
    """Starts and stops workloads, and returns their reports. Reports of stopped workloads remain available."""

    def __init__(
        self,
        bootstrap: str,
        zookeeper_connect: str,
        journal: JournalWriter,
        ensemble_tls: ssl.SSLContext | None = None,
        security: ChannelSecurity = PLAIN_TEXT,
    ) -> None:
        """Set up the manager; `security` is that of connections to brokers."""
        self._bootstrap = bootstrap
        self._zookeeper_connect = zookeeper_connect
        self._journal = journal
        self._ensemble_tls = ensemble_tls
        self._security = security
        self._running: dict[str, _Running] = {}
        self._ending: dict[str, asyncio.Task[WorkloadView]] = {}
        """The tasks that stop running workloads, until they complete."""
        self._ended: dict[str, WorkloadView] = {}
        self._progress: dict[tuple[str, str], GroupProgress] = {}

    async def create(self, requested: NewWorkload) -> WorkloadView:
        """Start a workload.

        Raises Problem: 404 if the topic does not exist, 409 if there are too many workloads, 503 if no broker is
        reachable.
        """
        self._must_have_room()
        try:
            client, channel = make_client(self._bootstrap, "workload", self._security)
        except ValueError as reason:
            raise Problem(503, str(reason)) from None
        try:
            for topic in (requested.topic, requested.output):
                if topic is not None:
                    await self._must_exist(client, topic)
            # Check again: other workloads may have been started in the meantime.
            self._must_have_room()
        except BaseException:
            channel.close()
            raise
        workload_id = f"w{secrets.token_hex(3)}"
        runtime = AsyncioRuntime(asyncio.get_running_loop(), on_failure=self._failed)
        self._running[workload_id] = self._start(requested, workload_id, client, channel, runtime)
        return self.get(workload_id)

    def _start(
        self,
        requested: NewWorkload,
        workload_id: str,
        client: KafkaClient,
        channel: AsyncioChannel,
        runtime: AsyncioRuntime,
    ) -> _Running:
        transactional_id = requested.transactional_id or workload_id
        match requested.kind:
            case "consumer":
                assert requested.group is not None, "checked by the model"
                consumer = self._consumer(requested, requested.group, workload_id, client, channel, runtime)
                return _Consumer(consumer, channel, requested.offsets)
            case "transactional-producer":
                transactional = TransactionalWorkload(
                    client, runtime, self._emit, workload_id, requested.topic, transactional_id,
                    records_per_s=requested.records_per_s, abort_every=requested.abort_every,
                )  # fmt: skip
                return _TransactionalProducer(transactional, channel)
            case "read-process-write":
                assert requested.group is not None and requested.output is not None, "checked by the model"
                loop = ReadProcessWriteWorkload(
                    client, runtime, self._emit, workload_id, requested.topic, transactional_id,
                    output=requested.output, group_id=requested.group,
                )  # fmt: skip
                return _Loop(loop, channel)
        workload = Workload(
            client, runtime, self._emit, workload_id, requested.topic,
            acks=_ACKS[requested.acks], records_per_s=requested.records_per_s,
        )  # fmt: skip
        return _Producer(workload, channel, requested.acks)

    def _must_have_room(self) -> None:
        if len(self._running) >= WORKLOADS_MAX:
            raise Problem(409, f"{WORKLOADS_MAX} workloads are running already; delete one")

    def _consumer(
        self,
        requested: NewWorkload,
        group: str,
        workload_id: str,
        client: KafkaClient,
        channel: AsyncioChannel,
        runtime: AsyncioRuntime,
    ) -> ConsumerWorkload:
        progress = self._progress.setdefault((group, requested.offsets), GroupProgress())

        def of_today(take: TakeRecords) -> GroupConsumer:
            return GroupConsumer(client, runtime, GroupSettings(group, (requested.topic,)), take)

        def of_old(take: TakeRecords) -> ZookeeperConsumer:
            session = Client(
                self._zookeeper_connect,
                AsyncioConnector(ssl_context=self._ensemble_tls),
                runtime,
                session_timeout_ms=OLD_SESSION_TIMEOUT_MS,
                name=workload_id,
            )
            return ZookeeperConsumer(
                session, channel, runtime, group_id=group, consumer_id=workload_id, topics=[requested.topic], take=take
            )

        make = of_today if requested.offsets == "kafka" else of_old
        return ConsumerWorkload(
            runtime,
            self._emit,
            workload_id=workload_id,
            topic=requested.topic,
            group_id=group,
            progress=progress,
            make_reader=make,
        )

    async def _must_exist(self, client: KafkaClient, topic: str) -> None:
        # The broker that responds may not know a recently created topic yet, so retry for a while.
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
        """Return every workload: the running ones first, then the ended ones."""
        return [running.view(i, "running") for i, running in self._running.items()] + list(self._ended.values())

    def get(self, workload_id: str) -> WorkloadView:
        """Return a workload. Raises Problem 404."""
        running = self._running.get(workload_id)
        if running is not None:
            return running.view(workload_id, "running")
        if workload_id in self._ended:
            return self._ended[workload_id]
        raise Problem(404, f"there is no workload {workload_id}")

    async def delete(self, workload_id: str) -> WorkloadView:
        """Stop a workload and return its report. Raises Problem 404.

        A producer waits briefly for requests in flight and then reads its records once more. A consumer commits its
        offsets and leaves its group. Until the workload has stopped, it counts as running, and a second call waits for
        the first one.
        """
        if workload_id not in self._running:
            return self.get(workload_id)
        if workload_id not in self._ending:
            self._ending[workload_id] = asyncio.create_task(self._end(workload_id, self._running[workload_id]))
        return await asyncio.shield(self._ending[workload_id])

    async def _end(self, workload_id: str, running: _Running) -> WorkloadView:
        try:
            with contextlib.suppress(TimeoutError, KafkaUnavailable, KafkaRequestFailed):
                async with asyncio.timeout(END_S):
                    await running.stop_workload()
        finally:
            running.close()
            self._running.pop(workload_id, None)
            self._ending.pop(workload_id, None)
            self._ended[workload_id] = running.view(workload_id, "ended")
            for oldest in list(self._ended)[:-KEPT_MAX]:
                del self._ended[oldest]
        return self._ended[workload_id]

    def _emit(self, event: Event) -> Cause:
        cause = self._journal.write(event)
        self._journal.flush()
        return cause

    def _failed(self, task: str, failure: BaseException) -> None:
        log.error("workload task failed", task=task, failure=repr(failure))

    async def close(self) -> None:
        """Stop all workloads immediately, without waiting for requests or leaving groups."""
        ending = list(self._ending.values())
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for running in self._running.values():
            running.close()
        self._running.clear()
