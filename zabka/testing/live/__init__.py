"""A live cluster for tests: real processes, driven through the HTTP API; and scripts of the outage library over it.

It imports `zabka.testing.cluster`, the API and the clients; the scripts import `zabka.simulation.scenarios`.  Begin
with `cluster`; its parts are in `nodes`, `topics`, `faults` and `workloads`.  `scenarios` plays scripts, on a `stage`,
with `clients`.
"""
