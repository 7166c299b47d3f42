"""Workloads on a simulated cluster, each on a host of its own: producers, and members of consumer groups."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.consumer_status import TakeRecords
from zabka.kafka.client.consumer_workload import ConsumerWorkload, GroupProgress
from zabka.kafka.client.group_client import GroupSettings
from zabka.kafka.client.group_consumer import GroupConsumer
from zabka.kafka.client.transactional_workload import ReadProcessWriteWorkload, TransactionalWorkload
from zabka.kafka.client.workload import Workload
from zabka.kafka.client.zookeeper_consumer import ZookeeperConsumer
from zabka.simulation.cluster.client_machine import ScriptedMachine
from zabka.testing.cluster import ConsumerCounts, TransactionCounts, WorkloadCounts
from zabka.testing.worlds.host import SimHost

_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}


class SimWorkload:
    """A workload that runs on a host of its own."""

    def __init__(self, test: SimHost, number: int, topic: str, acks: str, records_per_s: float) -> None:
        world = test.world
        self._test = test
        client, self._machine = world.kafka_client(f"workload-{number}")
        emit = self._machine.journal(world.record).write
        self._workload = Workload(
            client, self._machine.runtime(), emit, f"w{number}", topic, acks=_ACKS[acks], records_per_s=records_per_s
        )
        self._workload.start()

    @property
    def counts(self) -> WorkloadCounts:
        """The workload's current counts."""
        status = self._workload.status()
        return WorkloadCounts(status.sent, status.acknowledged, status.failed, status.lost, status.verified)

    def close(self) -> None:
        """Kill the workload's process."""
        self._machine.kill()

    def stop(self) -> WorkloadCounts:
        """Stop the workload, and return the final counts."""

        async def end_workload() -> None:
            await self._workload.stop()
            # A partition without a leader cannot be read back. Ignore the error, because the counts show it.
            with suppress(KafkaRequestFailed, KafkaUnavailable):
                await self._workload.verify()

        self._test.ask(end_workload(), self._machine)
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
        name = f"consumer-{number}"
        self._machine = world.scripted_client(name)
        runtime, channel = self._machine.runtime(), self._machine.channel()

        def make(take: TakeRecords) -> GroupConsumer | ZookeeperConsumer:
            if offsets == "kafka":
                client = KafkaClient(channel, runtime, world.bootstrap)
                return GroupConsumer(client, runtime, GroupSettings(group, (topic,)), take)
            session, _ = world.zookeeper_client(name, session_timeout_ms=world.settings.session_timeout_ms)
            return ZookeeperConsumer(
                coordination=session,
                channel=channel,
                runtime=runtime,
                group_id=group,
                consumer_id=name,
                topics=[topic],
                take=take,
            )

        emit = self._machine.journal(world.record).write
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
        """The consumer's current counts."""
        status = self._workload.counts()
        return ConsumerCounts(
            status.consumed, status.duplicates, status.out_of_order, status.lag, list(status.partitions)
        )

    def close(self) -> None:
        """Kill the consumer's process."""
        self._machine.kill()

    def stop(self) -> ConsumerCounts:
        """Make the consumer commit and leave its group, and return the final counts."""
        self._test.ask(self._workload.stop(), self._machine)
        self._workload.close()
        return self.counts


class SimTransactions:
    """A transactional producer or a read-process-write loop, on a host of its own."""

    def __init__(
        self, test: SimHost, machine: ScriptedMachine, workload: TransactionalWorkload | ReadProcessWriteWorkload
    ) -> None:
        self._test = test
        self._machine = machine
        self._workload = workload
        workload.start()

    @property
    def counts(self) -> TransactionCounts:
        """The workload's current counts."""
        status = self._workload.status()
        return TransactionCounts(status.committed, status.aborted, status.unknown, status.records)

    def stop(self) -> TransactionCounts:
        """Make the workload end its open transaction, and return the final counts."""
        self._test.ask(self._workload.stop(), self._machine)
        self._workload.close()
        return self.counts


def sim_transactional_producer(
    test: SimHost, number: int, topic: str, transactional_id: str | None, records_per_s: float, abort_every: int
) -> SimTransactions:
    """Start a transactional producer on a host of its own."""
    client, machine = test.world.kafka_client(f"transactions-{number}")
    emit, name = machine.journal(test.world.record).write, f"t{number}"
    workload = TransactionalWorkload(
        client, machine.runtime(), emit, name, topic, transactional_id or name,
        records_per_s=records_per_s, abort_every=abort_every,
    )  # fmt: skip
    return SimTransactions(test, machine, workload)


def sim_read_process_write(
    test: SimHost, number: int, topic: str, output: str, group: str, transactional_id: str | None
) -> SimTransactions:
    """Start a read-process-write loop on a host of its own."""
    client, machine = test.world.kafka_client(f"transactions-{number}")
    emit, name = machine.journal(test.world.record).write, f"t{number}"
    workload = ReadProcessWriteWorkload(
        client, machine.runtime(), emit, name, topic, transactional_id or name, output=output, group_id=group
    )
    return SimTransactions(test, machine, workload)
