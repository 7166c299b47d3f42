"""A simulated cluster for tests: implements the interface of `zabka.testing.cluster` with a simulated `World`.

The package imports simulation and `zabka.testing.cluster`. Begin with `cluster`; `host` is the machine from which the
test sends requests, and the parts of the cluster are in `nodes`, `topics`, `faults` and `workloads`.
"""
