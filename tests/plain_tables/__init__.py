"""Every table of `zabka pipeline tables`, computed again in plain Python for comparison.

This code follows only docs/reference/tables.md and docs/reference/events.md: it imports neither the pipeline, the
fold nor the event classes. All nodes must share one monotonic clock, as on a single host, and no wall clock may
step.
"""
