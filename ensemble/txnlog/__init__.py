"""What a peer keeps on disk, in ZooKeeper's formats: transaction log, snapshots, epoch files, and recovery.

It touches files and threads through the ports of `runtime`.  It imports `tree` and `zab` for what it writes, and the
simulated disks use its formats and its recovery.  Begin with `storage`, which carries out a peer's disk effects, and
`recovery`, which finds out what a start has to go on from; `snapshot_format` and `records` are the bytes.
"""
