"""The simulated world: a whole cluster in virtual time, from one seed, byte for byte the same at every run.

The nodes are the ones that run as processes; clocks, network, disks and signals around them are simulated, and whatever
a node does is judged as it happens.  All time comes from `kernel.scheduler`, all chance from `kernel.draws`: there is
no other clock, no thread and no other source of randomness.

The rooms, lowest first, each importing from those before it alone: `kernel`; `network`, `disks` and `filesystem`;
`settings`, `record` and `processes` (whole processes: event loop, sockets, clocks); `nodes`; `judges`; `world`;
`faults` and `workloads`; `seeds` (scenarios that draw their faults); `serving` (ensembles of whole processes); `cores`
(the bare protocol, a step at a time, on `disks`, `network` and `judges`); `scenarios` (scripts over `world` or
`cores`); `search` (over `cores`); `run`.  Simulation stands on broker_sim and all below it; api, pipeline, testing,
tools, bench and the tests may import it.

Begin with `world`, then `seeds.seed_run` for how a seed is run, and `faults.chaos` for what is done to it.
"""
