"""Checkers of a simulated world: compare what nodes report with their disks, their memory and each other.

They read the state of nodes; nodes never call them. Violations are journalled as `invariant_violated`. `platters`
compares the reports of peers with the bytes on their disks, `replication_audit` checks the invariants of
kafka-specification on brokers, and `settled` checks whether brokers have recovered.

The package uses `engine`, `filesystem` and `record`; `cluster`, the packages above it and `zabka.testing` import it.
Invariants that need only the journal are in `zabka.journal.checkers`, and the invariants of the bare protocol are in
`zabka.simulation.steps.rules`. To learn the code, read `platters` first.
"""
