"""A simulated cluster under test: the surface of `testing.cluster` over a `simulation.world.World`.

Stands on simulation and `testing.cluster`.  Begin with `cluster`; `host` is where the test itself stands, and what the
cluster hands out is in `nodes`, `topics`, `faults` and `workloads`.
"""
