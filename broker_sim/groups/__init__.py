"""Consumer groups: the coordinator's state machine, and what it keeps in `__consumer_offsets`.

It imports `replication`, `logs` and `configs`; handlers and the broker import it.  Begin with `coordinator` (what
clients may ask), then `membership` (how a group comes from one generation to the next) and `store` (what outlives a
broker).
"""
