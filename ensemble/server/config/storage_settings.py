"""zoo.cfg keys for a peer's stored history: log, snapshots, synchronisation, purging."""

from __future__ import annotations

from math import inf

import msgspec

from zabka.ensemble.server.config.config_values import LONG_MAX, LONG_MIN, Values, decoded, parsed, parsed_double
from zabka.ensemble.txnlog.storage import QUICK_SYNC_US
from zabka.ensemble.zab.snapshot_pace import SNAP_COUNT, SNAP_COUNT_MAX
from zabka.ensemble.zab.sync import COMMITTED_LOG_LENGTH, SNAPSHOT_SIZE_FACTOR

_COMPRESSIONS = {"": "", "gz": ".gz", "snappy": ".snappy"}
_RETAINED_MIN = 3
"""Minimum for the number of snapshots that purging retains (PurgeTxnLog)."""
_PREALLOCATED_KB_MAX = 2**21
_KB_MAX = 2**40


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for the storage of a peer's history.

    If `snap_count` is set, `snap_count_max` equals it. The value 0 means: no limit (`snap_size_limit_bytes`), no
    preallocation (`preallocate_bytes`), all snapshots are retained (`retain_snapshots`), and the storage thread runs
    every fsync (`quick_sync_us`). `snapshot_suffix` is the file suffix of the compression. With a negative
    `snapshot_size_factor`, no DIFF is sent from the log on disk.
    """

    snap_count: int
    snap_count_max: int
    snap_size_limit_bytes: int
    preallocate_bytes: int
    retain_snapshots: int
    snapshot_suffix: str
    trusts_empty: bool
    fsync_warning_ms: int
    quick_sync_us: int
    committed_log_length: int
    snapshot_size_factor: float


def read_storage_settings(values: Values) -> StorageSettings:
    """Read the storage settings. Raises ConfigError."""
    purges = values.number("autopurge.purgeInterval", 0) > 0
    retained = values.number("autopurge.snapRetainCount", _RETAINED_MIN)
    if retained < _RETAINED_MIN:
        values.warn(f"autopurge.snapRetainCount={retained} is below the limit: {_RETAINED_MIN} is used")
    snap_count = values.property_number("snapCount", SNAP_COUNT, 2)
    count_is_set = decoded(values.given("snapCount") or "") is not None
    size_limit_kb = values.property_number("snapSizeLimitInKb", 4 << 20, LONG_MIN, LONG_MAX)
    committed_log_length = values.property_number(
        "commitLogCount", COMMITTED_LOG_LENGTH, COMMITTED_LOG_LENGTH, read=parsed
    )
    preallocated_kb = values.property_number("preAllocSize", 65536, LONG_MIN, LONG_MAX, read=parsed)
    return StorageSettings(
        snap_count=snap_count,
        snap_count_max=snap_count if count_is_set else SNAP_COUNT_MAX,
        snap_size_limit_bytes=min(max(0, size_limit_kb), _KB_MAX) * 1024,
        preallocate_bytes=min(max(0, preallocated_kb), _PREALLOCATED_KB_MAX) * 1024,
        retain_snapshots=max(retained, _RETAINED_MIN) if purges else 0,
        snapshot_suffix=_suffix(values, "snapshot.compression.method"),
        trusts_empty=values.property_flag("snapshot.trust.empty", False),
        fsync_warning_ms=values.property_number("fsync.warningthresholdms", 1000, LONG_MIN, LONG_MAX),
        quick_sync_us=values.number("zabka.fsync.inlinethresholdus", QUICK_SYNC_US, 0),
        committed_log_length=values.number("zabka.commitLogCount", committed_log_length, 1),
        snapshot_size_factor=values.double("zabka.snapshotSizeFactor", _factor(values, "snapshotSizeFactor")),
    )


def _suffix(values: Values, key: str) -> str:
    name = values.get(key, "", str, "gz, snappy or empty")
    if name.lower() not in _COMPRESSIONS:
        values.warn(f"{key}={name} is not gz, snappy or empty: snapshots are not compressed")
    return _COMPRESSIONS.get(name.lower(), "")


def _factor(values: Values, key: str) -> float:
    text = values.get(key, str(SNAPSHOT_SIZE_FACTOR), str, "a number up to 1, negative for off")
    try:
        factor = parsed_double(text)
    except ValueError:
        factor = inf
    if factor > 1:
        values.warn(f"{key}={text} is not a number up to 1: {SNAPSHOT_SIZE_FACTOR} is used")
        return SNAPSHOT_SIZE_FACTOR
    return factor if factor >= 0 else -1.0
