"""Runs: recorded histories whose state can be computed at any event.

The run `live` is the history of the live cluster, which the collector stores. Every other run is stored separately: a
scenario, a seed, or an upload.

A `History` provides numbered events, and folded states as starting points for folding. `Rewind` computes the state at
any event number. `Runs` finds a run by its id, and `KeptRuns` contains the stored ones, each in its own directory. Only
the routes and the services of `api` import this package. To learn the code, read `catalogue` first.
"""
