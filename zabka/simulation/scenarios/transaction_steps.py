"""Steps of a script about transactions: transactional producers, and what read_committed consumers read.

Each producer runs on its own machine, named `client-NAME`, so that a script can cut its links or stop it.
"""

from __future__ import annotations

from zabka.journal.events import LastStableOffsetHeld, MarkerWritten
from zabka.kafka.client.transaction_admin import TransactionAdmin
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.scenarios.kafka_clients import OK, partition_of
from zabka.simulation.scenarios.kafka_steps import asked
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.scenarios.transaction_clients import read_committed
from zabka.simulation.scenarios.world_steps import WorldStep

READ_MS = 10_000
STATE_MS = 60_000
_POLL_MS = 200


class StartProducer(WorldStep, frozen=True):
    """Start a producer with a transactional id.

    The producer gets a new producer epoch, which fences earlier producers with the same id.
    """

    producer: str
    transactional_id: str

    def play(self, stage: Stage) -> None:
        """Start the producer and wait for the reply."""
        producer, machine = stage.add_producer(self.producer, self.transactional_id)
        answer = stage.finish(machine, producer.start(), f"{self.producer} to start")
        if answer != OK:
            raise StepFailed(f"{self.producer} starts as {self.transactional_id}: {answer}")


class SendInTransaction(WorldStep, frozen=True):
    """Send records in a producer's transaction, one after another. Each result must be in `expect`.

    A result is `ok`, the name of an error, or `unavailable`.
    """

    producer: str
    partition: str
    count: int = 1
    expect: tuple[str, ...] = (OK,)

    def play(self, stage: Stage) -> None:
        """Send each record and wait for its reply."""
        producer, machine = stage.producer(self.producer)
        for _ in range(self.count):
            sending = producer.send(partition_of(self.partition))
            answer = stage.finish(machine, sending, f"a record of {self.producer}")
            if answer not in self.expect:
                raise StepFailed(f"a record of {self.producer} came to {answer}, not {self.expect}")


class SendLate(WorldStep, frozen=True):
    """Send a record in a producer's transaction without waiting for the reply."""

    producer: str
    partition: str

    def play(self, stage: Stage) -> None:
        """Send the record; any reply is allowed."""
        producer, machine = stage.producer(self.producer)
        machine.begin(producer.send(partition_of(self.partition)), f"a late record of {self.producer}")


class EndTransaction(WorldStep, frozen=True):
    """Commit or abort a producer's transaction. The result must be in `expect`."""

    producer: str
    commit: bool
    expect: tuple[str, ...] = (OK,)

    def play(self, stage: Stage) -> None:
        """Send EndTxn and wait for the reply.  The coordinator replies before it writes the transaction's markers."""
        producer, machine = stage.producer(self.producer)
        answer = stage.finish(machine, producer.end(commit=self.commit), f"the end of {self.producer}'s transaction")
        if answer not in self.expect:
            raise StepFailed(f"the end of {self.producer}'s transaction came to {answer}, not {self.expect}")


class KillProducer(WorldStep, frozen=True):
    """Kill a producer's process.  Its transaction stays open."""

    producer: str

    def play(self, stage: Stage) -> None:
        """Kill the process, and write an event for this to the journal."""
        _, machine = stage.producer(self.producer)
        stage.world.announce("crash", machine.name)
        machine.kill()


class TransactionIs(WorldStep, frozen=True):
    """Wait until the coordinator reports this state for a transactional id.

    The states have the names of Kafka's tools.
    """

    transactional_id: str
    state: str
    within_ms: int = STATE_MS

    def play(self, stage: Stage) -> None:
        """Query the coordinator until it reports the state `state`."""
        admin = TransactionAdmin(stage.kafka.admin, stage.kafka_machine.runtime())
        deadline_ms = stage.world.now_ms + self.within_ms
        while True:
            what = f"the state of {self.transactional_id}"
            found = asked(stage, admin.described(self.transactional_id), what).state
            if found == self.state:
                return
            if stage.world.now_ms >= deadline_ms:
                raise StepFailed(f"{self.transactional_id} is {found}, not {self.state}, after {self.within_ms} ms")
            stage.world.run(_POLL_MS)


class ReadCommitted(WorldStep, frozen=True):
    """Check that a read_committed consumer reads exactly these values from a partition, up to the high watermark.

    The value of a transactional record is its producer's name and a number, such as `shop:1`. With `stuck`, the
    consumer must stop before the high watermark.
    """

    partition: str
    expect: tuple[str, ...]
    stuck: bool = False
    within_ms: int = READ_MS

    def play(self, stage: Stage) -> None:
        """Read from offset 0 to the high watermark or, with `stuck`, as far as the consumer can read."""
        deadline_ms = stage.world.now_ms + self.within_ms
        while True:
            reading = read_committed(stage.kafka.admin, partition_of(self.partition))
            values, end, mark = asked(stage, reading, f"{self.partition} with isolation.level=read_committed")
            if self.stuck == (end < mark) and values == self.expect:
                return
            if stage.world.now_ms >= deadline_ms:
                where = f"at offset {end} of {self.partition}"
                found = (
                    f"read_committed consumers wait {where}, high watermark {mark}"
                    if end < mark
                    else (f"read_committed consumers are {where}")
                )
                raise StepFailed(f"{found}, with {_list(values)}, not {_list(self.expect)}")
            stage.world.run(_POLL_MS)


class HeldBack(WorldStep, frozen=True):
    """Wait until a leader reports that an open transaction limits how far read_committed consumers can read."""

    partition: str
    within_ms: int = STATE_MS

    def play(self, stage: Stage) -> None:
        """Advance time until the leader has journalled that the last stable offset is held back."""
        partition = partition_of(self.partition)
        try:
            stage.world.until(
                lambda: bool(stage.reported(LastStableOffsetHeld, partition)), self.within_ms, "a held offset"
            )
        except Deadlock:
            raise StepFailed(f"no leader of {self.partition} reported a held offset") from None


class MarkersInOrder(WorldStep, frozen=True):
    """Check that in a partition's log, the coordinator epochs of each producer's markers never decrease."""

    partition: str

    def play(self, stage: Stage) -> None:
        """Check that the coordinator epochs of each producer's markers never decrease."""
        newest: dict[int, int] = {}
        for marker in stage.reported(MarkerWritten, partition_of(self.partition)):
            before = newest.get(marker.producer_id, marker.coordinator_epoch)
            if marker.coordinator_epoch < before:
                raise StepFailed(
                    f"{self.partition}: the marker at offset {marker.offset} is of coordinator epoch "
                    f"{marker.coordinator_epoch}, after one of {before}"
                )
            newest[marker.producer_id] = marker.coordinator_epoch


def _list(values: tuple[str, ...]) -> str:
    return ", ".join(values) or "no record"


TransactionSteps = (
    StartProducer | SendInTransaction | SendLate | EndTransaction | KillProducer | TransactionIs | ReadCommitted
    | HeldBack | MarkersInOrder
)  # fmt: skip
