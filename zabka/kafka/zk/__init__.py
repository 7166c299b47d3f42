"""Kafka in ZooKeeper: the content of its znodes, and the transactions by which brokers and controllers change it.

`znodes` has the formats, `coordination` is the client with its retries and fenced writes (KafkaZkClient),
`registration` registers brokers and controllers. The package imports `ensemble`; controller, brokers and workloads
import it. Begin with `znodes.paths`, then `coordination`.
"""
