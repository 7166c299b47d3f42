"""A live cluster for tests: real processes, controlled through the HTTP API.  It can also run outage library scripts.

The package imports `zabka.testing.cluster`, the API and the clients; the scripts import `zabka.simulation.scenarios`.
To learn the code, begin with `cluster`; its parts are in `nodes`, `topics`, `faults` and `workloads`. `scenarios` runs
scripts on a `stage` with `clients`.
"""
