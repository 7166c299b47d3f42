"""Campaigns: settings times seeds in the simulated world, played as Spark tasks, measured, compared and reported.

A campaign's file is read by `definition` and laid out by `design`.  `play` runs one seed under one setting, and
`measures` folds its journal into figures.  `engine` hands the runs to Spark and keeps what comes back in a `ledger`, so
that nothing is played twice; `statistics` says what is known of the figures, `stopping` when it is enough, and `report`
tells it.  `observed` makes a campaign's file of a live cluster's journals.

`cli` may import it; it imports `pipeline` and `simulation`.  Begin with `engine`.
"""
