"""Every table of `zabka pipeline tables`, computed again in plain Python.

Written from docs/reference/tables.md and docs/reference/events.md alone: nothing here imports the pipeline, the fold or
the event classes.  The nodes must share one monotonic clock, as they do on one host, and no wall clock may step.
"""
