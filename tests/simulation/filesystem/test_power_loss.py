"""The simulated file system: what remains after kills and power losses, and injected errors.

Each test covers one rule.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from zabka.ensemble.runtime.files import Files
from zabka.ensemble.txnlog.files import exists, read_bytes, replace_file, sync_directory, sync_file, write_bytes
from zabka.simulation.filesystem.inode import BLOCK_BYTES, SECTOR_BYTES
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import BOOT_ID, PowerLost, Volume

ROOT = Path("/")
FILE = Path("/file")
OTHER = Path("/other")
SEEDS = range(200)


def volume_of(seed: int, *, journal: bool = False) -> Volume:
    volume = Volume(Random(seed))
    volume.has_journal = journal
    return volume


def after_power_loss(
    act: Callable[[Files, Volume], object], *, seeds: range = SEEDS, journal: bool = False
) -> list[ProcessFiles]:
    """Return, for each seed, the files that a process finds after the power was cut during `act`."""
    found: list[ProcessFiles] = []
    for seed in seeds:
        volume = volume_of(seed, journal=journal)
        act(ProcessFiles(volume), volume)
        volume.lose_power()
        found.append(ProcessFiles(volume))
    return found


def durable(files: Files, data: bytes, path: Path = FILE) -> None:
    write_bytes(path, data, files)
    sync_file(path, files)
    sync_directory(path.parent, files)


def overwrite(files: Files, data: bytes, position: int = 0, path: Path = FILE) -> int:
    descriptor = files.open(path, os.O_RDWR)
    files.pwrite(descriptor, data, position)
    return descriptor


def contents(found: list[ProcessFiles], path: Path = FILE) -> set[bytes | None]:
    return {read_bytes(path, files) if exists(path, files) else None for files in found}


def test_kill_loses_no_written_data() -> None:
    volume = volume_of(1)
    files = ProcessFiles(volume)
    write_bytes(FILE, b"written", files)
    files.kill()
    assert read_bytes(FILE, ProcessFiles(volume)) == b"written"


def test_kill_loses_data_still_in_the_process_buffer() -> None:
    volume = volume_of(1)
    files = ProcessFiles(volume)
    stream = files.stream(FILE, "wb")
    stream.write(b"buffered")
    files.kill()
    stream.close()
    assert read_bytes(FILE, ProcessFiles(volume)) == b""


def test_power_loss_keeps_synced_data() -> None:
    assert contents(after_power_loss(lambda files, _: durable(files, b"x" * 9000))) == {b"x" * 9000}


def test_unsynced_blocks_survive_or_are_lost_independently() -> None:
    def act(files: Files, volume: Volume) -> None:
        durable(files, b"a" * 2 * BLOCK_BYTES)
        overwrite(files, b"b" * 2 * BLOCK_BYTES)

    halves = {(data[:1], data[-1:]) for data in contents(after_power_loss(act)) if data is not None}
    assert halves == {(b"a", b"a"), (b"a", b"b"), (b"b", b"a"), (b"b", b"b")}


def test_block_can_be_torn_between_sectors_but_not_within_one() -> None:
    def act(files: Files, volume: Volume) -> None:
        durable(files, b"a" * BLOCK_BYTES)
        overwrite(files, b"b" * BLOCK_BYTES)

    seen = [data for data in contents(after_power_loss(act)) if data is not None]
    sectors = {data[at : at + SECTOR_BYTES] for data in seen for at in range(0, BLOCK_BYTES, SECTOR_BYTES)}
    assert sectors == {b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES}
    assert any(len(set(data)) == 2 for data in seen)


def test_power_loss_can_leave_any_version_of_a_rewritten_block() -> None:
    def act(files: Files, volume: Volume) -> None:
        durable(files, b"a" * SECTOR_BYTES)
        overwrite(files, b"b" * SECTOR_BYTES)
        overwrite(files, b"c" * SECTOR_BYTES)

    assert contents(after_power_loss(act)) == {bytes([each]) * SECTOR_BYTES for each in b"abc"}


def test_file_extended_without_its_data_reads_as_zeros() -> None:
    def act(files: Files, volume: Volume) -> None:
        durable(files, b"")
        overwrite(files, b"x" * SECTOR_BYTES)

    assert contents(after_power_loss(act)) == {b"", bytes(SECTOR_BYTES), b"x" * SECTOR_BYTES}


def test_preallocated_space_reads_as_zeros() -> None:
    files = ProcessFiles(volume_of(1))
    write_bytes(FILE, b"x", files)
    descriptor = files.open(FILE, os.O_RDWR)
    files.ftruncate(descriptor, 3 * BLOCK_BYTES)
    assert read_bytes(FILE, files) == b"x" + bytes(3 * BLOCK_BYTES - 1)
    assert files.fstat(descriptor).st_blocks == BLOCK_BYTES // 512
    assert files.lseek(descriptor, 0, os.SEEK_HOLE) == BLOCK_BYTES
    with pytest.raises(OSError, match="No such device or address"):
        files.lseek(descriptor, BLOCK_BYTES, os.SEEK_DATA)


def test_unsynced_truncation_can_be_undone_by_a_power_loss() -> None:
    def act(files: Files, volume: Volume) -> None:
        durable(files, b"abcd")
        files.ftruncate(files.open(FILE, os.O_RDWR), 2)

    assert contents(after_power_loss(act)) == {b"ab", b"abcd", b"ab\0\0"}


@pytest.mark.parametrize(("journal", "left"), [(False, {None, b"x"}), (True, {b"x"})], ids=["posix", "journal"])
def test_unsynced_name_survives_on_a_journaling_file_system(journal: bool, left: set[bytes | None]) -> None:
    def act(files: Files, volume: Volume) -> None:
        write_bytes(FILE, b"x", files)
        sync_file(FILE, files)

    assert contents(after_power_loss(act, journal=journal)) == left


def test_rename_is_atomic() -> None:
    def act(files: Files, volume: Volume) -> None:
        durable(files, b"old")
        durable(files, b"new", OTHER)
        files.rename(OTHER, FILE)

    found = after_power_loss(act)
    states = {(read_bytes(FILE, files), exists(OTHER, files)) for files in found}
    assert states == {(b"old", True), (b"new", False)}


@pytest.mark.parametrize(
    ("journal", "states"),
    [
        (False, {(False, False), (True, False), (False, True), (True, True)}),
        (True, {(True, True), (False, True), (False, False)}),
    ],
    ids=["posix", "journal"],
)
def test_unsynced_unlinks_survive_in_order_only_with_journaling(journal: bool, states: set[tuple[bool, bool]]) -> None:
    def act(files: Files, volume: Volume) -> None:
        durable(files, b"1")
        durable(files, b"2", OTHER)
        files.unlink(FILE)
        files.unlink(OTHER)

    found = after_power_loss(act, journal=journal)
    assert {(exists(FILE, files), exists(OTHER, files)) for files in found} == states


def test_durably_replaced_file_has_the_new_content() -> None:
    def act(files: Files, volume: Volume) -> None:
        replace_file(FILE, b"old", "tmp", files)
        replace_file(FILE, b"new", "tmp", files)

    assert contents(after_power_loss(act)) == {b"new"}


def test_directory_with_a_lost_name_loses_its_files() -> None:
    def act(files: Files, volume: Volume) -> None:
        files.mkdir(Path("/d"))
        durable(files, b"x", Path("/d/file"))

    assert contents(after_power_loss(act), Path("/d/file")) == {None, b"x"}


def test_blocks_of_a_failed_sync_are_skipped_by_the_next_sync() -> None:
    """After a failed sync, the kernel treats the blocks as clean, so the next sync does not write them.

    Linux behaves like this (fsyncgate, 2018).
    """

    def act(files: Files, volume: Volume) -> None:
        durable(files, b"a" * SECTOR_BYTES)
        descriptor = overwrite(files, b"b" * SECTOR_BYTES)
        volume.fail_next("sync")
        with pytest.raises(OSError, match="Input/output error"):
            files.fsync(descriptor)
        assert files.pread(descriptor, 1, 0) == b"b", "the process reads it on"
        files.fsync(descriptor)

    assert contents(after_power_loss(act)) == {b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES}


def test_data_written_again_after_a_failed_sync_can_be_synced() -> None:
    def act(files: Files, volume: Volume) -> None:
        durable(files, b"a" * SECTOR_BYTES)
        descriptor = overwrite(files, b"b" * SECTOR_BYTES)
        volume.fail_next("sync")
        with pytest.raises(OSError, match="Input/output error"):
            files.fsync(descriptor)
        files.pwrite(descriptor, b"b" * SECTOR_BYTES, 0)
        files.fsync(descriptor)

    assert contents(after_power_loss(act)) == {b"b" * SECTOR_BYTES}


def test_blocks_evicted_from_the_page_cache_are_read_from_disk() -> None:
    seen: set[bytes] = set()
    for seed in SEEDS:
        volume = volume_of(seed)
        files = ProcessFiles(volume)
        durable(files, b"a" * BLOCK_BYTES)
        descriptor = overwrite(files, b"b" * BLOCK_BYTES)
        volume.fail_next("sync")
        with pytest.raises(OSError, match="Input/output error"):
            files.fsync(descriptor)
        files.posix_fadvise(descriptor, 0, BLOCK_BYTES, os.POSIX_FADV_DONTNEED)
        seen.add(files.pread(descriptor, 1, 0))
    assert seen == {b"a", b"b"}


def test_full_disk_accepts_a_partial_write_and_then_fails() -> None:
    volume = volume_of(1)
    files = ProcessFiles(volume)
    write_bytes(FILE, b"", files)
    volume.room_bytes = BLOCK_BYTES + 100
    descriptor = files.open(FILE, os.O_RDWR)
    assert files.pwrite(descriptor, b"x" * 3 * BLOCK_BYTES, 10) == BLOCK_BYTES - 10
    with pytest.raises(OSError, match="No space left") as full:
        files.pwrite(descriptor, b"x", BLOCK_BYTES)
    assert full.value.errno == errno.ENOSPC
    assert files.pwrite(descriptor, b"y", 0) == 1, "blocks that the file has can be written"


def test_unlinked_file_frees_its_space_when_it_is_closed() -> None:
    volume = volume_of(1)
    volume.room_bytes = BLOCK_BYTES
    files = ProcessFiles(volume)
    write_bytes(FILE, b"x", files)
    descriptor = files.open(FILE, os.O_RDONLY)
    files.unlink(FILE)
    assert files.room(ROOT) == 0
    assert files.pread(descriptor, 1, 0) == b"x"
    files.close(descriptor)
    assert files.room(ROOT) == BLOCK_BYTES


@pytest.mark.parametrize("operation", ["open", "read", "write", "sync", "rename", "unlink", "list"])
def test_injected_error_occurs_once_and_only_at_its_path(operation: str) -> None:
    volume = volume_of(1)
    files = ProcessFiles(volume)
    acts: dict[str, Callable[[Path], object]] = {
        "open": lambda path: files.open(path, os.O_RDONLY),
        "read": lambda path: files.pread(files.open(path, os.O_RDONLY), 1, 0),
        "write": lambda path: overwrite(files, b"y", path=path),
        "sync": lambda path: sync_file(path, files),
        "rename": lambda path: files.rename(path, path),
        "unlink": files.unlink,
        "list": lambda path: files.listdir(path.parent),
    }
    for path in (Path("/a/file"), Path("/b/file")):
        files.mkdir(path.parent)
        write_bytes(path, b"x", files)
    volume.fail_next(operation, errno.EIO, "/b")
    acts[operation](Path("/a/file"))
    with pytest.raises(OSError, match="Input/output error"):
        acts[operation](Path("/b/file"))
    acts[operation](Path("/b/file"))


def test_bit_rot_changes_the_bytes_that_are_read_from_disk() -> None:
    volume = volume_of(1)
    files = ProcessFiles(volume)
    durable(files, b"\0" * 10)
    volume.rot(FILE, 8 * 3 + 2)
    assert read_bytes(FILE, files) == b"\0\0\0\x04" + bytes(6)
    volume.lose_power()
    assert read_bytes(FILE, ProcessFiles(volume)) == b"\0\0\0\x04" + bytes(6)


def test_bit_rot_is_hidden_while_the_block_is_cached() -> None:
    volume = volume_of(1)
    files = ProcessFiles(volume)
    durable(files, b"\0" * SECTOR_BYTES)
    overwrite(files, b"\0" * SECTOR_BYTES)
    volume.rot(FILE, 0)
    assert read_bytes(FILE, files)[0] == 0


def test_sync_takes_longer_than_other_disk_operations() -> None:
    volume = volume_of(1)
    files = ProcessFiles(volume)
    write_bytes(FILE, b"x", files)
    written_us, files.took_us = files.took_us, 0
    volume.slow_factor = 10
    volume.stall_next_sync(5_000_000)
    sync_file(FILE, files)
    assert 0 < written_us < 100 and files.took_us > 5_000_800


def test_power_can_be_lost_before_any_operation() -> None:
    volume = volume_of(1)
    files = ProcessFiles(volume)
    before = volume.operations
    replace_file(FILE, b"old", "tmp", files)
    whole = volume.operations - before
    left: set[bytes] = set()
    for stop in range(whole):
        for seed in range(20):
            volume = volume_of(seed)
            files = ProcessFiles(volume)
            replace_file(FILE, b"old", "tmp", files)
            volume.lose_power_after(stop)
            with pytest.raises(PowerLost):
                replace_file(FILE, b"new", "tmp", files)
            volume.lose_power()
            left.add(read_bytes(FILE, ProcessFiles(volume)))
    assert left == {b"old", b"new"}


def test_killed_process_changes_no_files() -> None:
    volume = volume_of(1)
    files = ProcessFiles(volume)
    write_bytes(FILE, b"x", files)
    descriptor = files.open(FILE, os.O_RDWR)
    files.kill()
    files.pwrite(descriptor, b"y", 0)
    files.unlink(FILE)
    assert read_bytes(FILE, ProcessFiles(volume)) == b"x"
    with pytest.raises(OSError, match="Input/output error"):
        files.open(FILE, os.O_RDONLY)


def test_file_lock_is_released_when_its_process_ends() -> None:
    import fcntl

    volume = volume_of(1)
    first, second = ProcessFiles(volume), ProcessFiles(volume)
    write_bytes(FILE, b"", first)
    first.flock(first.open(FILE, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    mine = second.open(FILE, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        second.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    first.kill()
    second.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_every_boot_of_a_host_has_a_different_boot_id() -> None:
    volume = volume_of(1)
    before = read_bytes(Path(BOOT_ID), ProcessFiles(volume))
    assert read_bytes(Path(BOOT_ID), ProcessFiles(volume)) == before
    volume.lose_power()
    assert read_bytes(Path(BOOT_ID), ProcessFiles(volume)) != before
