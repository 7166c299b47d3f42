"""The broker: logs, replication, groups, configuration, quotas, and the port for clients.

Each package imports only packages before it in this list: `configs`, `quotas`, `logs`, `replication`, `groups`,
`handlers`. The top-level modules assemble a broker. It imports `controller` and `kafka`; the simulated world and
`compose` run it. Begin with `broker`, which receives its `broker_ports`, and follow a request through `handlers`.
`broker_process` and `kafka_port` do the I/O.
"""
