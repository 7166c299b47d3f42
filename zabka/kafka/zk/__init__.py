"""Kafka in ZooKeeper: the content of its znodes, and the transactions with which brokers and controllers change them.

`znodes` are the formats, `coordination` is the client with its retries and fenced writes (KafkaZkClient),
`registration` registers brokers and controllers.  It imports `ensemble`; controller, brokers and workloads import it.
Begin with `znodes.paths`, then `coordination`.
"""
