"""A replica's log on disk: batches, segments, epochs, checkpoints, retention and compaction, in directories.

The package imports `configs` and the interface `LogDirectory` of `zabka.broker_sim.ports`, which is implemented on
disk and in memory. `replication`, `groups` and `handlers` import the package. Begin with `partition_log`, then read
`segment` below it and `log_manager` above it.
"""
