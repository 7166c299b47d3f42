"""A small Kafka client for producers, consumers and administrators, and the workloads built on it.

It awaits only the results of its ports, so it runs over sockets and in the simulated world. It imports `wire`, `zk` and
the record modules; tools, the API, workloads and tests import it. To learn the code, read `client` first (metadata,
produce, fetch), then `admin_client`, `group_client` and `workload`.
"""
