"""A peer's data on disk, in ZooKeeper's formats: transaction log, snapshots, epoch files, and recovery.

The package uses files and threads through the interfaces of `runtime`. It imports `tree` and `zab` for the data that
it writes. The simulated disks use its formats and its recovery. Begin with `storage`, which executes a peer's disk
effects, and `recovery`, which determines a peer's initial state; `snapshot_format` and `records` define the formats.
"""
