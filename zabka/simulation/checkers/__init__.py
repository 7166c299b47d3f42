"""Checkers of a simulated world: compare the messages and the memory of nodes with their disks and with each other.

They read the state of nodes; nodes never call them.  A violation is journalled as `invariant_violated`.  `rules` and
`peer_audit` are ZAB's rules (what a peer is allowed to acknowledge), `replication_audit` has the invariants of
kafka-specification over brokers, and `settled` checks whether brokers have recovered.  The package builds on `nodes`
and the layers below; the world calls it, and cores use `rules`.  Invariants that need only the journal are in
`zabka.journal.judges`.  Begin with `rules`.
"""
