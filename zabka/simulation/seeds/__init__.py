"""Scenarios whose faults are drawn from a seed: chaos, calm, the peers alone, reconfiguring, read-only, disks, swarms.

Each is a `SeedScenario`: its name, the shape of its world, and how it is played.  Two are subclasses of `WholeRun`
instead: `whole_ensemble` and `whole_cluster` draw configuration keys and episodes, too.

Builds on `cluster`, `faults` and `workloads`; `zabka.simulation.run`, which holds the table of all scenarios, `search`,
cli and pipeline import it.  Begin with `seed_run` (boot, faults, recovery), then `chaos`; a new scenario is a module
here and a name in that table.
"""
