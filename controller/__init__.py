"""The Kafka controller: the race for /controller, epoch fencing, state machines, elections, control requests.

Every broker carries one (kafka.controller, ZooKeeper mode); all of it is pure.  It imports `kafka`,
`ensemble` and `journal`; `broker_sim` and the rooms above import it.  Begin with `controller`, whose events
`event_signals` names; `reign` is what an active one knows, and `failover` what it does first.
"""
