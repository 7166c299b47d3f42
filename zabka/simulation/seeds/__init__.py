"""Scenarios with randomly chosen faults: chaos, calm, only peers, reconfiguring, read-only, disks, swarms.

Most are a `SeedScenario`: its name, the shape of its world, and the function that runs it. `whole_ensemble` and
`whole_cluster` are subclasses of `WholeRun` instead, which also choose configuration keys and episodes at random.

Builds on `cluster`, `faults` and `workloads`; `zabka.simulation.run` (with the table of all scenarios), `search`, cli
and pipeline import it. To learn the code, read `seed_run` (boot, faults, recovery) first, then `chaos`; a new scenario
is a module here and a name in that table.
"""
