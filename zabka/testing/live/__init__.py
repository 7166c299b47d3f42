"""A live cluster under test: real processes, driven through the HTTP API; and scripts of the outage library over it.

Stands on `zabka.testing.cluster`, the API and the clients; the scripts on `zabka.simulation.scenarios`.  Begin with
`cluster`; what it hands out is in `nodes`, `topics`, `faults` and `workloads`.  `scenarios` plays scripts, on a
`stage`, by `clients`.
"""
