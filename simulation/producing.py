"""A producer in the simulated world that writes with acks=all, and reads everything back at the end."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker_sim.admin_client import AdminClient
from broker_sim.client_errors import KafkaRequestFailed, KafkaUnavailable
from broker_sim.record_batch import Record
from journal.events import FaultInjected, TopicPartition
from simulation.channel import KAFKA_SERVICE, SimChannel
from simulation.kernel import SimRuntime

if TYPE_CHECKING:
    from simulation.world import World

PAUSE_MS = 100
PRODUCE_TIMEOUT_MS = 4_000


class Producing:
    """Creates the topic, then sends record after record to its partitions in turn, on a host that no fault touches."""

    def __init__(self, world: World, runtime: SimRuntime, topic: str, partitions: int) -> None:
        host = world.network.boot("producer", runtime)
        self._world = world
        self._runtime = runtime
        self._topic = topic
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        bootstrap = [(name, int(KAFKA_SERVICE)) for name in world.broker_names()]
        self._client = AdminClient(SimChannel(world.network, host, runtime), runtime, bootstrap)
        self._stopping = False
        self._promised: dict[TopicPartition, dict[int, bytes]] = {name: {} for name in self._partitions}
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.lost = 0
        self.verified = False
        self.violations: list[str] = []
        runtime.spawn(self._run(), "producer")

    def stop(self) -> None:
        """Send no more; read everything back, then `verified`."""
        self._stopping = True

    async def _run(self) -> None:
        await self._create_topic()
        while not self._stopping:
            await self._send()
            await self._runtime.sleep(PAUSE_MS)
        for name in self._partitions:
            await self._verify(name)
        self.verified = True

    async def _create_topic(self) -> None:
        factor = min(3, len(self._world.brokers))
        while True:
            try:
                await self._client.create_topic(self._topic, len(self._partitions), factor, timeout_ms=5_000)
                return
            except KafkaRequestFailed as refused:
                if refused.error is ErrorCode.topic_already_exists:
                    return
            except KafkaUnavailable:
                pass
            await self._runtime.sleep(200)

    async def _send(self) -> None:
        name = self._partitions[self.sent % len(self._partitions)]
        value = f"{self.sent}".encode()
        self.sent += 1
        record = Record(key=None, value=value, timestamp_ms=self._runtime.now().wall_ms)
        try:
            offset = await self._client.produce(name, [record], acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS)
        except (KafkaRequestFailed, KafkaUnavailable):
            self.failed += 1
            return
        self.acknowledged += 1
        before = self._promised[name].setdefault(offset, value)
        if before != value and not self._power_was_lost():
            self.violations.append(f"{name} offset {offset} was acknowledged for {before!r} and for {value!r}")

    def _power_was_lost(self) -> bool:
        # A broker's power loss may take acknowledged records with it; the invariants judge those runs record by record.
        return any(
            isinstance(e.event, FaultInjected) and e.event.kind == "power_loss" for e in self._world.record.entries
        )

    async def _verify(self, name: TopicPartition) -> None:
        found: dict[int, bytes] = {}
        offset = 0
        while True:
            with suppress(KafkaRequestFailed, KafkaUnavailable):
                fetched = await self._client.fetch(name, offset, max_wait_ms=100, timeout_ms=5_000)
                found.update({record.offset: record.value or b"" for record in fetched.records})
                offset = max(found, default=-1) + 1
                if offset >= fetched.high_watermark:
                    break
            await self._runtime.sleep(50)
        wrong = [at for at, value in self._promised[name].items() if found.get(at) != value]
        self.lost += len(wrong)
        if wrong and not self._power_was_lost():
            self.violations.append(f"{name} offset {wrong[0]} was acknowledged, and holds {found.get(wrong[0])!r} now")
