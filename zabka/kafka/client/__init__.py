"""A small Kafka client for producers, consumers and administrators, and the workloads built on it.

It awaits only what its ports return, so it runs on sockets and in the simulated world alike.  It imports `wire`, `zk`
and records; tools, the API, workloads and tests import it.  Begin with `client` (metadata, produce, fetch), then
`admin_client`, `group_client` and `workload`.
"""
