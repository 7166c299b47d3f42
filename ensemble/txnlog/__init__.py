"""A peer's data on disk, in ZooKeeper's formats: transaction log, snapshots, epoch files, and recovery.

The package uses files and threads through the ports of `runtime`. It imports `tree` and `zab` for the data that it
writes. The simulated disks use its formats and its recovery. Begin with `storage`, which carries out a peer's disk
effects, and `recovery`, which determines the state that a peer starts from; `snapshot_format` and `records` define the
bytes.
"""
