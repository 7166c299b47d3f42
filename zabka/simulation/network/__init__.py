"""The network of a simulated world: links with latency, cuts and delays, and what clients and nodes send over them.

Stands on `kernel`, the codecs of ensemble's server and kafka_protocol; nodes, workloads, faults, scenarios and search's
cores may import it.  Begin with `network` (hosts, connections, faults); `addresses` names who listens where, `wire`
turns messages between peers into bytes in wire mode, `connector` and `channel` are the ports of ZooKeeper's and Kafka's
clients.
"""
