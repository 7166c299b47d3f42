"""A coordinator loads its groups while their `__consumer_offsets` log moves to another log directory."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.virtual_time.runtime import SimRuntime, run_task
from zabka.broker_sim.groups.log import read_group_log
from zabka.broker_sim.groups.records import OffsetAndMetadata, offset_key, offset_value
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.guarded_directory import GuardedDirectory
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.journal.events import TopicPartition
from zabka.kafka.record_batch import Record, build_batch, split_batches
from zabka.simulation.engine.scheduler import Scheduler

OFFSETS = TopicPartition("__consumer_offsets", 0)
COMMITTED = 20


class Replica:
    """Replica with one log in each of two directories. `move` switches from the first log to the second."""

    def __init__(self, folder: Path) -> None:
        self.topic_partition = OFFSETS
        self.failures: list[OSError] = []
        self.logs = [self.filled(folder / name) for name in ("left", "right")]
        self.log = self.logs[0]

    def filled(self, folder: Path) -> PartitionLog:
        folder.mkdir()
        disk = GuardedDirectory(FileLogDirectory(folder), lambda _, failure: self.failures.append(failure))
        log = PartitionLog(disk, OFFSETS, segment_bytes=1 << 20)
        for number in range(COMMITTED):
            key = offset_key("payments", TopicPartition("orders", number))
            data = build_batch([Record(key, offset_value(OffsetAndMetadata(number, 0, "", 1)), 1)])
            log.append_as_leader(data, split_batches(data) or [], 0)
        return log

    def move(self) -> bool:
        """Switch to the copy of the log on the first call, as LogDirMoves does at the end of a move."""
        if self.log is self.logs[0]:
            self.log.close()
            self.log = self.logs[1]
        return True


def test_groups_load_completely_while_their_log_is_moved(tmp_path: Path) -> None:
    replica, scheduler = Replica(tmp_path), Scheduler()
    runtime = SimRuntime(scheduler, Random(1))
    read = run_task(scheduler, runtime, read_group_log(replica, 300, runtime, replica.move))
    runtime.stop()
    assert replica.failures == [], "a closed log is not a disk failure: the whole directory would go offline"
    assert read is not None
    (group,) = read.groups(1)
    assert len(group.offsets) == COMMITTED
    replica.log.close()
