"""Random outages of three replicas of a compacted partition, chosen by a seed, and the invariants to check.

While only one replica is in sync, its broker does not lose power. Therefore, at the end, every replica has for each key
the last record acknowledged since the latest unclean election, or a later record. No older record of a key reappears
after a replica was rebuilt, and every record was sent by a producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from tests.broker_sim.logs.test_time_index import outcome
from tests.broker_sim.replication.replication_cluster import TP, Broker, Cluster
from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.logs.key_offsets import ENTRY_BYTES
from zabka.broker_sim.logs.newest_record import newest_record
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.broker_sim.logs.time_search import offset_for_timestamp
from zabka.journal import events as e
from zabka.journal.checkers.invariants import check
from zabka.kafka.compression import Codec
from zabka.kafka.record_batch import NO_PRODUCER, Record, build_batch, decode_records, split_batches

BROKERS = (1, 2, 3)
KEYS = "abcde"
FOREVER_MS = 1 << 40
CODECS = (Codec.NONE, Codec.NONE, Codec.GZIP)


class Written(NamedTuple):
    """Record that the producer sent to a leader."""

    key: str
    value: str | None
    timestamp_ms: int


class Stored(NamedTuple):
    """Record that was read from a log, with its offset."""

    offset: int
    record: Written


def read(log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> list[Stored]:
    """Return all records of a log from `offset` on, read with repeated fetches like those of a follower."""
    found: list[Stored] = []
    while offset < log.end_offset:
        data = log.read(offset, max_bytes, log.end_offset, True)
        headers = split_batches(data)
        assert headers, f"nothing to read at {offset}, and the log ends at {log.end_offset}"
        for record in decode_records(data, offset):
            key, value = record.key or b"", record.value
            written = Written(key.decode(), None if value is None else value.decode(), record.timestamp_ms)
            found.append(Stored(record.offset, written))
        assert headers[-1].next_offset > offset, f"reading at {offset} leads nowhere"
        offset = headers[-1].next_offset
    return found


class SlowDisk(MemoryLogDirectory):
    """Log directory with slow syncs, so that other work runs between the steps of a compaction."""

    def __init__(self, broker: Broker, sync_ms: int) -> None:
        super().__init__()
        self._broker = broker
        self._sync_ms = sync_ms

    async def sync_in_background(self, files: Sequence[tuple[str, str]]) -> None:
        await self._broker.runtime.sleep(self._sync_ms)
        await super().sync_in_background(files)


class CompactedOutages:
    """Cluster with the outages of one seed. Call `play()`, then check that `wrong()` returns no violations."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.cluster = Cluster(
            len(BROKERS),
            log_segment_bytes=random.choice((150, 300, 700)),
            log_cleaner_backoff_ms=random.choice((50, 300)),
            replica_fetch_max_bytes=random.choice((1, 200, 1 << 20)),
            replica_fetch_backoff_ms=100,
            replica_high_watermark_checkpoint_interval_ms=random.choice((200, 5_000)),
            log_flush_start_offset_checkpoint_interval_ms=random.choice((200, 5_000)),
            log_retention_check_interval_ms=200,
            log_index_interval_bytes=random.choice((0, 100, 4_096)),
            log_cleaner_dedupe_buffer_size=random.choice((3, 4, 1_000)) * ENTRY_BYTES,
            log_cleaner_io_buffer_load_factor=1.0,
        )
        self.deletes = random.random() < 0.4
        self.retains = self.deletes and random.random() < 0.5
        self.forgets_tombstones = random.random() < 0.3
        self.moves = random.random() < 0.4
        self.elects_unclean = random.random() < 0.3
        self.cluster.topic_configs[TP.topic] = {
            "cleanup.policy": "compact,delete" if self.deletes else "compact",
            "retention.ms": "2000" if self.retains else "-1",
            "min.cleanable.dirty.ratio": "0.01",
            "min.compaction.lag.ms": random.choice(("0", "0", "300")),
            "segment.ms": random.choice(("1000", str(FOREVER_MS))),
            "delete.retention.ms": "200" if self.forgets_tombstones else str(FOREVER_MS),
        }
        self.acknowledged: dict[int, Written] = {}
        self.asked: dict[Written, None] = {}
        self.under_way: list[tuple[Any, list[Written]]] = []
        self.sequence = 0
        self.producer_epoch = 0
        self.deleted_to = 0
        self.done: list[str] = []
        self.sync_ms = random.choice((0, 3, 40, 300))
        for broker in BROKERS:
            self.cluster.kill(broker)
            self.put_in_a_disk(broker)
            self.cluster.restart(broker)
        self.cluster.create(BROKERS)

    def put_in_a_disk(self, broker: int) -> None:
        """Give the broker two new, empty log directories."""
        node = self.cluster[broker]
        node.directory, *node.more_directories = (SlowDisk(node, self.sync_ms) for _ in range(2))

    # ---- actions -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        return self.cluster.states[TP]

    @property
    def in_sync(self) -> list[int]:
        return [each for each in self.state["isr"] if each in self.cluster.alive]

    def play(self, steps: int) -> None:
        """Run `steps` random actions, then heal all faults, and wait until all replicas are in sync."""
        actions = (
            (self.produce, 10), (self.wait, 6), (self.kill, 2), (self.restart, 4), (self.replace_disk, 1),
            (self.cut, 1), (self.heal, 2), (self.hand_over, 1), (self.delete, 1 if self.deletes else 0),
            (self.elect_unclean, 1 if self.elects_unclean else 0), (self.move, 2 if self.moves else 0),
        )  # fmt: skip
        for _ in range(steps):
            (action,) = self.random.choices([action for action, _ in actions], [weight for _, weight in actions])
            action()
            self.take_answers()
        self.repair()

    def repair(self) -> None:
        self.heal()
        for broker in BROKERS:
            if broker not in self.cluster.alive:
                self.start(broker)
        self.cluster.until(lambda: sorted(self.state["isr"]) == list(BROKERS))
        for _ in range(3):
            self.produce()
            self.cluster.settle()
        self.cluster.until(lambda: all(self.cluster[each].partition.future is None for each in BROKERS))
        self.cluster.run(2_000)
        self.take_answers()
        assert not self.under_way

    def produce(self) -> None:
        leader = self.state["leader"]
        if leader not in self.cluster.alive:
            return
        now_ms = SimRuntime.WALL_START_MS + self.cluster.now_ms
        rows = []
        for _ in range(self.random.choice((1, 1, 2, 4))):
            value = None if self.random.random() < 0.15 else f"{len(self.asked)}" * self.random.choice((1, 9))
            rows.append(Written(self.random.choice(KEYS), value, now_ms + self.random.randrange(-50, 50)))
            self.asked[rows[-1]] = None
        producer = {"producer_id": NO_PRODUCER}
        if self.random.random() < 0.5:
            numbers = {"producer_epoch": self.producer_epoch, "base_sequence": self.sequence}
            producer = {"producer_id": 7, **numbers}
            self.sequence += len(rows)
        records = [
            Record(row.key.encode(), None if row.value is None else row.value.encode(), row.timestamp_ms)
            for row in rows
        ]
        data = build_batch(records, codec=self.random.choice(CODECS), **producer)
        self.under_way.append((self.cluster.produce_later(leader, data, timeout_ms=1_000), rows))
        self.done.append(f"produce {[tuple(row[:2]) for row in rows]}")

    def take_answers(self) -> None:
        left = []
        for future, rows in self.under_way:
            if future.done():
                answers = future.result()
                if answers and not answers[0].error:
                    self.acknowledged.update(enumerate(rows, answers[0].base_offset))
                else:
                    # It is unknown whether the record was appended, so the next write uses a new producer epoch.
                    self.producer_epoch, self.sequence = self.producer_epoch + 1, 0
            else:
                left.append((future, rows))
        self.under_way = left

    def wait(self) -> None:
        self.cluster.run(self.random.choice((1, 5, 50, 400, 1_500)))

    def kill(self) -> None:
        broker = self.random.choice(BROKERS)
        if broker not in self.cluster.alive:
            return
        power = self.random.random() < 0.4 and self.in_sync != [broker]
        self.end(broker, power)
        self.done.append(f"kill {broker} {power=}")
        self.elect_without(broker)

    def end(self, broker: int, power: bool) -> None:
        """Kill the broker's process, or cut its power. If it leads, requests that it has received get no response."""
        self.cluster.kill(broker, power)
        self.under_way = [each for each in self.under_way if self.state["leader"] != broker]
        self.producer_epoch, self.sequence = self.producer_epoch + 1, 0

    def elect_without(self, broker: int) -> None:
        """Elect a leader from the in-sync replicas without this broker, as the controller does.

        If this broker was the only in-sync replica, the partition has no leader until the broker returns.
        """
        rest = [each for each in self.in_sync if each != broker]
        if not rest:
            return
        leader = self.state["leader"] if self.state["leader"] in rest else self.random.choice(rest)
        self.cluster.elect(leader, rest)
        self.done.append(f"elect {leader} of {rest}")

    def start(self, broker: int) -> None:
        self.cluster.restart(broker)
        self.done.append(f"start {broker}")
        is_leaderless = self.state["leader"] == broker or self.state["leader"] not in self.cluster.alive
        if is_leaderless and self.in_sync:
            self.cluster.elect(self.random.choice(self.in_sync), self.in_sync)

    def restart(self) -> None:
        gone = [broker for broker in BROKERS if broker not in self.cluster.alive]
        if gone:
            self.start(self.random.choice(gone))

    def replace_disk(self) -> None:
        broker = self.random.choice(BROKERS)
        if broker in self.cluster.alive and self.in_sync != [broker]:
            self.end(broker, True)
            self.cluster.emit("world", e.FaultInjected("f", "disk_replaced", "world", f"broker-{broker}", False))
            self.put_in_a_disk(broker)
            self.done.append(f"empty disk {broker}")
            self.elect_without(broker)

    def cut(self) -> None:
        one, other = self.random.sample(BROKERS, 2)
        self.cluster.cut_link(one, other)
        self.done.append(f"cut {one} {other}")

    def heal(self) -> None:
        self.cluster.heal()

    def hand_over(self) -> None:
        if self.state["leader"] in self.in_sync:
            self.cluster.elect(self.random.choice(self.in_sync), self.in_sync)
            self.done.append(f"hand over to {self.state['leader']}")

    def elect_unclean(self) -> None:
        """Elect a live replica outside the ISR.

        Acknowledged records can be lost, and older records with the same keys can reappear.
        """
        lagging = [each for each in BROKERS if each in self.cluster.alive and each not in self.state["isr"]]
        if lagging:
            self.take_answers()
            self.acknowledged.clear()
            leader = self.random.choice(lagging)
            self.cluster.elect(leader, [leader], unclean=True)
            self.done.append(f"elect {leader}, which is not in sync")

    def move(self) -> None:
        """Move a replica of a random broker to the other log directory, or back."""
        broker = self.random.choice(BROKERS)
        if broker in self.cluster.alive:
            to = self.random.randrange(2)
            self.cluster[broker].manager.move_log(TP, to)
            self.done.append(f"move {broker} to log directory {to}")

    def delete(self) -> None:
        leader = self.state["leader"]
        if leader in self.cluster.alive and self.cluster[leader].partition.is_leader:
            log = self.cluster[leader].partition.log
            offset = self.random.randrange(log.high_watermark + 1)
            self.deleted_to = max(self.deleted_to, offset)
            self.cluster[leader].manager.delete_records({TP: offset}, 1_000)
            self.done.append(f"delete to {offset}")

    # ---- invariants --------------------------------------------------------------------------------------------

    def wrong(self) -> list[str]:
        """Return the invariant violations in the journal and in the replicas, before and after a restart of all
        brokers.
        """
        found = [f"{each.invariant}: {each.detail}" for each in check(self.cluster.entries())]
        for round_ in ("", " after a restart"):
            for broker in BROKERS:
                found += [
                    f"broker {broker}{round_}: {what}" for what in self.wrong_in(self.cluster[broker].partition.log)
                ]
            for broker in BROKERS:
                self.cluster.restart(broker)
            self.cluster.run(3_000)
        return found

    def wrong_in(self, log: PartitionLog) -> list[str]:
        stored = read(log, log.start_offset)
        found = [f"{each} was never written" for each in stored if each.record not in self.asked]
        found += [
            f"{each} was acknowledged as {self.acknowledged[each.offset]}"
            for each in stored
            if each.record != self.acknowledged.get(each.offset, each.record)
        ]
        if log.start_offset > self.deleted_to and not self.retains:
            found.append(f"it starts at {log.start_offset}; records were deleted up to {self.deleted_to}")
        last_stored = {each.record.key: each.offset for each in stored}
        last = {record.key: offset for offset, record in sorted(self.acknowledged.items())}
        for key, offset in last.items():
            if self.forgets_tombstones and self._may_be_deleted(key, offset):
                # A replica that was down longer than tombstones are retained can still have older records of deleted
                # keys.
                continue
            if offset >= log.start_offset and last_stored.get(key, -1) < offset:
                found.append(f"of {key} the last is at {last_stored.get(key)}, and {offset} was acknowledged")
        return found + self.wrong_answers(log, stored)

    def _may_be_deleted(self, key: str, last_offset: int) -> bool:
        """Return whether the key may be deleted.

        Either its last acknowledged record is a tombstone, or the outcome of a tombstone for this key is unknown.
        """
        known = dict.fromkeys(self.acknowledged.values())
        unacknowledged = any(each.key == key and each.value is None and each not in known for each in self.asked)
        return unacknowledged or self.acknowledged[last_offset].value is None

    def wrong_answers(self, log: PartitionLog, stored: list[Stored]) -> list[str]:
        """Return the errors in reads that start at any offset, and in searches by timestamp."""
        found = []
        for offset in range(log.start_offset, log.end_offset):
            rest = [each for each in stored if each.offset >= offset]
            if read(log, offset, self.random.choice((1, 200, 1 << 20))) != rest:
                found.append(f"reading at {offset} does not give what reading all gives")
        times = sorted({each.record.timestamp_ms for each in stored})
        for time_ms in (*times, *(each + 1 for each in times)):
            first = next((each for each in stored if each.record.timestamp_ms >= time_ms), None)
            result = outcome(offset_for_timestamp(log, time_ms))
            if result != (first and (first.record.timestamp_ms, first.offset)):
                found.append(f"the first since {time_ms} is {result}, not {first}")
        if stored:
            newest = max(stored, key=lambda each: (each.record.timestamp_ms, -each.offset))
            result = outcome(newest_record(log))
            if result != (newest.record.timestamp_ms, newest.offset):
                found.append(f"the newest record is {result}, not {newest}")
        return found
