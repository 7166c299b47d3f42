"""The API as a client of the brokers: topics, configurations, elections and workloads.

`kafka_client` makes the client, `cluster_admin` asks for changes, `workloads` produce and consume.  Routes, the command
line and the fixtures import this package.  Begin with `cluster_admin`.
"""
