"""The judges of a simulated world: what nodes say and hold, compared with their disks and with one another.

They look into nodes and are never asked by them; what does not hold goes to the journal as `invariant_violated`.
`rules` and `peer_audit` are ZAB's (what may be acknowledged), `replication_audit` is kafka-specification's invariants
over brokers, `settled` says whether brokers have recovered.  Stands on `nodes` and what is below; the world calls them,
and cores take `rules`.  Invariants that need the journal alone are in `zabka.journal.judges`.  Begin with `rules`.
"""
