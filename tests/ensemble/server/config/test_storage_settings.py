"""The keys of zoo.cfg for the log and the snapshots."""

from __future__ import annotations

from zabka.ensemble.server.config.config_values import Values
from zabka.ensemble.server.config.storage_settings import StorageSettings, read_storage_settings


def read(**keys: str) -> StorageSettings:
    return read_storage_settings(Values({key.replace("__", "."): value for key, value in keys.items()}))


def test_storage_defaults_equal_those_of_zookeeper() -> None:
    settings = read()
    assert (settings.snap_count, settings.snap_size_limit_bytes) == (100_000, 4 << 30)
    assert settings.snap_count_max == 300_000
    assert (settings.preallocate_bytes, settings.fsync_warning_ms) == (64 << 20, 1000)
    assert (settings.committed_log_length, settings.snapshot_size_factor) == (500, 0.33)
    assert (settings.retain_snapshots, settings.snapshot_suffix, settings.trusts_empty) == (0, "", False)
    assert settings.quick_sync_us == 500


def test_every_storage_key_of_zoo_cfg_is_read() -> None:
    settings = read(
        snapCount="2000",
        snapSizeLimitInKb="0",
        preAllocSize="1024",
        fsync__warningthresholdms="20",
        zabka__fsync__inlinethresholdus="0",
        commitLogCount="700",
        snapshotSizeFactor="-1",
        snapshot__compression__method="gz",
        snapshot__trust__empty="true",
        autopurge__purgeInterval="1",
        autopurge__snapRetainCount="5",
    )
    assert settings == StorageSettings(
        snap_count=2000,
        snap_count_max=2000,
        snap_size_limit_bytes=0,
        preallocate_bytes=1 << 20,
        retain_snapshots=5,
        snapshot_suffix=".gz",
        trusts_empty=True,
        fsync_warning_ms=20,
        quick_sync_us=0,
        committed_log_length=700,
        snapshot_size_factor=-1.0,
    )
