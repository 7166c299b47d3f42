"""The simulated world: a whole cluster in virtual time, from one seed, byte for byte the same at every run.

Peers and brokers run the production code of their processes; clocks, sockets, disks and signals are simulated.  All
time comes from `engine.scheduler` and all randomness from `draws`: there is no other clock, no thread and no other
source of randomness.

The packages, lowest first; each imports only from those before it: `choices` and `draws`; `filesystem`; `engine`
(virtual time, event loop, sockets, machines); `settings` and `record`; `checkers`; `cluster` (machines with servers,
and worlds of them); `workloads`; `faults`; `seeds` (scenarios that draw their faults); `steps` (the bare protocol, one
step at a time); `scenarios` (scripts and lessons, over worlds or steps); `run`; `search`.  Simulation builds on
broker_sim and all below it; api, pipeline, testing, tools, bench and the tests may import it.

Begin with `cluster.world`, then `seeds.seed_run` for how a seed is run, and `faults.chaos` for its faults.
"""
