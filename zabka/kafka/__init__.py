"""Kafka's protocol without the broker: messages and their encoding, records, znodes, and a small client.

The controller, brokers, workloads and tools use this package. It imports `ensemble` and `journal`; every higher package
may import it. To learn the code, read `ports` (the interface for sending a request to a broker) and `record_batch`
first; then `wire`, `zk` and `client`. `channel` (connections over sockets) and `wire.frames` do I/O; all other modules
are pure.
"""
