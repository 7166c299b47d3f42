"""How fast does simulated time pass?  `python -m bench.world_speed` prints virtual seconds a second of CPU time.

A whole cluster in one process: its peers, its brokers, a topic over all of them, a producer that sends so many records
a second with acks=all, every invariant looking on.  Once with typed messages on the links, once in wire mode, where
messages between peers and requests to the ensemble go through ZooKeeper's bytes.
"""

from __future__ import annotations

import time
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.record_batch import Record
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.garbage import seldom_collected
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.network.addresses import KAFKA_SERVICE
from zabka.simulation.network.channel import SimChannel
from zabka.simulation.network.wire import EncodedWire, TypedWire, Wire
from zabka.simulation.settings import WorldSettings
from zabka.simulation.world import World

TOPIC = "speed"
BOOT_MS_MAX = 60_000
PRODUCE_TIMEOUT_MS = 4_000
DATA = b"x" * 100

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Speed(NamedTuple):
    """What a stretch of simulated time cost."""

    virtual_s: float
    cpu_s: float
    steps: int
    events: int
    acknowledged: int

    @property
    def times_real(self) -> float:
        """Virtual seconds a second of CPU time."""
        return self.virtual_s / self.cpu_s


class Paced:
    """A producer that sends a record every so many virtual milliseconds, whether or not the last one is answered."""

    def __init__(self, world: World, partitions: int, period_ms: int) -> None:
        self._runtime = runtime = SimRuntime(world.scheduler, derive_random(world.seed, "paced"))
        host = world.network.boot("paced", runtime)
        bootstrap = [(name, int(KAFKA_SERVICE)) for name in world.broker_names()]
        self._client = AdminClient(SimChannel(world.network, host, runtime), runtime, bootstrap)
        self._partitions = [TopicPartition(TOPIC, number) for number in range(partitions)]
        self._factor = min(3, len(world.brokers))
        self._period_ms = period_ms
        self.acknowledged = 0
        self.failed = 0
        runtime.spawn(self._run(), "paced")

    async def _run(self) -> None:
        client = self._client
        while True:
            try:
                await client.create_topic(TOPIC, len(self._partitions), self._factor, timeout_ms=5_000)
                break
            except (KafkaRequestFailed, KafkaUnavailable):
                await self._runtime.sleep(200)
        sent = 0
        while True:
            self._runtime.spawn(self._send(self._partitions[sent % len(self._partitions)]), "send")
            sent += 1
            await self._runtime.sleep(self._period_ms)

    async def _send(self, name: TopicPartition) -> None:
        record = Record(key=None, value=DATA, timestamp_ms=self._runtime.now().wall_ms)
        try:
            await self._client.produce(name, [record], acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS)
        except (KafkaRequestFailed, KafkaUnavailable):
            self.failed += 1
        else:
            self.acknowledged += 1


def measure(wire: Wire, settings: WorldSettings, partitions: int, records_per_s: int, virtual_s: int) -> Speed:
    """Boot a world, let it settle, then time a stretch of it."""
    world = World(1, settings, wire)
    world.start()
    producer = Paced(world, partitions, 1000 // records_per_s)
    world.until(lambda: producer.acknowledged > 2 * partitions, BOOT_MS_MAX, "a record in every partition")
    steps, events, acknowledged = world.scheduler.steps, len(world.record.entries), producer.acknowledged
    begin = time.process_time()
    world.run(virtual_s * 1000)
    cpu_s = time.process_time() - begin
    assert not world.record.violations and not producer.failed
    speed = Speed(
        virtual_s,
        cpu_s,
        world.scheduler.steps - steps,
        len(world.record.entries) - events,
        producer.acknowledged - acknowledged,
    )
    world.scheduler.cancel_all()
    return speed


@app.command()
def main(
    peers: Annotated[int, typer.Option(help="Peers of the ensemble.")] = 3,
    brokers: Annotated[int, typer.Option(help="Brokers.")] = 3,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.")] = 30,
    records: Annotated[int, typer.Option(help="Records a second, 1 to 1000.", min=1, max=1000)] = 20,
    seconds: Annotated[int, typer.Option(help="Virtual seconds to time.")] = 60,
) -> None:
    """Print how many times faster than real time the simulated world runs on one core."""
    settings = WorldSettings(peers=peers, brokers=brokers)
    title = f"{peers} peers, {brokers} brokers, {partitions} partitions, {records} records/s, {seconds} virtual seconds"
    table = Table("links", "x real time", "CPU s", "steps/s", "µs a step", "events/s", title=title)
    wires: tuple[tuple[str, type[TypedWire] | type[EncodedWire]], ...] = (("typed", TypedWire), ("wire", EncodedWire))
    for name, wire in wires:
        with seldom_collected():
            found = measure(wire(derive_random(1, "wire")), settings, partitions, records, seconds)
        table.add_row(
            name,
            f"{found.times_real:.0f}",
            f"{found.cpu_s:.2f}",
            f"{found.steps / found.virtual_s:.0f}",
            f"{found.cpu_s / found.steps * 1e6:.1f}",
            f"{found.events / found.virtual_s:.0f}",
        )
    Console().print(table)


if __name__ == "__main__":
    app()
