"""A simulated cluster for tests: the interface of `zabka.testing.cluster` over a simulated `World`.

It imports simulation and `zabka.testing.cluster`.  Begin with `cluster`; `host` is the test's own host, and the parts
of the cluster are in `nodes`, `topics`, `faults` and `workloads`.
"""
