"""The Kafka controller: election through /controller, epoch fencing, state machines, control requests.

Every broker runs a controller (kafka.controller, ZooKeeper mode). The package itself does no I/O. It imports `kafka`,
`ensemble` and `journal`; `broker_sim` and the packages above import it. To learn the code, begin with `controller`;
`event_signals` lists its events, `term` contains the state of an active controller, and `failover` contains the first
steps of a new controller.
"""
