"""All tables of `zabka pipeline tables`, computed again in plain Python to compare the results.

This code was written only from docs/reference/tables.md and docs/reference/events.md: it imports neither the pipeline,
the fold nor the event classes. All nodes must share one monotonic clock, as on a single host, and no wall clock may
step.
"""
