"""ZAB: fast leader election, discovery, synchronisation and broadcast, as a state machine without I/O.

`peer.Peer` processes an event (a packet, a timer, a durable barrier) and returns the effects to execute. It orders
transactions and does not depend on znodes: the replicated service implements `application.Application`. The package
imports the records, `txn`, `tree_snapshot`, `tree_rules` and `auth`; `tree`, `txnlog` and `server` import it.

To learn the code, read `peer` first, then `leader` and `broadcast`, then `learner` and `following`. `application` and
`effects` are the two interfaces of the package.
"""
