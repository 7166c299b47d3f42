"""A simulated cluster under test: the surface of `zabka.testing.cluster` over a `zabka.simulation.world.World`.

Stands on simulation and `zabka.testing.cluster`.  Begin with `cluster`; `host` is where the test itself stands, and
what the cluster hands out is in `nodes`, `topics`, `faults` and `workloads`.
"""
