"""Clients in a simulated world that keep the cluster busy and know what they may be told.

Writers, watchers and readers of the ensemble, producers and consumer groups of the brokers, and a client that changes
the ensemble's membership; each keeps its `violations`.  Stands on `world` and the clients of ensemble and
kafka_protocol; seeds may import it, and tests.  Begin with `writer`.
"""
