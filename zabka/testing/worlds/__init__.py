"""A simulated cluster for tests: implements the interface of `zabka.testing.cluster` with a `World`.

The package imports simulation and `zabka.testing.cluster`. To learn the code, read `cluster` first. `host` is the
machine from which the test sends requests, and the parts of the cluster are in `nodes`, `topics`, `faults` and
`workloads`.
"""
