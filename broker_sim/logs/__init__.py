"""A replica's log on disk: batches, segments, epochs, checkpoints, retention and compaction, in directories.

It imports `configs` and the `LogDirectory` of `zabka.broker_sim.ports`, which is a disk or memory. `replication`,
`groups` and `handlers` import it. Begin with `partition_log`, then read `segment` below it and `log_manager` above it.
"""
