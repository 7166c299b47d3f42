"""What speaks Kafka and is no broker: messages and their bytes, records, znodes, and a small client.

Controller, brokers, workloads and tools all build on it.  It imports `ensemble` and `journal`; every room above may
import it.  Begin with `ports` (what a request to a broker is) and `record_batch`; then `wire`, `zk` and `client`.
`channel` (connections over sockets) and `wire.frames` are shells; all else is pure.
"""
