"""A peer's data on disk, in ZooKeeper's formats: transaction log, snapshots, epoch files, and recovery.

The package uses files and threads through the interfaces of `runtime`. It imports `tree` and `zab` for the data that it
writes. The simulated disks use its formats and its recovery. To learn the code, read `storage` first, which executes a
peer's disk effects, and then `recovery`, which determines a peer's initial state. `snapshot_format` and `records`
define the formats.
"""
