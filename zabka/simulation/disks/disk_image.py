"""A peer's disk as files: what the real recovery reads, byte for byte, with whatever befell the bytes.

The files are ZooKeeper's, in a directory that lives as long as one reading; `zabka.ensemble.txnlog` deals with them as
it does with a real peer's.  Nothing of the world's history depends on where they lie.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from zabka.ensemble.ids import Epoch, Zxid
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.epochs import ACCEPTED, CURRENT
from zabka.ensemble.txnlog.files import LOG_PREFIX
from zabka.ensemble.txnlog.log import list_logs, read_log
from zabka.ensemble.txnlog.losses import MARKER_NAME
from zabka.ensemble.txnlog.records import LOG_HEADER, frame_record
from zabka.ensemble.txnlog.snapshots import list_snapshots, snapshot_path, stage_snapshot

_MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory: nothing here need outlive the process."""


class LogImage(NamedTuple):
    """One log file: the zxid in its name, and its bytes."""

    first: int
    data: bytes


class SnapshotImage(NamedTuple):
    """One snapshot, and what became of its bytes."""

    snapshot: TreeSnapshot
    worn: Callable[[bytes], bytes]


class DiskImage(NamedTuple):
    """All that a peer's version-2 directory holds."""

    logs: list[LogImage]
    snapshots: list[SnapshotImage]
    accepted: Epoch
    current: Epoch
    complete: bool


def log_bytes(txns: list[Txn]) -> bytes:
    """A log file of these transactions, without room ahead."""
    return LOG_HEADER + b"".join([frame_record(txn) for txn in txns])


@contextmanager
def on_real_files(image: DiskImage) -> Iterator[Directories]:
    """Within it the image lies in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="zabka-disk-", dir=_MEMORY if _MEMORY.is_dir() else None) as place:
        directory = Path(place)
        for log in image.logs:
            (directory / f"{LOG_PREFIX}.{log.first:x}").write_bytes(log.data)
        for snapshot, worn in image.snapshots:
            path = snapshot_path(directory, snapshot.zxid)
            stage_snapshot(path, snapshot, pace=_go_on)
            path.write_bytes(worn(path.read_bytes()))
        (directory / ACCEPTED).write_text(f"{image.accepted}")
        (directory / CURRENT).write_text(f"{image.current}")
        if not image.complete:
            (directory / MARKER_NAME).write_text("transactions are missing")
        yield Directories(directory, directory)


def _go_on() -> None:
    return


def logs_on(directories: Directories) -> list[tuple[int, list[Txn]]]:
    """What every log file holds, oldest first, with the zxid in its name."""
    return [(first, read_log(path)[1].txns) for first, path in list_logs(directories.log)]


def snapshots_on(directories: Directories) -> list[Zxid]:
    """Of which zxids there are snapshots, oldest first."""
    return [Zxid(zxid) for zxid, _ in list_snapshots(directories.data)]
