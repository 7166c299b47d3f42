"""Recovery of a peer's initial state from a data directory: the newest valid snapshot and the log after it.

Unlike ZooKeeper, recovery reports an unusable snapshot and a torn tail. Damage that may have lost committed
transactions (a bad checksum, a gap) stops a standalone peer with a one-line message. Any other peer must fetch the
transactions from a leader before its vote counts. If there are logs without a usable snapshot, every peer stops, as in
ZooKeeper: if all peers had such a directory, no leader would have the transactions.

`recover` first reads and checks everything. It changes files only after the last check, so a rejected start leaves the
directory as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from zabka.ensemble.ids import counter_of, epoch_of, zxid_text
from zabka.ensemble.runtime.workers import THREADS
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog import newest_log
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.epochs import check_epochs
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import (
    exists,
    read_bytes,
    remove_all,
    replace_file,
    sync_directory,
    unlink,
    write_again,
)
from zabka.ensemble.txnlog.log import close_record, cut_file, read_log, truncate_logs
from zabka.ensemble.txnlog.losses import DOUBT_NAME, MARKER_NAME, UNCHANGED, Loss, Losses
from zabka.ensemble.txnlog.records import HEADER, Damage, ScannedLog, is_torn_tail, whole_record_after
from zabka.ensemble.txnlog.snapshots import (
    STAGING_NAME,
    SnapshotDamaged,
    is_cut_short,
    read_snapshot,
    snapshot_path,
    stage_snapshot,
)
from zabka.ensemble.txnlog.stage_times import NANOS_PER_MS
from zabka.ensemble.zab.effects import Recovered
from zabka.journal.events import LogDamageFound

REPLACING_NAME = ".replacing"
"""Name of the file that exists while a snapshot from a leader (SNAP) replaces all earlier history.

It contains the snapshot's zxid.
"""
REPLACEMENT_NAME = ".snapshot.replacement"


class Recovery(NamedTuple):
    """The recovered state, and the damage that was found and handled."""

    recovered: Recovered
    damages: list[LogDamageFound]
    snapshot_load_ms: int = 0
    txns_load_ms: int = 0


class RecoveryPolicy(NamedTuple):
    """How recovery handles lost transactions and missing snapshots.

    `other_voters`: number of other voters, which may have the lost transactions. `trusts_empty`: whether logs without
    any snapshot are accepted as a complete history (snapshot.trust.empty: servers before 3.5 wrote no snapshot at their
    first start).
    """

    other_voters: int = 0
    trusts_empty: bool = False


LONE = RecoveryPolicy()


def recover(directories: Directories, policy: RecoveryPolicy = LONE) -> Recovery:
    """Load the peer's state. Raises OSError, or DataDirectoryError (a one-line message; no file was changed).

    Damage that may have lost committed transactions stops a peer without other voters. A peer with other voters
    continues with the intact part, and `recovered.complete` is False until a leader has sent it the whole history
    again.
    """
    _check_replacement(directories)
    finish_replacement(directories)
    damages: list[LogDamageFound] = []
    losses = Losses(directories, damages, policy.other_voters > 0)
    began_ns = time.monotonic_ns()
    snapshot, damaged = _newest_snapshot(directories, damages)
    floor = snapshot.zxid if snapshot is not None else 0
    loaded_ns = time.monotonic_ns()
    if snapshot is not None or (policy.trusts_empty and _are_cut_short(directories, damaged)):
        txns = _read_logs(directories, floor, damages, losses, has_base=snapshot is not None)
    else:
        txns = []
        _deal_with_logs_alone(directories, damaged, damages, losses)
    took_ms = (loaded_ns - began_ns) // NANOS_PER_MS, (time.monotonic_ns() - loaded_ns) // NANOS_PER_MS
    last_zxid = txns[-1].zxid if txns else floor
    begun = newest_log.noted(directories.data, directories.files)
    is_gone = begun is not None and begun > last_zxid and all(first != begun for first, _ in directories.logs())
    if begun is not None and is_gone and not losses.marks:
        losses.lose_newest_log(begun, last_zxid)
    for at, path in damaged:
        if at > last_zxid:
            losses.lose_snapshot(path, last_zxid)
        losses.set_aside(path)
    epochs = check_epochs(directories.data, last_zxid, directories.files)
    complete = not losses.marks and not exists(losses.marker, directories.files)
    doubt = directories.data / DOUBT_NAME
    in_doubt = exists(doubt, directories.files)
    if not complete and not policy.other_voters:
        raise DataDirectoryError(
            f"{losses.marker} says that transactions are missing here, and there is no other voter to take them from; "
            "remove it to go on without them"
        )
    if in_doubt and not policy.other_voters:
        raise DataDirectoryError(
            f"{doubt} says that the tree here was not its leader's, and there is no other voter to take it from; "
            "remove it to go on with this one"
        )
    _remove_leftovers(directories)
    losses.carry_out()
    epochs.write(directories.data, directories.files)
    recovered = Recovered(epochs.accepted, epochs.current, snapshot, txns, complete, in_doubt)
    return Recovery(recovered, damages, *took_ms)


def _newest_snapshot(
    directories: Directories, damages: list[LogDamageFound]
) -> tuple[TreeSnapshot | None, list[tuple[int, Path]]]:
    """Return the newest valid snapshot, and the damaged snapshots that are newer, with the zxids in their names."""
    damaged: list[tuple[int, Path]] = []
    for zxid, path in reversed(directories.snapshots()):
        try:
            return read_snapshot(path, directories.files), damaged
        except SnapshotDamaged as bad:
            reason = f"{bad.reason}, in the snapshot of {zxid_text(zxid)}"
            damages.append(LogDamageFound(path.name, bad.offset, reason, "passed over for an older snapshot"))
            damaged.append((zxid, path))
    return None, damaged


def _are_cut_short(directories: Directories, damaged: list[tuple[int, Path]]) -> bool:
    """Return whether every damaged snapshot was only partially written, so that it never was a valid snapshot."""
    return all(is_cut_short(path, directories.files) for _, path in damaged)


def _deal_with_logs_alone(
    directories: Directories, damaged: list[tuple[int, Path]], damages: list[LogDamageFound], losses: Losses
) -> None:
    """Raise DataDirectoryError if there are transactions, but no snapshot (FileTxnSnapLog.restore).

    A log without transactions counts too if its name shows that there were earlier ones. Logs without a snapshot may be
    a complete history, and after an upgrade or a full disk all peers may be in this state. Therefore the logs are not
    replaced.

    In two cases only this peer is affected, and the leader replaces its data: the peer has a damaged snapshot that was
    once complete, or an earlier start marked the history as incomplete (and may have been killed before it had renamed
    every file).
    """
    filled: list[str] = []
    torn: list[tuple[Path, ScannedLog]] = []
    for first, path in directories.logs():
        data, scanned = read_log(path, directories.files)
        is_torn = _has_torn_tail(data, scanned)
        if scanned.txns or not (is_torn or scanned.damage is Damage.NONE) or not follows(0, first):
            filled.append(path.name)
        elif is_torn:
            torn.append((path, scanned))
    if not filled:
        for path, scanned in torn:
            _cut_off(path, scanned, damages, losses)
        return
    if exists(losses.marker, directories.files) or not _are_cut_short(directories, damaged):
        losses.lose_all_logs(f"{directories.data} has no usable snapshot, but transactions from {filled[0]} on")
        return
    found = f"{damaged[0][1].name} is not a whole snapshot" if damaged else "there is no snapshot"
    raise DataDirectoryError(
        f"{directories.data} has transactions from {filled[0]} on, but {found}. {UNCHANGED}. If the logs hold the "
        "whole history (an upgrade from 3.4, or deleted snapshots), start with snapshot.trust.empty=true. "
        f"{_from_others(directories)}"
    )


def _from_others(directories: Directories) -> str:
    """Return advice for the operator: how to start if other servers of the ensemble have the data."""
    marker = directories.data / MARKER_NAME
    return f"If other servers have the data, move the logs away and create an empty file {marker}"


def _read_logs(
    directories: Directories, floor: int, damages: list[LogDamageFound], losses: Losses, *, has_base: bool
) -> list[Txn]:
    """Return the intact transactions above `floor`, in order and without a gap.

    Raises DataDirectoryError if there is no snapshot (`has_base` is False) and the logs do not contain the whole
    history.
    """
    files, logs = directories.files, directories.logs()
    first = max((i for i, (zxid, _) in enumerate(logs) if zxid <= floor), default=0)
    txns: list[Txn] = []
    last = floor
    for index in range(first, len(logs)):
        path = logs[index][1]
        later = [path for _, path in logs[index + 1 :]]
        data, scanned = read_log(path, files)
        for offset in scanned.unclosed:
            losses.change(close_record, path, offset, files)
            damages.append(LogDamageFound(path.name, offset, "a record without its closing byte", "closed again"))
        begin = HEADER.size
        for txn, end in zip(scanned.txns, scanned.ends, strict=True):
            if txn.zxid > floor:
                if not follows(last, txn.zxid):
                    if not has_base:
                        raise _no_whole_history(directories, f"{path.name} goes from {zxid_text(last)} to "
                                                             f"{zxid_text(txn.zxid)}")  # fmt: skip
                    losses.lose(
                        Loss(path, begin, Damage.GAP, last, floor),
                        f"{path} goes from {zxid_text(last)} to {zxid_text(txn.zxid)}: "
                        "transactions are missing between", later,
                    )  # fmt: skip
                    return txns
                last = txn.zxid
                txns.append(txn)
            begin = end
        if index == len(logs) - 1 and scanned.txns:
            # The last process may have been killed before an fsync, so that only the kernel has the bytes; or its fsync
            # may have failed, so that the kernel wrongly marks them as written. Write them again, because from now on
            # they are regarded as durable.
            losses.change(write_again, path, files)
        if scanned.damage is Damage.NONE:
            continue
        if _has_torn_tail(data, scanned):
            _cut_off(path, scanned, damages, losses)
            continue
        behind = scanned.txns[-1].zxid if scanned.txns else last
        if not has_base:
            raise _no_whole_history(directories, _complaint(path, data, scanned))
        losses.lose(Loss(path, scanned.end, scanned.damage, behind, floor), _complaint(path, data, scanned), later)
        return txns
    return txns


def _has_torn_tail(data: bytes, scanned: ScannedLog) -> bool:
    """Return whether a log ends with an incomplete record, which was never acknowledged."""
    return scanned.damage in (Damage.TORN, Damage.LOST) and is_torn_tail(data, scanned.end)


def _cut_off(path: Path, scanned: ScannedLog, damages: list[LogDamageFound], losses: Losses) -> None:
    losses.change(cut_file, path, scanned.end, losses.files)
    damages.append(LogDamageFound(path.name, scanned.end, scanned.damage.value, "cut off"))


def _no_whole_history(directories: Directories, complaint: str) -> DataDirectoryError:
    return DataDirectoryError(
        f"{complaint}: without a snapshot the logs in {directories.log} are not the whole history, which "
        f"snapshot.trust.empty=true needs. {UNCHANGED}; put the snapshots, or the missing logs, back. "
        f"{_from_others(directories)}"
    )


def _complaint(path: Path, data: bytes, scanned: ScannedLog) -> str:
    """Return a one-line description of damage that may have lost transactions."""
    if scanned.damage is Damage.HEADER:
        return f"{path} is not a ZooKeeper transaction log"
    behind = f"behind {zxid_text(scanned.txns[-1].zxid)}" if scanned.txns else "at its first transaction"
    line = f"{path}: {scanned.damage.value} at offset {scanned.end}, {behind}"
    later = whole_record_after(data, scanned.end)
    return line if later is None else f"{line}, and further transactions at offset {later}"


def follows(last: int, zxid: int) -> bool:
    """Return whether `zxid` can directly follow `last`: the next number, or the first one of a later epoch."""
    return zxid == last + 1 or (epoch_of(zxid) > epoch_of(last) and counter_of(zxid) == 1)


def truncate(directories: Directories, zxid: int, policy: RecoveryPolicy = LONE) -> Recovery:
    """Delete every transaction above `zxid` durably, and load the state again. Raises DataDirectoryError and OSError.

    Newer snapshots are removed first: until the log is truncated, an older snapshot and the log still result in the old
    state.
    """
    snapshots = directories.snapshots()
    if not any(at <= zxid for at, _ in snapshots):
        raise DataDirectoryError(f"{directories.data} has no snapshot at or before {zxid_text(zxid)} to go back to")
    remove_all([path for at, path in snapshots if at > zxid], directories.files)
    newest_log.forget(directories.data, directories.files)
    truncate_logs(directories.log, zxid, directories.files)
    return recover(directories, policy)


def replace_history(
    directories: Directories, snapshot: TreeSnapshot, pace: Callable[[], None] = THREADS.breathe
) -> int:
    """Make `snapshot` the whole history, atomically even in a crash: delete earlier logs and snapshots.

    `pace` is called regularly while the snapshot is written, to let other threads run. Returns the snapshot's size in
    bytes. Raises OSError.
    """
    staged = directories.data / REPLACEMENT_NAME
    files = directories.files
    stage_snapshot(staged, snapshot, pace=pace, files=files)
    size = files.stat(staged).st_size
    sync_directory(directories.data, files)
    replace_file(directories.data / REPLACING_NAME, f"{snapshot.zxid:x}".encode(), REPLACING_NAME + ".tmp", files)
    finish_replacement(directories)
    _remove_leftovers(directories)
    if exists(directories.data / DOUBT_NAME, files):
        remove_all([directories.data / DOUBT_NAME], files)
    return size


def finish_replacement(directories: Directories) -> None:
    """If `.replacing` exists, complete the interrupted replacement of the history by the snapshot already written."""
    files = directories.files
    marker = directories.data / REPLACING_NAME
    staged = directories.data / REPLACEMENT_NAME
    if exists(marker, files):
        final = snapshot_path(directories.data, int(read_bytes(marker, files), 16))
        if exists(staged, files):
            files.rename(staged, final)
            sync_directory(directories.data, files)
        newest_log.forget(directories.data, directories.files)
        remove_all([path for _, path in reversed(directories.logs())], files)
        remove_all([path for _, path in directories.snapshots() if path != final], files)
        remove_all([marker], files)


def _check_replacement(directories: Directories) -> None:
    """Raise DataDirectoryError if a crash interrupted the replacement of the history by a snapshot.

    This is an error only if the snapshot is unreadable: completing the replacement would leave no history. The earlier
    history still exists, at least in part.
    """
    files, marker = directories.files, directories.data / REPLACING_NAME
    if not exists(marker, files):
        return
    staged = directories.data / REPLACEMENT_NAME
    try:
        final = snapshot_path(directories.data, int(read_bytes(marker, files), 16))
        read_snapshot(staged if exists(staged, files) else final, files)
    except (SnapshotDamaged, FileNotFoundError, ValueError) as bad:
        raise DataDirectoryError(
            f"The snapshot that was replacing the history in {directories.data} cannot be read ({bad}). "
            f"{UNCHANGED}. To keep the earlier history, rename {marker} to {MARKER_NAME}: a leader then sends what is "
            "missing, and the vote of this server counts after that"
        ) from None


def _remove_leftovers(directories: Directories) -> None:
    """Remove temporary files of snapshots that a killed process was writing."""
    files = directories.files
    leftovers = [name for name in files.listdir(directories.data) if name.startswith(STAGING_NAME)]
    for leftover in (REPLACEMENT_NAME, *sorted(leftovers)):
        unlink(directories.data / leftover, files)


def purge(directories: Directories, retain: int) -> None:
    """Delete all but the newest `retain` snapshots and the logs that they need (PurgeTxnLog).

    A snapshot that was only partially written does not count (FileSnap.findNValidSnapshots). Snapshots are removed
    before logs: otherwise a crash could leave an old snapshot without the log that follows it, and a TRUNC to a later
    zxid, or a start with damaged newer snapshots, would use it as the beginning of an incomplete history.
    """
    snapshots = directories.snapshots()
    whole = [zxid for zxid, path in snapshots if not is_cut_short(path, directories.files)]
    if len(whole) < retain or snapshots[0][0] >= whole[-retain]:
        return
    oldest = whole[-retain]
    logs = directories.logs()
    needed = max((i for i, (zxid, _) in enumerate(logs) if zxid <= oldest), default=0)
    remove_all([path for zxid, path in snapshots if zxid < oldest], directories.files)
    remove_all([path for _, path in logs[:needed]], directories.files)
