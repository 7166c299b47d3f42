"""Clients in a simulated world that generate load and check the replies they receive.

Writers, watchers and readers of the ensemble, producers and consumer groups of the brokers.  Each keeps its
`violations`.  The package builds on `cluster` and the clients of
ensemble and kafka_protocol; seeds and tests may import it.  Begin with `writer`.
"""
