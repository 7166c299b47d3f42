"""Kafka's protocol without the broker: messages and their bytes, records, znodes, and a small client.

Controller, brokers, workloads and tools are built on it.  It imports `ensemble` and `journal`; every package above may
import it.  Begin with `ports` (the interface of a request to a broker) and `record_batch`; then `wire`, `zk` and
`client`.  `channel` (connections over sockets) and `wire.frames` do I/O; everything else is pure.
"""
