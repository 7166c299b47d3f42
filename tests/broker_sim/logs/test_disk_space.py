"""The file system sizes of log directories in DescribeLogDirs 4 (KIP-827)."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.ports import DiskSpace, LogDirectory
from zabka.ensemble.txnlog.files import write_bytes
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.simulation.filesystem.inode import BLOCK_BYTES
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import Volume

ROOT = Path("/logs")


class UnreadableDisk(MemoryLogDirectory):
    """Log directory whose file system size cannot be read."""

    def space(self) -> DiskSpace:
        raise OSError("statvfs failed")


def described(directory: LogDirectory, version: int = 4) -> Any:
    """Return the entry of a broker's only log directory in its DescribeLogDirs response."""
    cluster = Cluster(brokers=1, log_dirs="/logs")
    node = cluster.nodes[1]
    node.more_ports = {"log_directories": [directory]}
    cluster.start()
    message = request(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
    (row,) = cluster.on(node, node.broker.handle(message)).results
    cluster.stop_all()
    return row


def test_total_bytes_but_not_usable_bytes_include_used_blocks() -> None:
    volume = Volume(Random(1))
    files = ProcessFiles(volume)
    files.mkdir(ROOT)
    directory = FileLogDirectory(ROOT, files)
    volume.room_bytes = 100 * BLOCK_BYTES
    before = directory.space()
    assert before.usable_bytes == 100 * BLOCK_BYTES
    write_bytes(ROOT / "other", bytes(BLOCK_BYTES + 1), files)
    assert directory.space() == DiskSpace(before.total_bytes, 98 * BLOCK_BYTES)


def test_disk_sizes_of_a_real_directory_equal_statvfs(tmp_path: Path) -> None:
    row = described(FileLogDirectory(tmp_path))
    host = os.statvfs(tmp_path)
    assert row.error_code is ErrorCode.none
    assert row.total_bytes == host.f_blocks * host.f_frsize
    assert 0 < row.usable_bytes < row.total_bytes


def test_describe_log_dirs_v3_has_no_disk_sizes(tmp_path: Path) -> None:
    assert not hasattr(described(FileLogDirectory(tmp_path), version=3), "total_bytes")


def test_unknown_disk_sizes_are_minus_one() -> None:
    row = described(MemoryLogDirectory())
    assert (row.error_code, row.total_bytes, row.usable_bytes) == (ErrorCode.none, -1, -1)


def test_describe_log_dirs_returns_unknown_error_for_a_bad_disk() -> None:
    row = described(UnreadableDisk())
    assert (row.error_code, row.topics, row.total_bytes) == (ErrorCode.unknown_server_error, (), -1)
