"""A replica's log on disk: batches, segments, epochs, checkpoints, retention and compaction.

The package imports `configs` and the interface `LogDirectory` of `zabka.broker_sim.ports`, which is implemented on disk
and in memory. `replication`, `groups` and `handlers` import the package. To learn the code, begin with `partition_log`,
then read `segment`, which it consists of, and `log_manager`, which manages all logs.
"""
