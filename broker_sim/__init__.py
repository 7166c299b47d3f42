"""The broker: logs, replication, groups, configuration, quotas, and the port for clients.

Its packages import in this order only: `configs`, `quotas`, `logs`, `replication`, `groups`, `handlers`; the modules at
the top assemble a broker. It imports `controller` and `kafka`; the simulated world and `compose` run it. Begin with
`broker`, which receives its `broker_ports`, and follow a request through `handlers`. `broker_process` and `kafka_port`
are the shell around it.
"""
