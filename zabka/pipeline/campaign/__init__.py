"""Campaigns: combinations of settings and seeds in the simulated world, run as Spark tasks and compared.

`definition` reads a campaign's file, and `design` creates its points (combinations of settings). `play` runs one seed
at one point, and `measures` folds its journal into figures. `engine` submits the runs to Spark and stores the results
in a `ledger`, so that no run is repeated. `statistics` computes estimates, `stopping` decides whether there are enough
seeds, and `report` writes the results. `observed` derives a campaign's file from a live cluster's journals.

`cli` may import this package, which imports `pipeline` and `simulation`. To learn the code, read `engine` first.
"""
