"""The simulated world: a whole cluster in virtual time. The same seed gives the same run, byte for byte.

Two engines run the code.  `cluster.world` runs the production processes of peers and brokers; their clocks, sockets,
disks and signals are simulated.  `steps` runs the bare protocol, one packet or fsync at a time.  All time comes from
`engine.scheduler` and all randomness from `draws`: there is no other clock, no thread and no other source of
randomness.

The layers, lowest first; each imports only from those before it:

choices, draws      recorded choices, and random streams derived from a seed
filesystem          a host's file system in memory
engine              virtual time, event loops, TCP, machines,
                    and observers of messages
settings, record    a world's config keys, and its journal
checkers            compare reports of nodes with their disks and with each other
cluster             machines with peers, brokers and clients, and worlds of them
workloads           clients that generate load and check the replies
faults              faults, random or chosen
seeds               scenarios with random faults
steps               the bare protocol; imports none of the others
scenarios           scripts and lessons, in a world or with steps
run                 one seed of any scenario
search              exhaustive search, and search by changed choices

Simulation builds on broker_sim and all packages below it; api, cli, pipeline, testing and the tests import it.  Begin
with `cluster.world`, then `seeds.seed_run` for how a seed is run, and `faults.chaos` for its faults.
"""
