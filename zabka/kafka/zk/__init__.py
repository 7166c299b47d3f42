"""Kafka in ZooKeeper: what its znodes hold, and the transactions by which brokers and controllers change them.

`znodes` are the formats, `coordination` is the client with its retries and fenced writes (KafkaZkClient),
`registration` puts brokers and controllers into the tree.  It imports `ensemble`; controller, brokers and workloads
import it.  Begin with `znodes.paths`, then `coordination`.
"""
