"""The checker's view of a peer's platter is read again after each change of the platter."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from zabka.simulation.checkers.platters import HISTORY, PeerDisks
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import Volume

FOLDER = Path("/") / HISTORY


def volume_with_epoch(text: bytes) -> tuple[Volume, ProcessFiles]:
    volume = Volume(Random(1))
    files = ProcessFiles(volume)
    for parent in [*reversed(FOLDER.parents), FOLDER][1:]:
        files.mkdir(parent)
        sync(files, parent.parent)
    write(files, text)
    sync(files, FOLDER / "log.1")
    sync(files, FOLDER)
    return volume, files


def write(files: ProcessFiles, text: bytes) -> None:
    descriptor = files.open(FOLDER / "log.1", os.O_RDWR | os.O_CREAT)
    files.pwrite(descriptor, text, 0)
    files.close(descriptor)


def sync(files: ProcessFiles, path: Path) -> None:
    descriptor = files.open(path, os.O_RDONLY)
    try:
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def fail_to_sync(volume: Volume, files: ProcessFiles) -> None:
    write(files, b"other")
    volume.fail_next("sync")
    with pytest.raises(OSError):
        sync(files, FOLDER / "log.1")


def write_and_sync(volume: Volume, files: ProcessFiles) -> None:
    write(files, b"other")
    sync(files, FOLDER / "log.1")


def remove(volume: Volume, files: ProcessFiles) -> None:
    files.unlink(FOLDER / "log.1")
    sync(files, FOLDER)


@pytest.mark.parametrize(
    "change",
    [
        write_and_sync,
        fail_to_sync,
        remove,
        lambda volume, _: volume.rot(FOLDER / "log.1", 3),
        lambda volume, _: volume.lose_power(),
    ],
)
def test_platter_is_read_again_after_it_has_changed(change: Callable[[Volume, ProcessFiles], None]) -> None:
    volume, files = volume_with_epoch(b"first")
    reads: list[dict[str, bytes]] = []
    original = volume.platter_directory
    volume.platter_directory = lambda path: reads.append(original(path)) or reads[-1]  # type: ignore[method-assign]
    disks = PeerDisks(lambda _: volume)
    disks.read(1)
    disks.read(1)
    assert reads == [{"log.1": b"first"}]
    change(volume, files)
    disks.read(1)
    assert len(reads) == 2 and reads[1] == original(HISTORY)


def test_platter_of_a_replaced_disk_is_read() -> None:
    first, second = volume_with_epoch(b"first")[0], volume_with_epoch(b"second")[0]
    assert first.platter_changes == second.platter_changes
    current = [first]
    disks = PeerDisks(lambda _: current[0])
    disks.read(1)
    current[0] = second
    reads: list[object] = []
    original = second.platter_directory
    second.platter_directory = lambda path: reads.append(path) or original(path)  # type: ignore[method-assign]
    disks.read(1)
    assert reads == [HISTORY]
