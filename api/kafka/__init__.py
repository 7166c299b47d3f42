"""The API as a client of the brokers: topics, configurations, elections and workloads.

`kafka_client` creates the client, `cluster_admin` requests changes, `workloads` produce and consume. Routes, the
command line and the fixtures import this package. To learn the code, begin with `cluster_admin`.
"""
