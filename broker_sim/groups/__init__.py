"""Consumer groups: the coordinator's state machine, and its records in `__consumer_offsets`.

The package imports `replication`, `logs` and `configs`; handlers and the broker import the package. Begin with
`coordinator` (the requests), then `membership` (the step from one generation to the next) and `store` (the records that
survive a restart of the broker).
"""
