"""The broker: logs, replication, groups, configuration, quotas, and the port for clients.

Each package imports only packages before it in this list: `configs`, `quotas`, `logs`, `replication`, `groups`,
`handlers`. The top-level modules combine them into a broker and import `controller` and `kafka`; the simulated world
and `compose` run the broker. To learn the code, read `broker` first, which does all I/O through its `broker_ports`, and
then follow a request through `handlers`. `broker_process` and `kafka_port` do the I/O of a real process.
"""
