"""Workloads on a simulated cluster, each on a host of its own: producers, and members of consumer groups."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from zabka.ensemble.client.client import Client
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.consumer_status import TakeRecords
from zabka.kafka.client.consumer_workload import ConsumerWorkload, GroupProgress
from zabka.kafka.client.group_client import GroupSettings
from zabka.kafka.client.group_consumer import GroupConsumer
from zabka.kafka.client.workload import Workload
from zabka.kafka.client.zookeeper_consumer import ZookeeperConsumer
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.network.channel import SimChannel
from zabka.simulation.network.connector import SimConnector
from zabka.testing.cluster import ConsumerCounts, WorkloadCounts
from zabka.testing.simulated.host import SimHost

_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}


class SimWorkload:
    """A workload on a host of its own."""

    def __init__(self, test: SimHost, number: int, topic: str, acks: str, records_per_s: float) -> None:
        world = test.world
        self._test = test
        self._runtime = SimRuntime(world.scheduler, derive_random(world.seed, f"workload-{number}"))
        host = world.network.boot(f"workload-{number}", self._runtime)
        client = AdminClient(SimChannel(world.network, host, self._runtime), self._runtime, test.bootstrap)
        emit = world.record.emitter(host.name, self._runtime)
        self._workload = Workload(
            client, self._runtime, emit, f"w{number}", topic, acks=_ACKS[acks], records_per_s=records_per_s
        )
        self._workload.start()

    @property
    def counts(self) -> WorkloadCounts:
        """The current counts."""
        status = self._workload.status()
        return WorkloadCounts(status.sent, status.acknowledged, status.failed, status.lost, status.verified)

    def close(self) -> None:
        """Kill the client's process."""
        self._runtime.stop()

    def stop(self) -> WorkloadCounts:
        """Stop it, and return the final counts."""

        async def end_workload() -> None:
            await self._workload.stop()
            # A partition without a leader cannot be read: the counts show that.
            with suppress(KafkaRequestFailed, KafkaUnavailable):
                await self._workload.verify()

        self._test.ask(end_workload(), self._runtime)
        self._workload.close()
        return self.counts


class SimConsumer:
    """A member of a consumer group, on a host of its own."""

    def __init__(
        self,
        test: SimHost,
        number: int,
        topic: str,
        *,
        group: str,
        offsets: Literal["kafka", "zookeeper"],
        progress: GroupProgress,
    ) -> None:
        world = test.world
        self._test = test
        self._runtime = runtime = SimRuntime(world.scheduler, derive_random(world.seed, f"consumer-{number}"))
        host = world.network.boot(f"consumer-{number}", runtime)
        channel = SimChannel(world.network, host, runtime)

        def make(take: TakeRecords) -> GroupConsumer | ZookeeperConsumer:
            if offsets == "kafka":
                client = KafkaClient(channel, runtime, test.bootstrap)
                return GroupConsumer(client, runtime, GroupSettings(group, (topic,)), take)
            session = Client(
                world.zookeeper_connect,
                SimConnector(world.network, host),
                runtime,
                session_timeout_ms=world.settings.session_timeout_ms,
                name=host.name,
            )
            return ZookeeperConsumer(
                coordination=session,
                channel=channel,
                runtime=runtime,
                group_id=group,
                consumer_id=host.name,
                topics=[topic],
                take=take,
            )

        emit = world.record.emitter(host.name, runtime)
        self._workload = ConsumerWorkload(
            runtime=runtime,
            emit=emit,
            workload_id=f"c{number}",
            topic=topic,
            group_id=group,
            progress=progress,
            make_reader=make,
        )
        self._workload.start()

    @property
    def counts(self) -> ConsumerCounts:
        """The current counts."""
        status = self._workload.counts()
        return ConsumerCounts(
            status.consumed, status.duplicates, status.out_of_order, status.lag, list(status.partitions)
        )

    def close(self) -> None:
        """Kill the client's process."""
        self._runtime.stop()

    def stop(self) -> ConsumerCounts:
        """Let it commit and leave its group, and return the final counts."""
        self._test.ask(self._workload.stop(), self._runtime)
        self._workload.close()
        return self.counts
