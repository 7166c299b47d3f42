"""Clients in a simulated world that generate load and check the replies they receive.

Writers, watchers and readers of the ensemble, producers and consumer groups of the brokers, and a client that
changes the ensemble's membership.  Each keeps its `violations`.  The package builds on `world` and the clients of
ensemble and kafka_protocol; seeds and tests may import it.  Begin with `writer`.
"""
