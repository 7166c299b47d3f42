"""Kafka in ZooKeeper: the content of its znodes, and the transactions of brokers and controllers.

`znodes` has the formats, `coordination` is the client with its retries and fenced writes (KafkaZkClient),
`registration` registers brokers and controllers. The package imports `ensemble`; controller, brokers and workloads
import it. To learn the code, read `znodes.paths` first, then `coordination`.
"""
