"""Runs: the histories that can be rewound.  `live` is the cluster's own, which the collector keeps; every other one was
kept: a play of a script or a seed, or an upload.

A `History` gives numbered events, and folded states from which folding may begin; `Rewind` makes of it the state at any
number.  `Runs` finds a run by its id, and `KeptRuns` has those that are kept, in a directory each.  Only the routes and
the services of `api` import this package.  Begin with `catalogue`.
"""
