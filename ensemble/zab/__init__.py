"""ZAB: fast leader election, discovery, synchronisation and broadcast, as a state machine without I/O.

`peer.Peer` takes what happened (a packet, a timer, a barrier that is durable) and returns the effects to carry out.  It
orders transactions and knows nothing of znodes: what is replicated stands behind `application.Application`.  It imports
the records, `txn`, `tree_snapshot`, `tree_rules` and `auth`; `tree`, `txnlog` and `server` import it.  Begin with
`peer`, then `leader` and `broadcast`, `learner` and `following`; `application` and `effects` are its two ports.
"""
