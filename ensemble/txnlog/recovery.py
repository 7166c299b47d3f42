"""From a data directory to what a peer starts from: the newest valid snapshot and the log after it.

What ZooKeeper passes over in silence is said here: an unusable snapshot, a torn tail.  What would lose history is
refused with one clear line: a bad checksum, a gap, transactions without any snapshot.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ensemble.effects import Recovered
from ensemble.ids import counter_of, epoch_of, zxid_text
from ensemble.tree.snapshot import TreeSnapshot
from ensemble.txn import Txn
from ensemble.txnlog.epochs import load_epochs
from ensemble.txnlog.errors import DataDirectoryError
from ensemble.txnlog.files import remove_all, replace_file, sync_directory
from ensemble.txnlog.log import cut_file, list_logs, read_log, truncate_logs
from ensemble.txnlog.records import Damage, ScannedLog, whole_record_after
from ensemble.txnlog.snapshots import (
    STAGING_NAME,
    SnapshotDamaged,
    list_snapshots,
    read_snapshot,
    snapshot_path,
    stage_snapshot,
)
from journal.events import LogDamageFound

REPLACING_NAME = ".replacing"
"""Present while a SNAP sync's snapshot takes the place of all earlier history; holds its zxid."""
REPLACEMENT_NAME = ".snapshot.replacement"


class Directories(NamedTuple):
    """dataDir/version-2 (snapshots and epochs) and dataLogDir/version-2 (logs); often the same."""

    data: Path
    log: Path


class Recovery(NamedTuple):
    """What was found, and the damage that was met and dealt with."""

    recovered: Recovered
    damages: list[LogDamageFound]


def recover(directories: Directories) -> Recovery:
    """Load the directories.  Raises DataDirectoryError (one clear line) or OSError."""
    finish_replacement(directories)
    damages: list[LogDamageFound] = []
    snapshot = _newest_snapshot(directories.data, damages)
    floor = snapshot.zxid if snapshot is not None else 0
    txns = _read_logs(directories.log, floor, damages)
    if snapshot is None and txns:
        raise DataDirectoryError(
            f"{directories.data} has no usable snapshot, but there are transactions up to {zxid_text(txns[-1].zxid)}"
        )
    last_zxid = txns[-1].zxid if txns else floor
    accepted, current = load_epochs(directories.data, last_zxid)
    return Recovery(Recovered(accepted, current, snapshot, txns), damages)


def _newest_snapshot(directory: Path, damages: list[LogDamageFound]) -> TreeSnapshot | None:
    for _, path in reversed(list_snapshots(directory)):
        try:
            return read_snapshot(path)
        except SnapshotDamaged as bad:
            damages.append(LogDamageFound(path.name, bad.offset, bad.reason, "passed over for an older snapshot"))
    return None


def _read_logs(directory: Path, floor: int, damages: list[LogDamageFound]) -> list[Txn]:
    """Transactions above `floor`, in order and without a gap."""
    files = list_logs(directory)
    first = max((i for i, (zxid, _) in enumerate(files) if zxid <= floor), default=0)
    txns: list[Txn] = []
    last = floor
    for _, path in files[first:]:
        data, scanned = read_log(path)
        if scanned.damage is not Damage.NONE:
            _deal_with_damage(path, data, scanned, damages)
        for txn in scanned.txns:
            if txn.zxid <= floor:
                continue
            if not follows(last, txn.zxid):
                raise DataDirectoryError(
                    f"{path} goes from {zxid_text(last)} to {zxid_text(txn.zxid)}: transactions are missing between"
                )
            last = txn.zxid
            txns.append(txn)
    return txns


def follows(last: int, zxid: int) -> bool:
    """Whether `zxid` may come right after `last`: the next number, or the first of a later epoch."""
    return zxid == last + 1 or (epoch_of(zxid) > epoch_of(last) and counter_of(zxid) == 1)


def _deal_with_damage(path: Path, data: bytes, scanned: ScannedLog, damages: list[LogDamageFound]) -> None:
    """A torn tail was never acknowledged, so it is cut off; anything else would lose history, so it is refused."""
    reason = scanned.damage.value
    behind = f"behind {zxid_text(scanned.txns[-1].zxid)}" if scanned.txns else "at its first transaction"
    if scanned.damage not in (Damage.TORN, Damage.LOST):
        raise DataDirectoryError(f"{path}: {reason} at offset {scanned.end}, {behind}")
    later = whole_record_after(data, scanned.end)
    if later is not None:
        raise DataDirectoryError(
            f"{path}: {reason} at offset {scanned.end}, {behind}, and further transactions at offset {later}"
        )
    cut_file(path, scanned.end)
    damages.append(LogDamageFound(path.name, scanned.end, reason, "cut off"))


def truncate(directories: Directories, zxid: int) -> Recovery:
    """Forget every transaction above `zxid`, durably, and load again.  Raises DataDirectoryError, OSError.

    Snapshots that are newer go first: until the log is cut, an older snapshot and the log still give the old state.
    """
    snapshots = list_snapshots(directories.data)
    if not any(at <= zxid for at, _ in snapshots):
        raise DataDirectoryError(f"{directories.data} has no snapshot at or before {zxid_text(zxid)} to go back to")
    remove_all([path for at, path in snapshots if at > zxid])
    truncate_logs(directories.log, zxid)
    return recover(directories)


def replace_history(directories: Directories, snapshot: TreeSnapshot) -> int:
    """Make `snapshot` all there is: earlier logs and snapshots go.  All or nothing, also over a crash.

    Returns the snapshot's size in bytes.  Raises OSError.
    """
    staged = stage_snapshot(directories.data, snapshot, REPLACEMENT_NAME)
    size = staged.stat().st_size
    sync_directory(directories.data)
    replace_file(directories.data / REPLACING_NAME, f"{snapshot.zxid:x}".encode(), REPLACING_NAME + ".tmp")
    finish_replacement(directories)
    return size


def finish_replacement(directories: Directories) -> None:
    """Complete a replacement that a crash interrupted, and remove half-written files."""
    marker = directories.data / REPLACING_NAME
    staged = directories.data / REPLACEMENT_NAME
    if marker.exists():
        final = snapshot_path(directories.data, int(marker.read_text(), 16))
        if staged.exists():
            staged.rename(final)
            sync_directory(directories.data)
        remove_all([path for _, path in reversed(list_logs(directories.log))])
        remove_all([path for _, path in list_snapshots(directories.data) if path != final])
        remove_all([marker])
    for leftover in (staged, directories.data / STAGING_NAME):
        leftover.unlink(missing_ok=True)


def purge(directories: Directories, retain: int) -> None:
    """Keep the newest `retain` snapshots and the logs they need (PurgeTxnLog)."""
    snapshots = list_snapshots(directories.data)
    kept = snapshots[-retain:]
    if len(kept) == len(snapshots):
        return
    logs = list_logs(directories.log)
    needed = max((i for i, (zxid, _) in enumerate(logs) if zxid <= kept[0][0]), default=0)
    remove_all([path for _, path in logs[:needed]])
    remove_all([path for _, path in snapshots[: -len(kept)]])
