"""Checkers of a simulated world: compare what nodes report with their disks, their memory and each other.

They read the state of nodes; nodes never call them.  A violation is journalled as `invariant_violated`.  `platters`
checks peers against the bytes of their disks, `replication_audit` has the invariants of kafka-specification over
brokers, and `settled` checks whether brokers have recovered.

Builds on `engine`, `filesystem` and `record`; `cluster`, the packages above it and `zabka.testing` import it.
Invariants that need only the journal are in `zabka.journal.checkers`, those of the bare protocol in
`zabka.simulation.steps.rules`.  Begin with `platters`.
"""
