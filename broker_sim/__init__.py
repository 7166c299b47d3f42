"""The broker: logs, replication, groups, configuration, quotas, and the port that clients speak to.

Its folders import in this order only: `configs`, `quotas`, `logs`, `replication`, `groups`, `handlers`; the modules
beside them put a broker together.  It imports `controller` and `kafka`; the simulated world and `compose` run
it.  Begin with `broker`, which is handed its `broker_ports`, and follow a request through `handlers`.
`broker_process` and `kafka_port` are the shell around it.
"""
