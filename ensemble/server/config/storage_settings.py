"""The keys of a zoo.cfg that say how a peer keeps its history: log, snapshots, synchronisation, purging."""

from __future__ import annotations

import msgspec

from ensemble.server.config.config_values import Values
from ensemble.txnlog.storage import QUICK_SYNC_US
from ensemble.zab.snapshot_pace import SNAP_COUNT, SNAP_COUNT_MAX
from ensemble.zab.sync import COMMITTED_LOG_LENGTH, SNAPSHOT_SIZE_FACTOR

_COMPRESSIONS = {"": "", "checked": "", "gz": ".gz", "snappy": ".snappy"}


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a peer keeps its history.  `snap_count_max` is as large as `snap_count` where that is set.
    `retain_snapshots` 0 keeps all; `snapshot_suffix` says how they are compressed; `quick_sync_us` 0 leaves every sync
    to the storage thread."""

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
    """Read them.  Raises ConfigError."""
    interval = values.number("autopurge.purgeInterval", 0, 0)
    retain = values.number("autopurge.snapRetainCount", 3, 3)
    return StorageSettings(
        snap_count=values.number("snapCount", SNAP_COUNT, 2),
        snap_count_max=values.number("snapCount", SNAP_COUNT_MAX, 2),
        snap_size_limit_bytes=values.number("snapSizeLimitInKb", 4 << 20, 0, 2**40) * 1024,
        preallocate_bytes=values.number("preAllocSize", 65536, 1, 2**21) * 1024,
        retain_snapshots=retain if interval else 0,
        snapshot_suffix=values.get("snapshot.compression.method", "", _suffix, "gz, snappy or empty"),
        trusts_empty=values.flag("snapshot.trust.empty", False),
        fsync_warning_ms=values.number("fsync.warningthresholdms", 1000, 0),
        quick_sync_us=values.number("zabka.fsync.inlinethresholdus", QUICK_SYNC_US, 0),
        committed_log_length=values.number("commitLogCount", COMMITTED_LOG_LENGTH, 1),
        snapshot_size_factor=values.get(
            "snapshotSizeFactor", SNAPSHOT_SIZE_FACTOR, _factor, "a number, negative for off"
        ),
    )


def _suffix(text: str) -> str:
    try:
        return _COMPRESSIONS[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def _factor(text: str) -> float:
    value = float(text)
    if not -1e9 < value < 1e9:
        raise ValueError(text)
    return value
